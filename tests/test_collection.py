"""pytest runs every file of tests that is there: a folder of a name that it skips by itself would hide its tests."""

import subprocess
import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def collected(*arguments):
    """How many tests pytest finds: {file below the checkout: tests}; a file that is skipped whole is there too, with none."""
    listing = subprocess.run([sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *arguments],
                             cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    tests = [line for line in listing if "::" in line]
    assert len(tests) == len(set(tests)), [test for test, count in Counter(tests).items() if count > 1]
    files = Counter(test.split("::")[0] for test in tests)
    skipped = [line.split()[2].split(":")[0] for line in listing if line.startswith("SKIPPED ")]
    return {**dict.fromkeys(skipped, 0), **files}


FILES = {path.relative_to(ROOT) for folder in ("tests", "sim") for path in (ROOT / folder).rglob("test_*.py")}


def test_no_folder_of_tests_has_a_name_that_pytest_skips(pytestconfig):
    skipped = pytestconfig.getini("norecursedirs")
    assert pytestconfig.getini("testpaths") == ["tests", "sim"] and "build" in skipped
    assert not [path for path in FILES for part in path.parts[:-1] for pattern in skipped if fnmatch(part, pattern)]


@pytest.mark.slow
def test_every_file_of_tests_is_collected_once():
    assert set(collected()) == {path.as_posix() for path in FILES}


def test_the_simulations_are_collected_on_their_own():
    """`pytest sim`: the files of the folder, and no module of cocotb's among them."""
    files = {path.relative_to(ROOT).as_posix() for path in (ROOT / "sim").glob("test_*.py")}
    tests = collected("sim")
    assert set(tests) == files and all(tests.values())
