"""pytest runs every file of tests that is there: a folder of a name that it skips by itself would hide its tests."""

import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parent


def test_every_file_of_tests_is_collected():
    listing = subprocess.run([sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"],
                             cwd=TESTS.parent, capture_output=True, text=True, check=True).stdout
    files = {path.relative_to(TESTS.parent).as_posix() for path in TESTS.rglob("test_*.py")}
    assert {name for name in files if name not in listing} == set()  # a file that is skipped whole is listed too, as skipped
