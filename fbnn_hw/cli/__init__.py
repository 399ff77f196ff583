"""The command `fbnn-hw`: one file per verb in this folder, `chip-cil` in chip_cil.py.

A verb is a module with GROUP (a key of `GROUPS`), SUMMARY (one line), EXAMPLES (tuples of command and what it does),
`arguments(parser)` and `run(args, out)`, where `out` is a `_common.Output`.  `run` returns None or an exit code.  EXTRA: the extra of
fbnn-hw that a verb with torch needs.  A verb's module is imported when it is called or listed, so it imports what is heavy inside `run`.
"""

import importlib
import io
import os
import pkgutil
import signal
import sys
import traceback
import warnings
from contextlib import ExitStack, suppress
from typing import Any, NoReturn

from .. import __version__
from ..base import extras
from ..base.errors import FbnnError, UsageError, nearest
from . import _pages
from ._common import Output, Parser

PROGRAM = "fbnn-hw"
GROUPS = {"make": "make a network, and hardware of it", "check": "look at what there is", "board": "boards",
          "learn": "teach a board", "research": "class-incremental learning"}
"""What the verbs are for, in the order of the overview."""
OUT_OF_MEMORY = ("can't allocate memory", "CUDA out of memory")  # torch's RuntimeError on the host and on a GPU


def verbs() -> list[str]:
    """Names of the verbs, sorted: the files of this folder."""
    names = [m.name for m in pkgutil.iter_modules(__path__)]
    return sorted(name.replace("_", "-") for name in names if not name.startswith("_"))


def load(verb: str) -> Any:
    """The module of a verb; raises UsageError naming the nearest one."""
    if verb not in verbs():
        raise UsageError(f"{verb}: no such command, expected one of {', '.join(verbs())}"
                         f"{nearest(verb, (*verbs(), 'help', '--help', '--version'))}")
    return importlib.import_module(f"{__name__}.{verb.replace('-', '_')}")


def overview() -> str:
    """The text of `fbnn-hw --help`."""
    width = max(map(len, verbs()))
    lines = [f"usage: {PROGRAM} COMMAND [flags]", "", "Fully-binary neural networks, from PyTorch to Verilog that gives the same bits.", ""]
    for group, title in GROUPS.items():
        own = [verb for verb in verbs() if getattr(load(verb), "GROUP", "learn") == group]
        lines += [f"{title}:", *(f"  {verb:{width}}  {load(verb).SUMMARY}" for verb in own), ""]
    lines += [f"{PROGRAM} COMMAND --help explains one command, with examples; {PROGRAM} --version prints the version.",
              f"{PROGRAM} help PAGE prints a page of the documentation:", ""]
    pages = _pages.pages(verbs())
    width = max(map(len, pages), default=0)
    return "\n".join([*lines, *(f"  {name:{width}}  {_pages.title(path)}" for name, path in pages.items())])


def explanation(name: str) -> str:
    """The text of `fbnn-hw help NAME`: the help of a verb, or a page; raises UsageError naming the nearest one."""
    pages = _pages.pages(verbs())
    if name in verbs():
        more = f"\nsee also: {PROGRAM} help {name}.md" if f"{name}.md" in pages else ""
        return parser(name).format_help().rstrip("\n") + more
    if path := pages.get(name) or pages.get(name.removesuffix(".md")):
        return path.read_text(encoding="utf-8").rstrip("\n")
    names = (*verbs(), *pages)
    raise UsageError(f"{name}: no such command or page, expected one of {', '.join(names)}{nearest(name, names)}")


def parser(verb: str) -> Parser:
    """The argument parser of a verb, common flags included."""
    module = load(verb)
    examples = "\n".join(f"  {command}\n      {what}" for command, what in module.EXAMPLES)
    flags = Parser(prog=f"{PROGRAM} {verb}", description=module.SUMMARY, epilog=f"examples:\n{examples}")
    module.arguments(flags)
    group = flags.add_argument_group("output")
    group.add_argument("--json", action="store_true", help=f"one JSON object on stdout instead of text ({PROGRAM} help json)")
    group.add_argument("-v", "--verbose", action="store_true", help="details, warnings, and a traceback when something fails")
    return flags


def main(argv: list[str] | None = None, interrupt: Any = None) -> int:
    """Run one command line (sys.argv if None); returns the exit code: 0, 130 after Ctrl-C, or that of the error's class.

    interrupt: what hears Ctrl-C, as in `fbnn_hw.__main__`.
    """
    for name in ("stdout", "stderr"):  # a shell's 2>&- closes one, and print would take the other for it
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))
    argv = list(sys.argv[1:] if argv is None else argv)
    verb = argv[0] if argv else "--help"
    program = f"{PROGRAM} {verb}" if verb in verbs() else PROGRAM
    out = Output(program, json="--json" in argv, verbose=bool({"-v", "--verbose"} & set(argv)))
    try:
        if interrupt:
            interrupt.answer, out.answered = out.interrupted, interrupt.answered
        if isinstance(sys.stdout, io.TextIOWrapper):  # a class may have any printable name
            sys.stdout.reconfigure(errors="backslashreplace")
        code = run(verb, argv, out)
        flush()  # a broken pipe shows here
        if interrupt:
            interrupt.check()
        return code or 0
    except SystemExit as leave:  # --help of a verb
        return int(leave.code or 0)
    except KeyboardInterrupt:
        return fail(out, f"interrupted; {out.kept}", 130)
    except FbnnError as error:
        return fail(out, str(error), error.exit_code, error.result)
    except BrokenPipeError:  # the reader of a pipe, such as head, has gone
        hush()
        return 141
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return fail(out, f"{where}{error.strerror or error}", 3)
    except Exception as error:
        if isinstance(error, MemoryError) or any(words in str(error) for words in OUT_OF_MEMORY):
            return fail(out, "out of memory; use fewer images or a smaller model", 1)
        return fail(out, f"internal error, {type(error).__name__}: {error}; run again with -v and report the traceback", 1)


def command(interrupt: Any = None) -> NoReturn:
    """The program: `main`, whose exit code stands even if Ctrl-C comes after its work is done.  interrupt: as in `main`."""
    if "_ARGCOMPLETE" in os.environ:
        from ._completion import complete

        complete(verbs(), parser)
    try:
        code = main(interrupt=interrupt)
        for name in ("SIGINT", "SIGTERM", "SIGHUP"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), signal.SIG_IGN)
    except KeyboardInterrupt:  # between two instructions of `main` that handle it
        code = 130
    if code == 130:  # Python would end by the signal, not by the code, where Ctrl-C came inside an exec of a text, as of a data class
        for file in (sys.stdout, sys.stderr):
            with suppress(OSError, AttributeError):
                file.flush()
        os._exit(code)
    sys.exit(code)


def run(verb: str, argv: list[str], out: Output) -> int | None:
    """Parse `argv` and run its verb, or print what --help and --version ask for; returns the verb's exit code."""
    if verb == "help" and len(argv) > 2:
        raise UsageError(f"unknown argument {argv[2]}; see {PROGRAM} --help")
    if verb == "help" and len(argv) > 1:
        print(explanation(argv[1]))
    elif verb in ("-h", "--help", "help"):
        print(overview())
    elif verb in ("-V", "--version"):
        print(f"{PROGRAM} {__version__}")
    else:
        try:
            args = parser(verb).parse_args(argv[1:])
        except SystemExit as leave:  # --help
            return int(leave.code or 0)
        args.argv = argv
        out.json, out.verbose = args.json, args.verbose
        if not out.verbose:  # warnings of Python are for developers
            warnings.simplefilter("ignore")
        module = load(verb)
        if hasattr(module, "EXTRA"):
            extras.load("torch", module.EXTRA, f"fbnn-hw {verb}")
        with ExitStack() as args.held:  # what a verb holds until it ends, such as the lock of a run
            return module.run(args, out)
    return 0


def fail(out: Output, message: str, code: int, result: dict | None = None) -> int:
    """One line on stderr (after the traceback, with -v), the error as JSON with --json; returns the exit code."""
    if out.verbose:
        traceback.print_exc()
    try:
        out.error(message, code, result)
        flush()
    except OSError:  # stdout is what failed
        hush()
    return code


def flush() -> None:
    if sys.stdout:  # None where it is closed
        sys.stdout.flush()


def hush() -> None:
    """Discard whatever is still to be written to stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
