"""Strategies and scenarios of other people: `module:Name` on the command line.  No torch here."""

import importlib
import os
import sys

from ..errors import UsageError


def load(text, flag):
    """The object that `text`, "module:Name", names.  Modules are looked for in the current folder too.

    Importing a module runs it: `text` comes from the command line alone, never from a file.
    Raises UsageError where there is no such module or name.
    """
    module, _, name = text.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        library = importlib.import_module(module)
    except ImportError as error:
        raise UsageError(f"{flag} {text}: {error}, expected module:Name of a module that can be imported here") from None
    except ValueError:
        raise UsageError(f"{flag} {text}: expected module:Name, such as mine:Mine") from None
    if not hasattr(library, name):
        raise UsageError(f"{flag} {text}: {library.__file__} has no {name or 'name after the colon'}, expected one that it defines")
    return getattr(library, name)
