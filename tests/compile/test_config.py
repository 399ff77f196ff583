"""The configuration as text: what is written, what version 0.1.0 wrote, and whose id it has."""

import dataclasses
import json
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from fbnn_hw.compile.plan import plan
from fbnn_hw.machine.config import AcceleratorConfig
from fbnn_hw.machine.step import decode
from fbnn_hw.simulate.virtual import flash_image
from fbnn_hw.targets import TARGETS
from tests import strategies

FIXTURE = Path(__file__).parents[1] / "fixtures" / "design-0.1.0.zip"
FIELDS = ("source", "stride", "block_stride", "row_stride", "words", "columns", "rows", "target", "target_block_stride",
          "target_row_stride", "tiles", "tile_slot", "valid", "tile_words")
WORDS_OF_0_1_0 = ("source", "step", "advance", "row", "words", "columns", "rows", "target", "target_advance", "target_row", "tiles", "slot",
                  "valid", "tile_words", "repeat", "pool", "vector", "logits", "gap", "depthwise", "bias")
"""What version 0.1.0 called the values of an encoded step."""


@pytest.fixture(scope="module")
def old():
    """{file name: bytes} of a folder that version 0.1.0 generated."""
    with zipfile.ZipFile(FIXTURE) as archive:
        return {Path(name).name: archive.read(name) for name in archive.namelist() if "/" in name}


def test_a_configuration_of_version_0_1_0_keeps_its_id(old):
    config = AcceleratorConfig.from_json(old["config.json"].decode())
    assert config.id == json.loads(old["manifest.json"])["config_id"] == "ce3dab1a"
    assert config.to_json().encode() == old["config.json"]


def test_a_step_that_several_frames_share_is_refused(old):
    """Version 0.1.0 wrote of every step whether it is; a design of one frame a pass has none."""
    values = json.loads(old["config.json"])
    assert {step["shared"] for step in values["program"]} == {False}
    values["program"][1]["shared"] = True
    with pytest.raises(ValueError, match="^a step that several frames share$"):
        AcceleratorConfig.from_json(json.dumps(values))


def test_the_flash_image_of_a_folder_of_version_0_1_0_keeps_its_mark(old, tmp_path):
    for name in ("config.json", "network.json", "weights.bin"):
        (tmp_path / name).write_bytes(old[name])
    assert flash_image(tmp_path)[:4].hex() == "ce3dab1a" and flash_image(tmp_path).endswith(old["weights.bin"])


def test_a_program_of_version_0_1_0_means_the_same(old):
    values = json.loads(old["config.json"])
    config = AcceleratorConfig.from_json(old["config.json"].decode())
    steps = decode(config.program_words())[0]
    assert [[step[name] for name in (*FIELDS, "repeat", "pool", "vector", "logits", "gap", "depthwise", "bias")]
            for step in steps] == [[step[name] for name in WORDS_OF_0_1_0] for step in values["program"]]
    assert [step.layer for step in config.program] == [step["layer"] for step in values["program"]]
    assert dataclasses.asdict(config.learning) == values["learning"] | {"unknown": False, "forget": False}
    plain = [f.name for f in dataclasses.fields(config) if f.name in values and f.name not in ("program", "transfers", "learning")]
    assert {name: getattr(config, name) for name in plain} == {name: values[name] for name in plain}


def test_the_same_hardware_read_from_either_text_is_equal(old):
    config = AcceleratorConfig.from_json(old["config.json"].decode())
    again = AcceleratorConfig.from_json(dataclasses.replace(config).to_json())
    assert again == config and hash(again) == hash(config)
    assert again.id != config.id, "the id belongs to the text"


@pytest.fixture(scope="module")
def config():
    return plan(strategies.vgg_network(1, width=1 / 4, size=16), TARGETS["ice40"]).config


def test_tile_slots_keep_their_names_in_the_file(config):
    """So that a design generated today has the configuration id that it had before they were renamed."""
    steps = [dataclasses.replace(step, source_tile_slot=number % 2) for number, step in enumerate(config.program)]
    config = dataclasses.replace(config, program=tuple(steps))
    written = json.loads(config.to_json())["program"]
    assert [(step["slot"], step.get("source_slot", 0)) for step in written] == [(step.tile_slot, step.source_tile_slot) for step in steps]
    assert not {"tile_slot", "source_tile_slot"} & {name for step in written for name in step}
    assert AcceleratorConfig.from_json(config.to_json()) == config


def test_fields_at_their_default_are_left_out_and_filled_in(config):
    values = json.loads(config.to_json())
    assert not {"learning", "map_pixels", "text"} & set(values)
    assert values["transfers"] and values["program"][0]["load"] is True and "depthwise" not in values["program"][0]
    assert AcceleratorConfig.from_json(config.to_json()) == config
    read = AcceleratorConfig.from_json(config.to_json())
    assert read.map_pixels == 0 and read.learning is None


def test_the_id_is_that_of_the_bytes_of_config_json(config):
    text = config.to_json()
    assert config.id == sha256(text.encode()).hexdigest()[:8] == AcceleratorConfig.from_json(text).id
    reformatted = json.dumps(json.loads(text))
    other = AcceleratorConfig.from_json(reformatted)
    assert other == config and other.to_json() == reformatted and other.id == sha256(reformatted.encode()).hexdigest()[:8]


def test_a_changed_configuration_forgets_the_text_it_came_from(config):
    changed = dataclasses.replace(AcceleratorConfig.from_json(config.to_json()), levels=8)
    assert changed.id != config.id and AcceleratorConfig.from_json(changed.to_json()) == changed


OPTIMISED = """
import json, sys
from fbnn_hw.machine.config import AcceleratorConfig
for text in json.load(sys.stdin):
    try:
        AcceleratorConfig.from_json(text).program_words()
        print("taken")
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        print("refused")
"""


def test_a_damaged_configuration_is_refused_without_assertions_too(old):
    """Each number of a step is another; `python -O` judges as `python` does."""
    edits = []
    values = json.loads(old["config.json"])
    for name, value in values["program"][0].items():
        for other in (-1, 2 ** 16, 2 ** 40):
            if type(value) is int:
                edits.append(json.dumps(values | {"program": [values["program"][0] | {name: other}, *values["program"][1:]]}))
    told = [subprocess.run([sys.executable, *options, "-c", OPTIMISED], input=json.dumps(edits), capture_output=True, text=True, check=True)
            .stdout.split() for options in ([], ["-O"])]
    assert len(told[0]) == len(edits) > 30 and told[0] == told[1] and told[0].count("refused") > len(edits) / 2
