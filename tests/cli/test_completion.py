"""What a shell offers: `_completion` asked as argcomplete's shell function asks it."""

import io
import os

import pytest

from fbnn_hw.cli import _completion, parser, verbs


class Ended(Exception):
    pass


@pytest.fixture
def offered(monkeypatch):
    fdopen = os.fdopen

    def not_the_shells(number, *words, **options):  # 9 is the shell's for errors; here it is a file of pytest's own
        if number == 9:
            raise OSError
        return fdopen(number, *words, **options)

    monkeypatch.setattr(os, "fdopen", not_the_shells)

    def ask(line):
        for name, value in {"_ARGCOMPLETE": "1", "COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9",
                            "_ARGCOMPLETE_COMP_WORDBREAKS": " \t\n", "_ARGCOMPLETE_IFS": "\n"}.items():
            monkeypatch.setenv(name, value)
        stream = io.StringIO()

        def end(code=0):
            raise Ended

        with pytest.raises(Ended):
            _completion.complete(verbs(), parser, output_stream=stream, exit_method=end)
        return {word.strip() for word in stream.getvalue().split("\n")}

    return ask


def test_verbs(offered):
    assert offered("fbnn-hw ev") == {"evaluate"} and {"train", "import", "help"} <= offered("fbnn-hw ")
    assert offered("fbnn-hw cil") == {"cil"}


def test_flags_and_their_values(offered):
    assert {"--resize", "--model", "--top"} <= offered("fbnn-hw classify --")
    assert offered("fbnn-hw evaluate --backend ") == {"torch", "reference"}
    assert offered("fbnn-hw train --model 0.5") >= {"0.5mb"}
    assert offered("fbnn-hw generate --target ecp5") == {"ecp5", "ecp5-45f", "ecp5-25f"}


@pytest.mark.parametrize("verb", ["build", "doctor", "flash"])
def test_boards_and_pages(offered, tmp_path, monkeypatch, verb):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "icarus.toml").touch()
    assert offered(f"fbnn-hw {verb} --board ic") == {"icarus.toml", "ice40hx8k-b-evn", "icebreaker", "icesugar", "icesugar-pro"}


def test_shipped_checkpoints_and_files(offered, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "3my.pt").touch()
    assert offered("fbnn-hw inspect 3m") >= {"3my.pt"}
    assert offered("fbnn-hw evaluate --model 3m") == {"3mb.pt", "3mb-t.pt", "3mb-fe4.pt", "3mb-fe4-combined.pt", "3my.pt"}
