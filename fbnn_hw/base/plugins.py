"""Classes of other people, named as `module:Name`: strategies, scenarios and the platforms of boards."""

import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import Any

from .errors import FbnnError, UsageError


def load(text: str, what: str, here: bool = False) -> Any:
    """The object that `text`, "module:Name", names.

    Importing a module runs it; what it prints goes to stderr.  what: what the text is, for messages, such as "--strategy a:B".
    here: look for modules in the current folder too; the text then comes from the command line alone, never from a file.
    Raises UsageError where there is no such module or name.
    """
    module, _, name = text.partition(":")
    if not module or module.startswith("."):
        raise UsageError(f"{what}: expected module:Name, such as mine:Mine")
    if here and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        with redirect_stdout(sys.stderr):
            library = importlib.import_module(module)
    except ImportError as error:
        raise UsageError(f"{what}: {error}, expected module:Name of a module that can be imported here") from None
    except Exception as error:
        raise _fault(what, error) from None
    if not hasattr(library, name):
        file = getattr(library, "__file__", module)
        raise UsageError(f"{what}: {file} has no {name or 'name after the colon'}, expected one that it defines")
    return getattr(library, name)


@contextmanager
def blaming(text: str, what: str) -> Iterator[None]:
    """Raises UsageError for an error that comes out of the module of `text`, "module:Name"; all others, and other texts, are left alone.

    What is printed meanwhile goes to stderr, because stdout is for the result.
    what: as of `load`.
    """
    try:
        with redirect_stdout(sys.stderr):
            yield
    except FbnnError:
        raise
    except (Exception, SystemExit) as error:
        module, colon, _ = text.partition(":")
        file = getattr(sys.modules.get(module), "__file__", None) if colon else None
        places = [place for place in traceback.extract_tb(error.__traceback__) if place.filename == file]
        if not places or module.partition(".")[0] == __package__.partition(".")[0]:
            raise
        raise UsageError(f"{what}: {type(error).__name__} in {file}, line {places[-1].lineno}: {error}") from error


def _fault(what, error):
    """UsageError for an error in the code of a module that is imported."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    file, line = (error.filename, error.lineno) if isinstance(error, SyntaxError) else (place.filename, place.lineno)
    said = error.msg if isinstance(error, SyntaxError) else error
    return UsageError(f"{what}: {type(error).__name__} in {file}, line {line}: {said}; expected a module that can be imported")
