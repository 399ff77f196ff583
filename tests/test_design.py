"""A folder's manifest, which is believed before anything else of it."""

import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from fbnn_hw.base.errors import InputError
from fbnn_hw.design import Design, generate, holding
from fbnn_hw.design.folder import REQUIRED
from fbnn_hw.ir.models import CIFAR10, vgg
from fbnn_hw.simulate.virtual import alone
from tests import strategies

GOOD = {"files": dict.fromkeys(REQUIRED, "0" * 64), "classes": ["a"], "config_id": "0" * 8, "ir_sha256": "0" * 64}


def hostile():
    """(text, what is said of it)."""
    yield "[" * 200_000, "damaged, "
    yield json.dumps(GOOD | {"files": {}}), "names no accelerator.v, "
    for name in ("../../x", "/etc/passwd", "", "\x1b[2J", "a/b", "é", ".hidden", "x" * 101, "a\n"):
        yield json.dumps(GOOD | {"files": GOOD["files"] | {name: "0" * 64}}), "damaged list of files, "
    for digest in (None, "0" * 63, "g" * 64, 7, ["0" * 64]):
        yield json.dumps(GOOD | {"files": GOOD["files"] | {"x": digest}}), "damaged list of files, "
    for classes in (None, ["\x1b[2J"], [7], "abc"):
        yield json.dumps(GOOD | {"classes": classes}), "damaged list of classes, "
    yield json.dumps(GOOD | {"config_id": "0" * 9}), "damaged marks of configuration and model, "
    yield json.dumps(GOOD | {"ir_sha256": "1" * 64}), "damaged marks of configuration and model, "


def test_a_folder_with_a_virtual_board_at_work_is_left_alone(tmp_path):
    network = strategies.smallest_learner()
    folder = generate(network, "ice40", out=tmp_path, learn=True, max_classes=4, exemplars=3).folder
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with alone(folder), pytest.raises(InputError, match="its simulated board is at work for another program; wait for that one$"):
        generate(network, "ice40", out=tmp_path, learn=True, max_classes=4, exemplars=3)
    assert before.items() <= {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}.items()
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    generate(network, "ice40", out=tmp_path, learn=True, max_classes=4, exemplars=3)


@pytest.mark.parametrize("number", range(len(list(hostile()))))
def test_a_manifest_that_lies(number, tmp_path):
    text, reason = list(hostile())[number]
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(InputError) as error:
        Design(tmp_path)
    assert str(error.value) == (f"{tmp_path / 'manifest.json'}: {reason}expected what `fbnn-hw generate` wrote; generate the folder again")


def test_the_array_of_a_design_with_a_camera(tmp_path):
    """It is one that is placed in minutes, and that answers faster than a sensor asks; flags may set another."""
    network, macs = strategies.fill(vgg("tiny", CIFAR10, width=1 / 16, latent=64, hidden=16), 1), []
    for options in ({}, {"camera": "ov7670"}, {"camera": "ov7670", "pixels": 8, "lanes": 64, "outputs": 16}):
        config = generate(network, "ecp5", out=tmp_path, **options).config
        macs.append(config.pixels * config.lanes * config.outputs)
    assert macs[0] > 2048 >= macs[1] and macs[2] == 8192


@pytest.mark.parametrize("classes", [[], ["a"], ["a", "b", "c"]])
def test_as_many_classes_as_the_hardware_has(classes, tmp_path):
    with zipfile.ZipFile(Path(__file__).parent / "fixtures" / "design-0.1.0.zip") as archive:
        archive.extractall(tmp_path)
    path, = tmp_path.rglob("manifest.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {"classes": classes}))
    with pytest.raises(InputError) as error:
        Design(path.parent)
    assert str(error.value) == (f"{path}: {len(classes)} classes, expected the 2 of config.json; generate the folder again")


def test_the_design_that_a_board_holds_is_found_by_its_configuration_id(tmp_path):
    """A board that learns, flashed some time ago: the youngest design is another one, and one of its folders is damaged."""
    def made(out, network):
        return generate(network, "ice40", out=tmp_path / out)

    old, taught = made("a", strategies.smallest_learner(1)), made("b", strategies.smallest_learner(2))
    other = made("c", strategies.smallest())
    assert old.config_id == taught.config_id != other.config_id and old.model_mark != taught.model_mark
    folders = [shutil.copytree(one.folder, tmp_path / "rtl_out" / name) for name, one in
               (("old", old), ("damaged", old), ("taught", taught), ("other", other))]
    for age, folder in enumerate(folders):
        os.utime(folder / "manifest.json", (age, age))
    (folders[1] / "config.json").write_text("{}")

    def found(model_mark, config_id=old.config_id):
        design = holding(config_id, model_mark, tmp_path / "rtl_out")
        return design and design.folder.name

    assert found(old.model_mark) == "old" and found(taught.model_mark) == "taught" and found("00000000") == "taught"
    assert found(old.model_mark, "00000000") is None
