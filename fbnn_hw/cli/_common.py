"""Code that the verbs share: a parser whose errors are one line, the output, progress bars, and flags of several verbs."""

import argparse
import csv
import io
import json
import math
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from os.path import realpath
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ..base import extras, files
from ..base.errors import InputError, UsageError, nearest

if TYPE_CHECKING:
    from ..data.datasets import Images
    from ..design import Design
    from ..ir.network import Network

JSON_VERSION = 2
"""The key json_version of the objects that --json prints; docs/json.md says what may change under it."""
PROGRESS_DELAY_S = 2
NEGATIVE = re.compile(r"-(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$|-inf$", re.IGNORECASE)


Args = argparse.Namespace
"""The flags of a command line, as its verb reads them."""


class Parser(argparse.ArgumentParser):
    """argparse with errors as UsageError, whole flag names only, and help texts printed as written."""

    def __init__(self, **kwargs):
        super().__init__(formatter_class=_Help, allow_abbrev=False, **kwargs)
        self._negative_number_matcher = NEGATIVE  # argparse takes -1e-3 for a flag

    def parse_args(self, args=None, namespace=None):
        """Parse as argparse does, after two checks.

        An unknown flag is refused with the nearest one.  An empty value is refused where the default is None,
        since a shell makes one of an unset variable.
        """
        words = list(sys.argv[1:] if args is None else args)
        for word in words[:words.index("--") if "--" in words else None]:
            flag = word.split("=")[0]
            if flag.startswith("--") and " " not in flag and flag not in self._option_string_actions:
                self.error(f"unknown argument {flag}{nearest(flag, self._option_string_actions)}")
        values = super().parse_args(words, namespace)
        for action in self._actions:
            if action.option_strings and getattr(values, action.dest, None) == "" != action.default:
                self.error(f"{action.option_strings[0]}: found '', expected a value")
        return values

    def _print_message(self, message, file=None):
        (file or sys.stderr).write(message)  # argparse drops what cannot be written

    def _check_value(self, action, value):
        if action.choices is not None and value not in action.choices:
            flag = "/".join(action.option_strings) or action.metavar or action.dest
            legal = [", ".join(map(str, action.choices))] if action.choices else []
            legal += [action.choices.more] if hasattr(action.choices, "more") else []
            self.error(f"{flag} {value}: expected {'one of ' if action.choices else ''}{', or '.join(legal)}"
                       f"{nearest(value, action.choices)}")

    def error(self, message: str) -> NoReturn:
        for prefix, text in (("unrecognized arguments: ", "unknown argument "), ("the following arguments are required: ", "missing ")):
            if message.startswith(prefix):
                message = text + message[len(prefix):]
        word = message.removeprefix("unknown argument ").split(" ")[0]
        place = f"; ./{word} is the file of that name, as is {word} after --" if word.startswith("-") and os.path.exists(word) else ""
        raise UsageError(f"{message.removeprefix('argument ')}{place}; see {self.prog} --help")


def completed(action: argparse.Action, names: Callable[[], Iterable[str]], files: bool = True) -> None:
    """Let a shell offer `names` for a flag's value, and files too: argcomplete asks an attribute that argparse does not know."""
    def offered(prefix, **_):
        from argcomplete.completers import FilesCompleter

        return [*names(), *(FilesCompleter()(prefix) if files else ())]

    action.completer = offered  # type: ignore[attr-defined]


class _Help(argparse.RawDescriptionHelpFormatter):
    def __init__(self, prog):
        super().__init__(prog, max_help_position=30, width=120)


def command_line(args):
    """The command line of a run, as text that a file can keep: bytes of a path that are no UTF-8 stand as \\udcXX."""
    return kept(shlex.join(["fbnn-hw", *args.argv]))


def kept(text):
    """Text as a file can keep it."""
    return text.encode("utf-8", "backslashreplace").decode()


def failed(message: str, code: int) -> dict[str, Any]:
    """What the object of --json says of an error."""
    return {"error": one_line(message), "exit_code": code}


class Output:
    """The output of a verb.

    With `json`, `result` prints one JSON object on stdout and `text` prints nothing; otherwise `text`
    prints and `result` does not.  kept: what an interrupt leaves; a verb sets it when that changes.
    answered: called when the line that answers an interrupt has been printed.
    """

    def __init__(self, program: str = "fbnn-hw", json: bool = False, verbose: bool = False) -> None:
        self.program, self.json, self.verbose = program, json, verbose
        self.stdout = sys.stdout  # the result's, whatever code of other people is redirected to
        self.kept = "nothing was written"
        self.answered = lambda: None

    def text(self, *lines: Any) -> None:
        """Lines for a person, on stdout."""
        if not self.json:
            for line in lines:
                print(printable(line), file=self.stdout)

    def result(self, values: Any) -> None:
        """The JSON object, its version first: plain values, numpy scalars and arrays, paths; NaN becomes null."""
        if self.json:
            print(self._object(values), file=self.stdout)

    def note(self, message: str) -> None:
        """One line on stderr."""
        print(self._line(message), file=sys.stderr, flush=True)

    def _object(self, values):
        return json.dumps({"json_version": JSON_VERSION, **plain(values)}, allow_nan=False)

    def _line(self, message):
        return printable(f"{self.program}: {one_line(message)}")

    def detail(self, message: str) -> None:
        """One line on stderr with -v alone."""
        if self.verbose:
            self.note(message)

    def error(self, message: str, code: int, result: dict[str, Any] | None = None) -> None:
        """One line on stderr.  With --json, the same on stdout together with `result`."""
        self.note(message)
        self.result({**(result or {}), **failed(message, code)})
        if code == 130:
            self.answered()

    def interrupted(self) -> tuple[str, str]:
        """(line on stderr, text on stdout) that answer an interrupt where nothing can be printed as usual."""
        message = f"interrupted; {self.kept}"
        return self._line(message), f"{self._object(failed(message, 130))}\n" if self.json else ""

    def progress(self, iterable: Any = None, desc: str | None = None, total: int | None = None, initial: int = 0, **kwargs: Any) -> Any:
        """tqdm on stderr that appears after two seconds; `iterable` None gives a bar to be updated by hand."""
        from tqdm import tqdm

        tty = sys.stderr.isatty()
        return tqdm(iterable, desc=desc and printable(desc), total=total, initial=initial, delay=PROGRESS_DELAY_S, leave=False,
                    dynamic_ncols=tty, ascii=not tty, mininterval=0.2 if tty else 10,
                    file=sys.stderr if tty else _Lines(sys.stderr), **kwargs)


class _Lines:
    """A file for tqdm where there is no terminal: each state of the bar is printed as a line."""

    def __init__(self, file):
        self.file = file

    def write(self, text):
        if text := text.strip("\r\n "):
            self.file.write(text + "\n")

    def flush(self):
        self.file.flush()


def one_line(text: Any) -> str:
    return " ".join(str(text).split("\n")).strip()


def printable(text: Any) -> str:
    """A text with its control characters written as escapes: a name of a stranger's file may have such that move a terminal's cursor."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def plain(value: Any) -> Any:
    """Turn a value into types that JSON has."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, str | int | bool):
        return value
    if hasattr(value, "tolist"):  # numpy
        return plain(value.tolist())
    return str(value)


def table(rows: Sequence[Sequence], head: Sequence = ()) -> list[str]:
    """Rows of cells -> aligned lines; numbers to the right."""
    cells = [[f"{c:,}" if isinstance(c, int) else str(c) for c in row] for row in [head, *rows] if row]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    right = [all(isinstance(row[i], int | float) for row in rows) for i in range(len(widths))]
    return ["  ".join(c.rjust(w) if r else c.ljust(w) for c, w, r in zip(row, widths, right)).rstrip() for row in cells]


def number(kind: Callable[[str], Any], legal: Callable[[Any], bool], expected: str) -> Callable[[str], Any]:
    """The type of a flag whose value is an int or a float, `kind`, for which legal(value) is true.  expected: such values, in words."""
    def read(text):
        try:
            value = kind(text)
            if legal(value):
                return value
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"found {text!r}, expected {expected}")

    return read


def up_to(most: int) -> Callable[[str], int]:
    """The type of a flag whose value counts at most `most`."""
    return number(int, lambda v: 1 <= v <= most, f"a whole number from 1 to {most:,}")


count = number(int, lambda v: v >= 1, "a whole number from 1")
natural = number(int, lambda v: v >= 0, "a whole number from 0")
seed = number(int, lambda v: 0 <= v < 2 ** 32, "a whole number from 0, below 2^32")
"""What the generators of numpy and torch take, also when multiplied by 1000."""
positive = number(float, lambda v: 0 < v < math.inf, "a positive number")


def writable(path: Path, *stay: tuple[str, str | Path]) -> None:
    """Raises UsageError where `path` cannot become a file, or is one that stays.

    stay: (what it is, such as "the file of --model", path) of each file that the command reads.
    """
    if kind := files.kind_if_not_file(path):
        raise UsageError(f"{path}: is a {kind}, expected a file name")
    real = realpath(path)
    for what, name in stay:
        if real == realpath(name):
            raise UsageError(f"{path}: is {what}, expected another name")
    folder = next(place for place in path.absolute().parents if place.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"{path}: {folder} is not a folder that can be written, expected a file name in one that can")


def csv_text(rows: Iterable[Sequence]) -> str:
    """Rows as CSV; None is an empty cell."""
    lines = io.StringIO()
    csv.writer(lines, lineterminator="\n").writerows(rows)
    return lines.getvalue()


def named(flag: str, path: str | Path, suffix: str) -> None:
    """Raises UsageError where the file that a flag names has another suffix."""
    if Path(path).suffix != suffix:
        raise UsageError(f"{flag} {path}: expected a file name that ends in {suffix}")


def generated(folder: str | Path) -> Iterator[tuple[str, Path]]:
    """What stays of a design, for `writable`: the files that its manifest names, what boards were or will be taught, and builds."""
    from ..board.pupil import Kept

    folder = Path(folder)
    names = (files.json_object(folder / "manifest.json") or {}).get("files")
    paths = [folder / name for name in ("manifest.json", *(names if isinstance(names, dict) else ()))]
    for kept in Kept(folder, True), Kept(folder, False):
        paths += kept.file, kept.before, kept.lesson
    for path in (*paths, *folder.glob("learned-*.*"), *folder.glob("build-*/*")):
        yield f"a file of the design in {folder}", path


def flags(words: Iterable[str]) -> list[str]:
    """The words of a command line as flags, "--seed" of "--seed=7"; a value stays as it is up to its first "="."""
    return [word.split("=")[0] for word in words]


def once(flag: str, values: Sequence) -> None:
    """Raises UsageError where a flag has the same value twice."""
    for number, value in enumerate(values):
        if value in values[:number]:
            raise UsageError(f"{flag}: found {value} twice, expected each value once")


def listed(flag: str, text: str) -> list[str]:
    """The names of A,B,...; as in CSV, one with a comma or with a blank before it stands in double quotes."""
    try:
        return next(csv.reader([text], skipinitialspace=True, strict=True))
    except csv.Error:
        raise UsageError(f"{flag} {text}: expected names with commas between them, one with a comma or a quote in double quotes") from None


def add_model(parser: Parser, required: bool = True) -> None:
    from ..ir.shipped import names

    completed(parser.add_argument("--model", required=required, metavar="NAME.pt",
                                  help="a checkpoint: a path, or the name of a shipped one such as 3mb.pt"), names)


def add_design(parser: Parser, meaning: str) -> None:
    parser.add_argument("folder", nargs="?", metavar="DIR", help=f"{meaning} (default: the youngest folder in rtl_out)")


def design(args: Args, out: Output) -> "Design":
    """The `Design` in DIR, or the youngest one in rtl_out, which it says on stderr."""
    from ..design import Design, newest

    if args.folder is not None:
        return Design(args.folder)
    youngest = newest()
    out.note(f"no DIR given, using {youngest}")
    return Design(youngest)


def keep_folder(out: Output, design: "Design") -> None:
    """Let the line of an interrupt say that the folder of a design stays."""
    out.kept = f"{design.folder} is as it was, and what was compiled in it is used again"


class DataNames(list):
    """Names of data sets, as choices of a flag that takes folders of pictures too: what is one, or has a slash."""

    def __init__(self, names: Iterable[str], more: str = ""):
        super().__init__(names)
        self.more = f"a folder with a subfolder of pictures for each class{more}"

    def __contains__(self, value):
        return super().__contains__(value) or "/" in value or Path(value).is_dir()


def add_data(parser: Parser, required: bool = False) -> None:
    from ..data.datasets import DATASETS

    parser.add_argument("--data", required=required, choices=DataNames(DATASETS), metavar="NAME|FOLDER",
                        help=f"data set: {', '.join(DATASETS)}; or a folder with a subfolder of pictures for each class")
    parser.add_argument("--data-dir", metavar="DIR", help="where the data set lies, or is to be put after a download "
                        "(default: $FBNN_DATA, then a folder in the user's cache)")


def add_data_dir(parser: Parser, the: str = "the") -> None:
    parser.add_argument("--data-dir", metavar="DIR", help=f"where {the} data set lies (default: $FBNN_DATA, then the user's cache)")


def add_page(parser: Parser, what: str, **kwargs: Any) -> None:
    """--board: the name of a board, or a page of one's own.  what: how its help begins."""
    from ..targets.boards import names

    completed(parser.add_argument("--board", metavar="NAME", help=f"{what}{', '.join(names())}, or a page NAME.toml of your own",
                                  **kwargs), names)


def add_fit(parser: Parser, size: bool = False) -> None:
    """The flags that make pictures fit.  size: whether one says how large they are to be, as nothing else does."""
    parser.add_argument("--resize", action="store_true", help="make any picture fit: centre square, scaled, as RGB")
    parser.add_argument("--crop", action="store_true", help="make any picture fit: its centre as it is, not scaled, as RGB")
    if size:
        parser.add_argument("--size", type=up_to(512), metavar="N",
                            help="pixels a side of a folder's pictures (default: 32), or with --resize of a data set's")


def fit(args: Args) -> dict[str, bool]:
    """{resize, crop} of the flags."""
    if args.resize and args.crop:
        raise UsageError("found both --resize and --crop, expected one of them")
    return {"resize": args.resize, "crop": args.crop}


def is_folder(args: Args) -> bool:
    """Whether --data names a folder of pictures."""
    from ..data.datasets import DATASETS

    return args.data is not None and args.data not in DATASETS


def data_name(args: Args) -> str:
    """What --data is called in the names of files."""
    return Path(args.data).resolve().name if is_folder(args) else args.data


def splits(args: Args, out: Output) -> tuple["Images", "Images | None"]:
    """(training, test) `Images` of --data with one numbering of the classes; test: None where both are the same images."""
    from ..data import datasets, folder

    train = dataset(args, out, "train")
    same = not folder.has_splits(args.data) if is_folder(args) else datasets.DATASETS[args.data].overlap
    return train, None if same else dataset(args, out, "test").by_name(train.classes)


def add_scenario(parser: Parser, **kwargs: Any) -> None:
    """--scenario: a name of the table, or module:NAME; its value is then a key of `SCENARIOS`."""
    from ..train.scenarios import SCENARIOS, get

    text = f"{kwargs.pop('help', '')}{', '.join(SCENARIOS)}, or module:NAME of your own"
    parser.add_argument("--scenario", type=lambda name: get(name).name, metavar="NAME", help=text, **kwargs)


def add_backend(parser: Parser, default: str | None = None) -> None:
    """--backend.  default: None leaves the choice to the verb, which takes torch where it is installed."""
    parser.add_argument("--backend", choices=("torch", "reference"), default=default, help="torch, or the integer reference; both give "
                        f"the same integers (default: {default or 'torch where it is installed, else reference'})")


def add_threads(parser: Parser) -> None:
    parser.add_argument("--threads", type=up_to(1024), metavar="N", help="CPU threads of torch (default: all cores)")


def set_threads(args: Args) -> None:
    """Apply --threads to torch."""
    if args.threads:
        extras.load("torch", extras.TRAIN, "--threads").set_num_threads(args.threads)


def checkpoint(name: str, classifies: bool = False) -> tuple[Path, "Network"]:
    """(path, "Network") of --model.  classifies: raises InputError where it has no class."""
    from ..ir.shipped import load

    network = load(name)
    if classifies and not network.topology.classes:
        raise InputError(f"{network.source}: has no class, expected a model with some; generate --learn makes a design that is taught them")
    return network.source, network


def dataset(args: Args, out: Output, split: str = "test", size: int | None = None) -> "Images":
    """The split of --data as `Images`; says with -v where it was found.  size: pixels a side of pictures that are made to fit."""
    from ..data import datasets, folder

    fitting = {**fit(args), "size": getattr(args, "size", None)}
    if is_folder(args):
        if args.data_dir:
            raise UsageError("--data-dir: has no meaning with a folder of pictures, expected --data FOLDER alone")
        fitting["size"] = size or fitting["size"] or folder.SIZE
        images = folder.load(args.data, split, progress=out.progress, **fitting)
    else:
        size = size or fitting["size"]
        if not getattr(args, "files", None):
            if fitting["crop"]:
                raise UsageError(f"--crop: has no meaning with the data set {args.data}, expected a folder of pictures")
            if fitting["resize"] and not size or fitting["size"] and not fitting["resize"]:
                raise UsageError(f"--size and --resize: with the data set {args.data} expected both, or none")
        images = datasets.load(args.data, args.data_dir, split, progress=out.progress)
        if fitting["resize"] and size:
            images = images.scaled(size)
    out.detail(f"{args.data} {split}: {len(images.labels)} images from {images.source}")
    return images
