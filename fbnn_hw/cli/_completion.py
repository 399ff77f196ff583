"""What a shell offers for the line that is being typed: verbs, then a verb's flags, their choices, files.

A shell asks by variables that argcomplete knows: eval "$(register-python-argcomplete fbnn-hw)" makes it do so.
"""

import argparse
import os
from collections.abc import Callable
from typing import Any

import argcomplete


def complete(verbs: list[str], parser: Callable[[str], argparse.ArgumentParser], **options: Any) -> None:
    """Answer the shell and end the process.  verbs: names; parser(verb): its parser; options: of argcomplete.autocomplete."""
    typed = os.environ["COMP_LINE"][:int(os.environ.get("COMP_POINT") or 4096)]
    words = typed.split()
    if len(words) > 1 and words[1] in verbs and (len(words) > 2 or typed[-1:].isspace()):
        os.environ["_ARGCOMPLETE"] = "2"  # the verb stands where a program's name does
        wanted = parser(words[1])
    else:
        wanted = argparse.ArgumentParser()
        wanted.add_argument("verb", choices=[*verbs, "help"])
    argcomplete.autocomplete(wanted, always_complete_options="long", **options)
