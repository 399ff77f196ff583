"""`generate --camera` and `device` on a small network that learns: it is taught, asked, cut and refused."""

import json

import numpy as np
import pytest
from PIL import Image

from fbnn_hw.design import Design
from fbnn_hw.machine import device
from fbnn_hw.nn import checkpoint
from fbnn_hw.simulate.device import device as simulated
from tests import strategies
from tests.device.drawing import drawn


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A folder of two classes, three pictures each, equal within a class: a network of random weights tells no noise from a thing."""
    folder = tmp_path_factory.mktemp("pictures")
    for number, name in enumerate(("cup", "plant")):
        (folder / name).mkdir()
        shades = np.random.default_rng(number).integers(0, 256, (8, 8, 3), np.uint8)
        for n in range(3):
            Image.fromarray(np.kron(shades, np.ones((16, 16, 1), np.uint8))).save(folder / name / f"{n}.png")
    return folder


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    from fbnn_hw.cli import main

    root = tmp_path_factory.mktemp("out")
    assert main(["generate", "--model", str(model[0]), "--target", "generic", "--pixels", "4", "--lanes", "16", "--outputs", "4", "--learn",
                 "prototypes", "--max-classes", "3", "--forget", "--camera", "ov7670", "--out", str(root)]) == 0
    return next(root.iterdir())


def test_a_display_is_in_the_configuration_of_its_designs_alone(folder, model, answer, tmp_path):
    shown = answer("generate", "--model", model[0], "--target", "generic", "--pixels", "4", "--lanes", "16", "--outputs", "4", "--learn",
                   "prototypes", "--max-classes", "3", "--forget", "--camera", "ov7670", "--display", "ssd1306", "--out", tmp_path)
    shown = Design(shown["folder"]).folder
    assert json.loads((shown / "config.json").read_text())["display"] == "ssd1306" and Design(shown).config.display == "ssd1306"
    assert "display" not in (folder / "config.json").read_text() and Design(folder).config.display == ""
    assert (shown / "accelerator.v").read_text() == (folder / "accelerator.v").read_text()


def test_the_camera_is_in_the_configuration_of_its_designs_alone(folder, model, answer, tmp_path):
    assert json.loads((folder / "config.json").read_text())["camera"] == "ov7670" and Design(folder).config.camera == "ov7670"
    plain = answer("generate", "--model", model[0], "--target", "generic", "--pixels", "4", "--lanes", "16", "--outputs", "4", "--learn",
                   "prototypes", "--max-classes", "3", "--forget", "--out", tmp_path)["folder"]
    kept = [(path / "accelerator.v") for path in (Design(plain).folder, folder)]
    assert "camera" not in (Design(plain).folder / "config.json").read_text() and kept[0].read_text() == kept[1].read_text()


@pytest.mark.slow
def test_a_day_of_a_device(folder, pictures, cli, tmp_path):
    """Taught two classes by its buttons, it tells them apart; one is forgotten; a power cut takes the rest."""
    script = tmp_path / "day.txt"
    script.write_text("""
        0     show cup/0.png
        0.1   expect unknown       # it knows no class
        0.1   press teach
        0.16  expect learning
        0.16  release teach
        0.2   press choose
        0.24  expect choosing
        0.24  release choose
        0.25  show plant/0.png
        0.29  press teach
        0.36  release teach
        0.44  expect 1
        0.44  show cup/1.png
        0.52  expect 0
        0.52  show plant/2.png
        0.60  expect 1
        0.60  press forget         # the choice is still the plant
        0.64  release forget
        0.72  expect 0             # all that it knows
        0.72  cut power
        0.74  restore power
        0.84  expect unknown       # nothing is kept
    """)
    code, out, err = cli("device", folder, "--images", pictures, "--script", script, "--json")
    found = json.loads(out)
    assert code == 0, found["missed"]
    assert not found["missed"] and not found["faults"] and found["sensor"].startswith("320 x 240 RGB565")
    assert {one["sign"] for one in found["seen"]} <= {sign.name for sign in device.SIGNS} | {"no power"}


def test_a_device_that_keeps(model, pictures, cli, tmp_path, monkeypatch):
    """After a power cut it knows what it was taught, and an undo takes the last lesson back."""
    from fbnn_hw.cli import main

    assert main(["generate", "--model", str(model[0]), "--target", "ice40", "--outputs", "4", "--learn", "nearest-mean",
                 "--max-classes", "3", "--unknown", "--forget", "--weights", "flash", "--camera", "hm01b0", "--keep",
                 "--display", "ssd1306", "--out", str(tmp_path / "out")]) == 0
    monkeypatch.setattr(simulated, "CLOCK_HZ", 24_000_000)  # at which a frame takes the fewest clocks
    script = tmp_path / "night.txt"
    script.write_text("""
        0     show cup/0.png
        0.1   expect unknown       # it knows no class
        0.1   save unknown.pbm
        0.1   press teach
        0.16  save learning.pbm
        0.16  release teach
        0.22  expect kept
        0.25  save kept.pbm
        0.25  cut power
        0.26  restore power
        0.34  press choose
        0.36  release choose
        0.36  show plant/0.png
        0.4   press teach
        0.47  release teach
        0.52  expect kept
        0.52  press undo
        0.55  release undo
        0.55  show cup/1.png
        0.62  expect 0             # an undo ends the sign kept
        0.66  save 0.pbm
    """)
    (folder,) = (tmp_path / "out").iterdir()
    code, out, _ = cli("device", folder, "--images", pictures, "--script", script, "--json")
    found = json.loads(out)
    assert code == 0, found["missed"]
    signs = [one["sign"] for one in found["seen"]]
    assert not found["faults"] and signs.count("kept") == 2 and signs.count("keeping") >= 3  # two lessons and an undo
    for name in ("unknown", "learning", "kept", "0"):
        sign = next(sign for sign in device.SIGNS if sign.name == ("class" if name == "0" else name))
        _, _, data = (tmp_path / f"{name}.pbm").read_bytes().split(b"\n", 2)
        picture = ~np.unpackbits(np.frombuffer(data, np.uint8)).astype(bool).reshape(64, 128)
        score = int(picture[16].sum()) // 2 if name in ("unknown", "0") else 0
        assert (picture == drawn(sign, 0, score, 1)).all(), name
    assert len(found["display"]) == 32 and found["display"][0].strip()
    script.write_text("0.01 expect learning\n")
    code, out, err = cli("device", folder, "--images", pictures, "--script", script)
    assert code == 6 and "1 expectation not met; the first: line 1: at 0.010 s it shows starting, expected learning" in err


@pytest.mark.slow
def test_pictures_alone(folder, pictures, cli):
    """Without a script it is taught each class of the folder, and then asked."""
    code, out, _ = cli("device", folder, "--images", pictures)
    lines = [line.split(" s ", 1)[1].strip() for line in out.splitlines() if " s   " in line]
    assert code == 0 and [line for line in lines if line.startswith("class")][-2:] == ["class cup", "class plant"]


def test_what_is_refused(folder, pictures, refused, model, tmp_path):
    assert "expected neither --input levels nor --duty-cycle" in refused(
        "generate", "--model", model[0], "--target", "ice40", "--camera", "ov7670", "--input", "levels", "--out", tmp_path)[1]
    assert "--display ssd1306: hangs on the wires of a sensor, expected --camera ov7670 or hm01b0" in refused(
        "generate", "--model", model[0], "--target", "ice40", "--display", "ssd1306", "--out", tmp_path)[1]
    checkpoint.save(tmp_path / "small.pt", strategies.smallest())
    assert "--camera ov7670: gives images of 32 x 32, smallest takes 8 x 8" in refused(
        "generate", "--model", tmp_path / "small.pt", "--target", "ice40", "--camera", "ov7670", "--out", tmp_path)[1]
    (tmp_path / "undo.txt").write_text("1 press undo\n")
    line = refused("device", folder, "--images", pictures, "--script", tmp_path / "undo.txt")[1]
    assert line.endswith("line 1: press 'undo', expected teach, choose, forget")
    line = refused("device", folder, "--images", pictures, "--pictures", 3)[1]
    assert "3 pictures of cup, expected more than the 3 that are taught" in line
