"""The programs of docs/examples do what they say."""

import subprocess
import sys

import pytest

from tests.test_readme import ROOT

SHOWN = {
    "lesson": ["two other ships: ship, ship", "after forgetting: ship"],
    "own_board": ["pins: clock 35, rx 26, tx 27, ready 40, fault 41", "0.5mb.pt: 96,774 cycles, 450 frames/s at 43.5 MHz (estimated)"],
    "own_buffer": ["Memorizer: 50 latents kept, 69 of 100 right", "NearMean: 50 latents kept, 71 of 100 right"],
    "own_component": ["1000 words equal; neuron.v is written"],
    "own_network": ["every bit of every layer equal: True", "the Verilog says: lying, standing, crossing"],
    "own_strategy": ["   3  ship,truck       0  66.67%  68.18%  53.12%  45.24%    0.284   -"],
}


def test_each_is_here():
    assert {path.stem for path in (ROOT / "docs/examples").glob("*.py")} == set(SHOWN)


@pytest.mark.parametrize("name", SHOWN)
def test_it_prints(name, tmp_path):
    command = [sys.executable, str(ROOT / f"docs/examples/{name}.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert not set(SHOWN[name]) - set(done.stdout.splitlines()), done.stdout
