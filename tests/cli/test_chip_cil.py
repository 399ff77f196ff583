"""`fbnn-hw chip-cil` on a small scenario."""

import json

import numpy as np
import pytest

from fbnn_hw.base.errors import InputError
from fbnn_hw.data.datasets import Images
from fbnn_hw.ir.models import vgg
from fbnn_hw.nn import checkpoint
from fbnn_hw.reference.learning import Head, LearnConfig
from fbnn_hw.train.chip_study import Study, StudyOptions
from fbnn_hw.train.scenarios import SCENARIOS, Scenario
from tests import strategies

TINY = ("chip-cil", "--scenario", "tiny-2+2x2", "--slots", 20, "--samples", 30, "--threads", 1)


@pytest.fixture(scope="module")
def extractor(tmp_path_factory):
    from fbnn_hw.data import datasets

    classes = datasets.load("tiny").classes[:2]
    path = tmp_path_factory.mktemp("chip") / "fe.pt"
    checkpoint.save(path, strategies.fill(vgg("tiny", classes, width=1 / 16, size=16, latent=64, hidden=16), 1))
    return path


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_the_classes_of_the_pre_training_may_stay_away(extractor, answer, refused):
    result = answer(*TINY, "--model", extractor, "--epochs", 1, "--setting", "fpt")
    assert result["setting"] == "fpt" and result["config"]["max_classes"] == 4
    run, = result["runs"]
    assert len(run["classes"]) == 4 and result["trained_on"] == []
    assert not any("PT" in task for learner in run["learners"].values() for task in learner["tasks"])
    assert [len(learner["tasks"]) for learner in run["learners"].values()] == [2] * 5


@pytest.mark.parametrize("flags", [(), ("--head", "skip", "--hidden-counter-bits", 4)])
def test_whole_sequence(flags, extractor, answer, tmp_path):
    out = tmp_path / "chip.json"
    result = answer(*TINY, "--model", extractor, "--epochs", 2, "--seeds", 2, "--out", out, *flags)
    assert {"json_version": 2, **json.loads(out.read_text())} == result
    assert list(result["summary"]) == ["chip", "adam", "adam-equal-memory", "nearest-mean", "streaming-lda"]
    for run in result["runs"]:
        assert sorted(run["classes"]) == sorted(f"{c}" for c in run["classes"]) and len(run["classes"]) == 6
        chip = run["learners"]["chip"]
        assert chip["presentations"] == 6 * 30 * 10 - 9 and len(chip["tasks"]) == 3  # nothing to replay for the first sample
        assert 0 <= chip["tasks"][-1]["final"]["a"] <= 1 and all("PT" in task for task in chip["tasks"])
    assert result["trained_on"] == result["runs"][0]["classes"][:2]
    assert result["ledger"]["total_bits"] == result["summary"]["chip"]["memory_bits"]
    assert result["summary"]["adam-equal-memory"]["memory_bits"] <= max(
        result["summary"]["chip"]["memory_bits"], result["summary"]["adam"]["memory_bits"] - 20 * 64)
    again = answer(*TINY, "--model", extractor, "--against", "none", *flags)
    chip = again["runs"][0]["learners"]["chip"]
    assert chip["tasks"] == result["runs"][0]["learners"]["chip"]["tasks"]  # from the latents in the cache
    assert len(list((tmp_path / "fbnn-hw" / "latents").iterdir())) == 12


def test_a_file_that_cannot_be_written_leaves_the_table(extractor, cli, tmp_path, monkeypatch):
    def full(path, values):
        raise InputError(f"{path}: cannot be written (No space left on device)")

    monkeypatch.setattr("fbnn_hw.cli.train.write_result", full)
    code, out, err = cli(*TINY, "--model", extractor, "--against", "none", "--out", tmp_path / "chip.json")
    assert code == 3 and "No space left" in err and out.startswith("learner ") and "\nchip " in out
    values = json.loads(cli(*TINY, "--model", extractor, "--against", "none", "--out", tmp_path / "chip.json", "--json")[1])
    assert values["exit_code"] == 3 and "No space left" in values["error"] and values["summary"]["chip"]


@pytest.mark.parametrize("counts, flags, line", [
    ([1] * 6, ["--validate"], "tiny: has 1 images of class 0 in here, expected 2 or more"),
    ([9, 9, 9, 9, 0, 9], [], "tiny: has 0 images of class 4 in here, expected 1 or more")])
def test_classes_with_few_images(extractor, refused, monkeypatch, counts, flags, line):
    labels = np.repeat(np.arange(6), counts)
    few = Images(np.zeros((len(labels), 3, 16, 16), np.uint8), labels, tuple("012345"), "here")
    monkeypatch.setattr("fbnn_hw.data.datasets.load", lambda *args, **options: few)
    assert refused(*TINY, "--model", extractor, "--against", "none", *flags) == (3, f"fbnn-hw chip-cil: {line}")


def test_classes_that_the_extractor_has_not_seen(extractor, answer, monkeypatch):
    """As in omniglot-25x10, the pre-training has none of the classes of the tasks; rules without replay need no slots."""
    monkeypatch.setitem(SCENARIOS, "apart", Scenario("apart", "tiny", "tiny", 0, 3, 2))
    result = answer("chip-cil", "--scenario", "apart", "--samples", 30, "--threads", 1, "--model", extractor, "--rule", "means",
                    "--against", "nearest-mean")
    assert [result["config"][name] for name in ("slots", "counter_bits", "replays", "thinning")] == [1, 4, 0, 0]  # as generate has them
    chip = result["runs"][0]["learners"]["chip"]
    assert len(chip["tasks"]) == 3 and chip["presentations"] == 6 * 30 and chip["tasks"][0]["seen"]["a"] > 0.5
    assert result["summary"]["nearest-mean"]["a_final"][0] > 0.3


def test_validation_holds_a_fifth_of_each_class_back(extractor):
    def samples(validate):
        return Study(SCENARIOS["tiny-2+2x2"], extractor, LearnConfig(6, 20), Head(64), StudyOptions(validate=validate)).samples
    (whole, labels), parts = samples(False)["train"], samples(True)
    for c in range(6):
        all_of_it = whole[labels == c]
        for split, part in (("train", slice(len(all_of_it) * 4 // 5)), ("test", slice(len(all_of_it) * 4 // 5, None))):
            latents, of = parts[split]
            assert len(all_of_it[part]) and np.array_equal(latents[of == c], all_of_it[part])


@pytest.mark.parametrize("flags, line", [
    (("--against", "sgd"),
     "--against sgd: no such learner, expected some of adam, adam-equal-memory, nearest-mean, streaming-lda, or none"),
    (("--out", "."), "--out .: expected a file name that ends in .json"),
    (("--out", "fe.pt"), "--out fe.pt: expected a file name that ends in .json"),
    (("--counter-bits", 9), "counter_bits: found 9, expected a whole number from 1 to 8"),
])
def test_errors(flags, line, extractor, refused):
    assert refused(*TINY, "--model", extractor, *flags) == (2, f"fbnn-hw chip-cil: {line}")


def test_the_checkpoint_stays(extractor, refused, tmp_path):
    path = tmp_path / "fe.json"
    path.write_bytes(extractor.read_bytes())
    assert refused(*TINY, "--model", path, "--out", path) == (2, f"fbnn-hw chip-cil: {path}: is the file of --model, expected another name")
    assert path.read_bytes() == extractor.read_bytes()
