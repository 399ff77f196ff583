"""Every verb: help with two real examples, --json, errors of one line, exit codes; and what may be imported."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import fbnn_hw.cli as command
from fbnn_hw.base.errors import FitError, MismatchError, ToolError
from fbnn_hw.cli import _common, _pages
from fbnn_hw.design import newest

VERBS = command.verbs()
DOCS = Path(__file__).parents[2] / "docs"


def test_help_of_a_verb(cli):
    assert cli("help", "inspect")[:2] == cli("inspect", "--help")[:2]
    assert cli("help", "inspct") == (2, "", f"fbnn-hw: inspct: no such command or page, expected one of {', '.join(VERBS)}, "
                                     f"{', '.join(_pages.pages(VERBS))}; did you mean inspect?\n")
    assert cli("help", "inspect", "extra") == (2, "", "fbnn-hw: unknown argument extra; see fbnn-hw --help\n")


def test_help_of_a_page(cli):
    text = (DOCS / "on-chip-learning.md").read_text(encoding="utf-8")
    assert cli("help", "on-chip-learning") == cli("help", "on-chip-learning.md") == (0, text, "")
    assert cli("help", "cil")[1] == cli("cil", "--help")[1] + "see also: fbnn-hw help cil.md\n"  # a verb and a page
    assert cli("help", "cil.md")[1] == (DOCS / "cil.md").read_text(encoding="utf-8")
    assert cli("help", "README")[0] == 2


def test_overview(cli):
    for argv in ((), ("--help",), ("-h",)):
        code, out, err = cli(*argv)
        assert code == 0 and not err and all(out.count(f"\n  {verb} ") == 1 for verb in VERBS)
        for path in DOCS.glob("*.md"):
            assert path.stem == "README" or f"  {path.name if path.stem in VERBS else path.stem} " in out
    assert cli("--version")[1] == f"fbnn-hw {command.__version__}\n"


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_two_examples_that_parse(verb, cli):
    code, out, err = cli(verb, "--help")
    module = command.load(verb)
    assert code == 0 and not err and len(module.EXAMPLES) == 2 and "--json" in out and "--verbose" in out
    for line, _ in module.EXAMPLES:
        program, name, *flags = shlex.split(line)
        assert (program, name) == ("fbnn-hw", verb) and line in out
        command.parser(verb).parse_args(flags)


@pytest.mark.parametrize("verb", VERBS)
def test_unknown_flag(verb, refused):
    code, line = refused(verb, "--no-such-flag")
    assert code == 2 and line.startswith(f"fbnn-hw {verb}: ") and line.endswith(f"see fbnn-hw {verb} --help")


@pytest.mark.parametrize("argv, line", [
    (["trian"], "fbnn-hw: trian: no such command, expected one of " + ", ".join(VERBS) + "; did you mean train?"),
    (["train", "--model", "3mb", "--data", "fixture", "--lr", "-1"],
     "fbnn-hw train: --lr: found '-1', expected a positive number; see fbnn-hw train --help"),
    (["train", "--model", "3mb", "--data", "fixture", "--epochs", "0"],
     "fbnn-hw train: --epochs: found '0', expected 1 to 1,000,000; see fbnn-hw train --help"),
    (["train", "--data", "fixture"], "fbnn-hw train: missing --model; see fbnn-hw train --help"),
    (["train", "--model", "3mb", "--data", "fixture", "--validation", "0"],
     "fbnn-hw train: --validation 0: plateau and --patience need a validation split; use --schedule cosine --patience 0"),
    (["generate", "--model", "3mb.pt", "--target", "ice40", "--out", ""],
     "fbnn-hw generate: --out: found '', expected a value; see fbnn-hw generate --help"),
    (["inspect"], "fbnn-hw inspect: expected one checkpoint: FILE, or --model NAME.pt"),
    (["doctor", "--jso"], "fbnn-hw doctor: unknown argument --jso; did you mean --json?; see fbnn-hw doctor --help"),
    (["generate", "--mdel", "x"], "fbnn-hw generate: unknown argument --mdel; did you mean --model?; see fbnn-hw generate --help"),
    (["simulate", "--image", "2"], "fbnn-hw simulate: unknown argument --image; did you mean --images?; see fbnn-hw simulate --help"),
])
def test_usage_errors(argv, line, refused):
    assert refused(*argv) == (2, line)


@pytest.mark.parametrize("argv, code, end", [
    (["generate", "--model", "0.5mb.pt", "--target", "ICE40"], 2, "; did you mean ice40?"),
    (["generate", "--model", "0.5mb.pt", "--target", "ice4"], 2, "; did you mean ice40?"),
    (["generate", "--model", "0.5mb.ptt", "--target", "ice40"], 3, "; did you mean 0.5mb.pt?"),
    (["build", "--board", "icebraker"], 2, "; did you mean icebreaker?"),
    (["evaluate", "--model", "0.5mb.pt", "--data", "cifar-10"], 2, "; did you mean cifar10?; see fbnn-hw evaluate --help"),
])
def test_a_name_that_is_nearly_right(argv, code, end, refused):
    exit_code, line = refused(*argv)
    assert exit_code == code and line.endswith(end)


@pytest.mark.parametrize("verb", ["report", "simulate", "build --board icebreaker", "flash --board icebreaker"])
def test_no_folder_is_the_youngest_design(verb, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    verb, *flags = verb.split()
    assert cli(verb, *flags) == (3, "", f"fbnn-hw {verb}: rtl_out: no generated design; run fbnn-hw generate --model 0.5mb.pt "
                                        "--target ice40, or name its folder\n")
    for name, age in (("a", 1), ("b", 3), ("c", 2)):
        manifest = tmp_path / "rtl_out" / name / "manifest.json"
        manifest.parent.mkdir(parents=True)
        manifest.touch()
        os.utime(manifest, (age, age))
    code, out, err = cli(verb, *flags)
    first, second = err.splitlines()
    assert code == 3 and first == f"fbnn-hw {verb}: no DIR given, using rtl_out/b" and second.startswith(f"fbnn-hw {verb}: rtl_out/b")


def test_the_youngest_design_that_learns(tmp_path, refused, monkeypatch):
    """As after the README's lines: a lesson, then another network's design, then `learn --undo`."""
    folders = ("first", '{"learning": {}}'), ("lesson", '{"learning": {}}'), ("plain", '{"learning": null}'), ("damaged", "[")
    for age, (name, config) in enumerate(folders):
        (tmp_path / "rtl_out" / name).mkdir(parents=True)
        (tmp_path / "rtl_out" / name / "config.json").write_text(config)
        (tmp_path / "rtl_out" / name / "manifest.json").touch()
        os.utime(tmp_path / "rtl_out" / name / "manifest.json", (age, age))
    assert newest(tmp_path / "rtl_out").name == "damaged" and newest(tmp_path / "rtl_out", learns=True).name == "lesson"
    monkeypatch.chdir(tmp_path)
    for verb in (("learn", "--undo", "--board", "virtual"), ("studio", "--page", "page.html")):
        code, line = refused(*verb)
        assert code == 3 and line.startswith(f"fbnn-hw {verb[0]}: rtl_out/lesson/manifest.json: ")
    for name in ("first", "lesson"):
        (tmp_path / "rtl_out" / name / "config.json").write_text('{"learning": null}')
    assert refused("learn", "--undo", "--board", "virtual") == (
        3, "fbnn-hw learn: rtl_out: no design that learns; run fbnn-hw generate --model 0.5mb.pt --target ice40 --learn, or name its "
        "folder")


class Fake:
    SUMMARY, EXAMPLES = "", ()

    def __init__(self, error):
        self.error = error

    def arguments(self, parser):
        pass

    def run(self, args, out):
        raise self.error


@pytest.mark.parametrize("error, code, line", [
    (FitError("conv4 is too large"), 4, "conv4 is too large"), (ToolError("no g++"), 5, "no g++"), (MismatchError("a\nb"), 6, "a b"),
    (KeyboardInterrupt(), 130, "interrupted; nothing was written"),
    (PermissionError(13, "Permission denied", "x.pt"), 3, "x.pt: Permission denied"),
    (MemoryError(), 1, "out of memory; use fewer images or a smaller model"),
    (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 17179869184 bytes."), 1,
     "out of memory; use fewer images or a smaller model"),
    (KeyError("k"), 1, "internal error, KeyError: 'k'; run again with -v and report the traceback"),
])
def test_errors_in_a_verb(monkeypatch, cli, error, code, line):
    monkeypatch.setattr(command, "load", lambda verb: Fake(error))
    assert cli("doctor") == (code, "", f"fbnn-hw doctor: {line}\n")
    exit_code, out, err = cli("doctor", "--json")
    assert exit_code == code and json.loads(out) == {"json_version": 1, "error": line, "exit_code": code}
    assert "Traceback" in cli("doctor", "-v")[2]


def test_light_verbs_do_not_import_torch(model):
    program = "import sys; from fbnn_hw.cli import main; assert main(sys.argv[1:]) == 0; sys.exit(7 if 'torch' in sys.modules else 0)"
    classify = ["classify", "--model", model[0], "--data", "fixture", "--images", "2"]
    for argv in (["--help"], ["train", "--help"], ["inspect", model[0]], classify):
        done = subprocess.run([sys.executable, "-c", program, *map(str, argv)], capture_output=True, text=True)
        assert done.returncode == 0, (argv, done.stderr)


def test_plain_is_legal_json():
    import numpy as np

    values = _common.plain({"a": np.float32("nan"), "b": np.arange(2), 3: (float("inf"), True, None), "d": np.int64(4)})
    assert values == {"a": None, "b": [0, 1], "3": [None, True, None], "d": 4}


@pytest.mark.parametrize("more, code", [("> /dev/full", 3), ("--json > /dev/full", 3), (">&-", 0), ("--json >&-", 0)])
def test_stdout_that_takes_nothing(model, more, code):
    program = f"{shlex.quote(sys.executable)} -m fbnn_hw.cli inspect {shlex.quote(str(model[0]))} {more}"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True)
    assert (done.returncode, len(done.stderr.splitlines())) == (code, int(code > 0)), done.stderr


def test_a_stderr_that_is_closed(model):
    """A progress bar has nowhere to go, and notes do not go to stdout."""
    program = f"{shlex.quote(sys.executable)} -m fbnn_hw.cli evaluate --model {shlex.quote(str(model[0]))} --data fixture --json 2>&-"
    done = subprocess.run(["bash", "-c", program], stdout=subprocess.PIPE, text=True)
    assert done.returncode == json.loads(done.stdout).get("exit_code", 0) != 1


def test_names_that_stdout_cannot_encode(model, tmp_path):
    from dataclasses import replace

    from fbnn_hw.nn import checkpoint

    path, network = model
    topology = replace(network.topology, classes=("\u732b", *network.topology.classes[1:]))
    checkpoint.save(tmp_path / "cat.pt", replace(network, topology=topology))
    done = subprocess.run([sys.executable, "-m", "fbnn_hw.cli", "inspect", tmp_path / "cat.pt"], capture_output=True, text=True,
                          env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    assert done.returncode == 0 and "\\u732b" in done.stdout, done.stderr


NAMES = ("a\x1b[2Jb", "c\u202ed", "\udcff", "tab\there", "two\nlines")


def test_names_of_files_do_not_move_the_cursor(cli, model, tmp_path):
    """Names of a stranger's folders and pictures: on stdout, in an error, in a note."""
    from PIL import Image

    for name in NAMES:
        (tmp_path / "pictures" / name).mkdir(parents=True)
        Image.new("RGB", (32, 32)).save(os.fsencode(tmp_path / "pictures" / name / "1.png").decode("utf-8", "surrogateescape"))
    code, out, err = cli("classify", tmp_path / "pictures", "--model", model[0])
    assert code == 0 and "a\\x1b[2Jb" in out and "c\\u202ed" in out and "\\udcff" in out and "tab\there" in out
    assert "two\\nlines" in out and len(out.splitlines()) == len(NAMES)
    code, out, err = cli("evaluate", "--data", tmp_path / "pictures", "--model", model[0])
    assert code == 3 and "a\\x1b[2Jb" in err
    for name in NAMES[:3]:
        code, out, err = cli("inspect", tmp_path / name)
        assert code == 3 and err.strip().isprintable()


def test_a_bar_leaves_no_remains_before_a_result(capsys, monkeypatch):
    """Where stderr is a pipe, each state of a bar is a line, so what is printed afterwards begins a line."""
    monkeypatch.setattr(_common, "PROGRESS_DELAY_S", 0)
    out = _common.Output("fbnn-hw verb", json=False, verbose=False)
    with out.progress(total=2, desc="work") as bar:
        bar.update()
        bar.update()
    out.note("the result")
    *states, last = capsys.readouterr().err.split("\n")[:-1]
    assert states and all(state.startswith("work: ") and state.isprintable() for state in states) and last == "fbnn-hw verb: the result"


def test_closed_pipe():
    program = f"set -o pipefail; {shlex.quote(sys.executable)} -m fbnn_hw.cli --help | true"
    assert b"Traceback" not in subprocess.run(["bash", "-c", program], capture_output=True).stderr


def test_an_interrupt_before_the_verb_is_known_has_its_line():
    """Ctrl-C when everything is imported and the command line is about to be read."""
    program = ("import os, signal, sys, fbnn_hw.cli as cli\n"
               "verbs = cli.verbs\n"
               "cli.verbs = lambda: (os.kill(os.getpid(), signal.SIGINT), verbs())[1]\n"
               "sys.argv = ['fbnn-hw', 'doctor']\n"
               "from fbnn_hw.__main__ import command\n"
               "command()")
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "fbnn-hw: interrupted; nothing was written\n")


def interrupted(folder, work, **files):
    """The command `inspect` that does `work`, a function of a module that imports signal and os -> its end.  files: other modules."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    (folder / "program.py").write_text("import os, signal, sys, weakref, fbnn_hw.cli as cli; sys.argv = ['fbnn-hw', 'inspect', 'x.pt']\n"
                                       f"{work}\ncli.run = lambda *_: work()\n"
                                       "from fbnn_hw.__main__ import command\ncommand()\n")
    return subprocess.run([sys.executable, "-m", "program"], cwd=folder, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])})


@pytest.mark.parametrize("becomes", ["os.abort()", "raise ImportError('install it again')", "pass"])
def test_an_interrupt_inside_an_import_raises_nothing_there(becomes, tmp_path):
    """torch's C++ calls std::terminate where Python raises under it, numpy makes an ImportError of it, importlib drops it."""
    other = f"import os, signal\ntry:\n    os.kill(os.getpid(), signal.SIGINT)\nexcept KeyboardInterrupt:\n    {becomes}\n"
    done = interrupted(tmp_path, "def work():\n    import other", other=other)
    assert (done.returncode, done.stderr) == (130, "fbnn-hw inspect: interrupted; nothing was written\n")


def test_an_interrupt_does_not_wait_for_a_long_import(tmp_path):
    done = interrupted(tmp_path, "def work():\n    import other",
                       other="import os, signal, time\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(600)\n")
    assert (done.returncode, done.stderr) == (130, "fbnn-hw inspect: interrupted; nothing was written\n")


@pytest.mark.parametrize("after", ("time.sleep(600)", "return 0"))
def test_an_interrupt_that_is_dropped_comes_again(after, tmp_path):
    """Also where the verb ends at once."""
    done = interrupted(tmp_path, """
def work():
    thing = type("Thing", (), {})()
    held = weakref.ref(thing, lambda _: os.kill(os.getpid(), signal.SIGINT))
    del thing
    import time
    """ + after + "\n")
    assert (done.returncode, done.stderr) == (130, "fbnn-hw inspect: interrupted; nothing was written\n")


def test_an_interrupt_is_not_raised_where_it_is_answered(tmp_path):
    """Neither in what a verb does on its way out, nor in what it does after it has printed its own line."""
    done = interrupted(tmp_path, """
def work():
    import time
    try:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(600)
    except KeyboardInterrupt:
        time.sleep(0.5)
        cli.Output.made.error("interrupted; half of it is kept", 130)
    time.sleep(0.5)
    return 130
class Output(cli.Output):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        Output.made = self
cli.Output = Output
""")
    assert (done.returncode, done.stderr) == (130, "fbnn-hw inspect: interrupted; half of it is kept\n")


def test_an_interrupt_inside_an_exec_ends_with_its_code(tmp_path):
    (tmp_path / "program.py").write_text("import sys, fbnn_hw.cli as cli; sys.argv = ['fbnn-hw', 'inspect', 'x.pt']\n"
                                         "cli.run = lambda *_: exec('raise KeyboardInterrupt')\ncli.command()\n")
    done = subprocess.run([sys.executable, "-m", "program"], cwd=tmp_path, capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    assert (done.returncode, done.stderr) == (130, "fbnn-hw inspect: interrupted; nothing was written\n")
