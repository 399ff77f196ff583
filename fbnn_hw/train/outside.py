"""Strategies and scenarios of other people: `module:Name` on the command line.  No torch here."""

import importlib
import os
import sys
import traceback

from ..errors import UsageError


def load(text, flag):
    """The object that `text`, "module:Name", names.  Modules are looked for in the current folder too.

    Importing a module runs it: `text` comes from the command line alone, never from a file.
    Raises UsageError where there is no such module or name.
    """
    module, _, name = text.partition(":")
    if not module or module.startswith("."):
        raise UsageError(f"{flag} {text}: expected module:Name, such as mine:Mine")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        library = importlib.import_module(module)
    except ImportError as error:
        raise UsageError(f"{flag} {text}: {error}, expected module:Name of a module that can be imported here") from None
    except Exception as error:
        raise _fault(flag, text, error) from None
    if not hasattr(library, name):
        raise UsageError(f"{flag} {text}: {library.__file__} has no {name or 'name after the colon'}, expected one that it defines")
    return getattr(library, name)


def _fault(flag, text, error):
    """UsageError for an error in the code of a module that is imported."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    file, line = (error.filename, error.lineno) if isinstance(error, SyntaxError) else (place.filename, place.lineno)
    said = error.msg if isinstance(error, SyntaxError) else error
    return UsageError(f"{flag} {text}: {type(error).__name__} in {file}, line {line}: {said}; expected a module that can be imported")
