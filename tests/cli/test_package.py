"""What an installed package has: every folder with code, and the pages that help texts name."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fbnn_hw.cli import overview, parser, verbs

ROOT = Path(__file__).parents[2]
PAGE = re.compile(r"\bfbnn-hw help ([\w.-]*\w)")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder that holds the package as a wheel would."""
    lib = tmp_path_factory.mktemp("build") / "lib"
    program = ("import sys; from setuptools import setup; "
               "setup(script_args=['-q', 'egg_info', '--egg-base', sys.argv[1], 'build_py', '--build-lib', sys.argv[2]])")
    lib.mkdir()
    subprocess.run([sys.executable, "-c", program, str(lib.parent), str(lib)], cwd=ROOT, check=True, capture_output=True)
    return lib


def test_every_folder_with_code_is_a_package():
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["packages"]
    assert packages == sorted(packages)
    folders = {".".join(path.parent.relative_to(ROOT).parts) for path in (ROOT / "fbnn_hw").rglob("__init__.py")}
    assert len(folders) > 15 and folders == set(packages) - {"fbnn_hw.boards", "fbnn_hw.docs", "fbnn_hw.driver"}


def test_no_help_text_names_a_file_of_a_checkout():
    for text in (overview(), *(parser(verb).format_help() for verb in verbs())):
        assert not re.search(r"docs/|README|\w\.md\b(?<!\bcil\.md)(?<!\benergy\.md)(?<!\basic\.md)(?<!\bdevice\.md)(?<!\bstudio\.md)", text)


def test_every_page_that_a_help_text_names_is_installed(installed):
    texts = {verb: " ".join(parser(verb).format_help().split()) for verb in verbs()}
    names = {name for text in texts.values() for name in PAGE.findall(text)}
    assert {"json", "on-chip-learning"} <= names and all("fbnn-hw help json" in text for text in texts.values())
    for name in sorted(names):
        done, page = run(installed, "help", name), ROOT / "docs" / f"{name.removesuffix('.md')}.md"
        assert done.returncode == 0 and done.stdout == page.read_text(encoding="utf-8"), done.stderr


def test_what_an_installed_package_has_of_docs(installed):
    folder = installed / "fbnn_hw" / "docs"
    for pattern in ("*.md", "json/*.json", "pictures/*.jpg", "pictures/mug/*.jpg"):
        assert {path.name for path in folder.glob(pattern)} == {path.name for path in (ROOT / "docs").glob(pattern)} != set()
    assert {path.name for path in folder.iterdir() if path.is_dir()} == {"json", "pictures"}
    assert run(installed, "help").stdout.rstrip("\n") == overview()


def test_what_an_installed_package_has_of_the_driver(installed):
    files = {path.relative_to(ROOT / "driver") for path in (ROOT / "driver").rglob("*.*")}
    assert {path.relative_to(installed / "fbnn_hw" / "driver") for path in (installed / "fbnn_hw" / "driver").rglob("*.*")} == files
    assert {"fbnn.c", "fbnn.h", "registers.md"} <= {path.name for path in files}


def run(installed, *argv):
    """`fbnn-hw` of that folder, away from the checkout."""
    program = "import sys; sys.path.insert(0, sys.argv.pop(1)); from fbnn_hw.cli import command; command()"
    return subprocess.run([sys.executable, "-I", "-c", program, str(installed), *argv], cwd=installed, capture_output=True, text=True)
