"""Whole runs on the synthetic scenario: the strategies, the settings, resume, what enters the training and what never does."""

import json
import os
import resource
from dataclasses import replace

import numpy as np
import pytest
import torch

from fbnn_hw.base.errors import InputError, UsageError
from fbnn_hw.data import datasets
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.models import vgg
from fbnn_hw.ir.network import Topology
from fbnn_hw.nn import checkpoint
from fbnn_hw.nn.network import FBNN, export
from fbnn_hw.reference import inference
from fbnn_hw.train import start
from fbnn_hw.train.cil_config import CilConfig
from fbnn_hw.train.config import TrainConfig
from fbnn_hw.train.incremental import Incremental, held_back

TRAIN, TEST = (datasets.load("tiny", None, split) for split in ("train", "test"))
RECIPE = TrainConfig(epochs=6, batch=16, lr=5e-3, patience=0, c=1.0)
BASE = CilConfig("tiny-2+2x2", buffer_mb=0.003, recipe=RECIPE)


SHALLOW = Topology("shallow", (
    op.Thermometer("input", (), "tycc", 16, 4), op.Conv("conv1", ("input",), 32), op.MaxPool("pool", ("conv1",)),
    op.Gap("gap", ("pool",)), op.Depthwise("depthwise", ("pool",)), op.Concat("lgap", ("gap", "depthwise")),
    op.Dense("latent", ("lgap",), 64), op.Duplicate("latent_twice", ("latent",)), op.Dense("hidden", ("latent_twice",), 16, 2),
    op.Concat("skip", ("latent", "hidden")), op.Dense("logits", ("skip",), 2, logits=True)), TRAIN.classes[:2])
"""Deep and random would lose the image."""


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    """A checkpoint with random weights of the two pre-training classes."""
    torch.manual_seed(0)
    model = FBNN(SHALLOW)
    path = tmp_path_factory.mktemp("init") / "fe.pt"
    checkpoint.save(path, export(model))
    return start.read(path)


def make(origin, config=BASE, **changes):
    return Incremental(replace(config, **changes), TRAIN, TEST, origin)


def plain(result):
    """A result without its times."""
    text = json.dumps(result)
    values = json.loads(text)
    for record in [values, *values["tasks"], *values["history"]]:
        record.pop("seconds")
    return values


@pytest.mark.parametrize("changes", [
    dict(), dict(setting="rpt"), dict(balanced=True, loss="focal"), dict(loss="sh", balanced=True), dict(aware=True),
    dict(strategy="naive", buffer_mb=0), dict(strategy="naive-reset", buffer_mb=0), dict(strategy="cumulative", buffer_mb=0, balanced=True),
    dict(strategy="cumulative-reset", buffer_mb=0), dict(strategy="offline", buffer_mb=0, curves=True),
    dict(strategy="offline", buffer_mb=0, setting="rpt"),
    dict(replay="native", buffer_mb=0.05), dict(replay="native", strategy="naive-reset", buffer_mb=0)],
    ids=lambda c: " ".join(f"{v}" for v in c.values()) or "latent")
def test_every_strategy_runs_and_repeats(origin, changes):
    changes = {**changes, "recipe": replace(RECIPE, epochs=2)}
    one, two = (make(origin, **changes).run() for _ in range(2))
    assert plain(one) == plain(two)
    retained, offline = changes.get("setting") == "rpt", changes.get("strategy") == "offline"
    assert len(one["tasks"]) == (1 if offline else 3 if retained else 2) and len(one["classes"]) == (6 if retained else 4)
    assert one["finished"] and set(one["final"]) >= {"a_final", "d_final", "a_new", "a_old", "a_seen_train"}
    assert np.array(one["tasks"][-1]["confusion"]).sum() == 40 * len(one["classes"])
    if changes.get("strategy", "replay") == "replay":
        assert one["ledger"]["samples"] == one["ledger"]["slots"] == one["tasks"][-1]["buffer_samples"]
        assert one["tasks"][0]["buffer_samples"] > 0  # after the task, not before it
    if retained:
        pretrained = np.array(one["tasks"][-1]["confusion"])[:2]
        assert one["final"]["a_PT"] == np.trace(pretrained) / pretrained.sum()
    if changes.get("curves"):
        assert one["history"][0]["test"]["final"]["a"] is not None
    kept = one["tasks"][-1]["train"]["buffer"]["a"]
    assert (kept is not None) == changes.get("strategy", "replay").startswith(("replay", "cumulative"))


def test_replay_remembers_and_naive_forgets(origin):
    recipe = replace(RECIPE, epochs=10)
    naive, replay, cumulative = (make(origin, recipe=recipe, **changes).run()["final"] for changes in (
        dict(strategy="naive", buffer_mb=0), dict(balanced=True, buffer_mb=0.005), dict(strategy="cumulative", buffer_mb=0)))
    assert naive["a_old"] == 0 and naive["a_new"] > 0.8
    assert replay["a_old"] > 0.4 and replay["a_final"] > naive["a_final"] + 0.1
    assert cumulative["a_final"] > naive["a_final"] + 0.2


def test_metrics_of_each_epoch(origin):
    found = make(origin, curves=True, recipe=replace(RECIPE, epochs=2)).run()
    for record in found["history"]:
        assert set(record["test"]) >= {"old", "new", "seen", "buffer"} and set(record["train"]) == set(record["test"])
        assert (record["train"]["buffer"]["a"] is None) == (record["task"] == 0)
        assert len(record["confusion"]) == 2 * (record["task"] + 1) and len(record["test_of_each_task"]) == record["task"] + 1
    last, task = found["history"][-1], found["tasks"][-1]
    if task["best_epoch"] == task["epochs"]:
        assert {k: last[k] for k in ("test", "train", "confusion")} == {k: task[k] for k in ("test", "train", "confusion")}


def test_the_feature_extractor_stays_frozen_with_latents_and_trains_with_images(origin):
    for replay, moves in (("latent", False), ("native", True)):
        run = make(origin, replay=replay, buffer_mb=0.05, recipe=replace(RECIPE, epochs=1))
        before = {k: v.clone() for k, v in run.model.state_dict().items()}
        run.run()
        changed = {k.split(".")[1] for k, v in run.model.state_dict().items() if not torch.equal(v, before[k])}
        assert "logits" in changed and ("conv1" in changed) == moves and ("latent" in changed) == moves


def test_bfloat16_is_for_the_convolutions(origin):
    """A classifier on latents, which are the same bits, trains as in float32; a whole network does not."""
    for changes, alike in ((dict(), True), (dict(replay="native", buffer_mb=0.05), False)):
        recipe = replace(RECIPE, epochs=2)
        one, two = (make(origin, recipe=replace(recipe, precision=p), **changes) for p in ("float32", "bfloat16"))
        found = [run.run() for run in (one, two)]
        assert torch.equal(one.train_samples, two.train_samples)
        if alike:
            assert plain(found[0]) == plain(found[1])
        assert torch.equal(one.model.layers["conv1"].proxy, two.model.layers["conv1"].proxy) == alike


def test_validation_samples_are_never_trained_on_nor_stored(origin):
    run = make(origin, replay="native", buffer_mb=0.05)
    held = {s.numpy().tobytes() for s in run.train_samples[torch.from_numpy(run.held_back)]}
    kept = {s.numpy().tobytes() for s in run.train_samples[torch.from_numpy(~run.held_back)]} - held
    assert np.bincount(run.train_labels[run.held_back]).tolist() == [4] * 4
    for t in range(2):
        samples, labels, _, held_samples, held_labels = run._data(t)
        new = labels >= 2 * t
        assert {s.numpy().tobytes() for s in samples[new]} <= kept
        assert {s.numpy().tobytes() for s in held_samples[held_labels >= 2 * t]} <= held
        run._store(t)
        assert {s.tobytes() for s in run.memory.samples()[0]} <= kept
    assert held_back(np.repeat([0, 1], [10, 1]), 0.1, np.random.default_rng(0)).sum() == 1
    assert held_back(np.repeat([0, 1], [10, 1]), 0.96, np.random.default_rng(0)).sum() == 9  # of each class one stays


def test_latents_are_those_of_the_network_and_are_cached(origin, tmp_path):
    run = Incremental(BASE, TRAIN, TEST, origin, cache=tmp_path)
    wanted = run.model.latent(torch.from_numpy(np.concatenate([TRAIN.images[TRAIN.labels == c] for c in range(2, 6)])))
    assert torch.equal(run.train_samples.float() * 2 - 1, wanted) and len(list(tmp_path.iterdir())) == 8  # 4 classes, 2 splits
    again = Incremental(replace(BASE, setting="rpt"), TRAIN, TEST, origin, cache=tmp_path)
    assert len(list(tmp_path.iterdir())) == 12 and len(again.train_samples) == 240
    assert torch.equal(Incremental(BASE, TRAIN, TEST, origin, cache=tmp_path).train_samples, run.train_samples)
    for damage in (lambda file: file[:40], lambda file: b"", lambda file: file[:-9], lambda file: file[:-9] + bytes(9)):
        for path in tmp_path.glob("*.latents"):
            path.write_bytes(damage(path.read_bytes()))
        assert torch.equal(Incremental(BASE, TRAIN, TEST, origin, cache=tmp_path).train_samples, run.train_samples)


def test_a_cache_that_cannot_be_written_or_read(origin, tmp_path):
    wanted = Incremental(BASE, TRAIN, TEST, origin, cache=tmp_path / "cache").train_samples
    for path in (tmp_path / "cache").iterdir():
        path.unlink()
        os.mkfifo(path)  # which would be waited for
    (tmp_path / "file").write_text("")
    for cache in (tmp_path / "cache", tmp_path / "file"):
        assert torch.equal(Incremental(BASE, TRAIN, TEST, origin, cache=cache).train_samples, wanted)


def test_native_samples_are_the_levels_of_the_encoder(origin):
    run = make(origin, replay="native", buffer_mb=0.05)
    images = torch.from_numpy(TRAIN.images[TRAIN.labels == 2][:5])
    assert torch.equal(run.kind.logits(run.model, run.train_samples[:5]), run.model.logits(images))
    moved = run.kind.augment(run.train_samples, RECIPE, run.generator, None)
    assert (moved.amax((0, 2, 3)) < torch.tensor(run.kind.planes)).all() and not torch.equal(moved, run.train_samples)


def test_retained_classifier_starts_with_the_rows_of_the_pretraining(origin):
    kept, fresh = make(origin, setting="rpt").model, make(origin).model
    assert torch.equal(kept.layers["logits"].proxy[:2], origin.proxies["logits"])
    assert torch.equal(kept.layers["hidden"].proxy, origin.proxies["hidden"])
    assert not torch.equal(fresh.layers["hidden"].proxy, origin.proxies["hidden"])
    assert torch.equal(fresh.layers["latent"].proxy, origin.proxies["latent"])


class Stop(Exception):
    pass


@pytest.mark.parametrize("changes", [dict(balanced=True), dict(replay="native", buffer_mb=0.05), dict(setting="rpt"),
                                     dict(recipe=replace(RECIPE, schedule="cosine", epochs=3))], ids=lambda c: str(list(c.values())[0]))
def test_resume_is_bit_identical(origin, tmp_path, changes):
    config = replace(BASE, **{"recipe": replace(RECIPE, epochs=3), **changes})
    whole = Incremental(config, TRAIN, TEST, origin)
    expected = plain(whole.run())
    for at in (1, 4):
        count = 0

        def report(record):
            nonlocal count
            count += 1
            if count == at:  # noqa: B023
                raise Stop

        path = tmp_path / f"{at}.state"
        with pytest.raises(Stop):
            Incremental(config, TRAIN, TEST, origin, path, report=report).run()
        again = Incremental(config, TRAIN, TEST, origin, path)
        again.resume()
        assert plain(again.run()) == expected
        assert all(torch.equal(v, again.model.state_dict()[k]) for k, v in whole.model.state_dict().items())
        if whole.memory:
            assert np.array_equal(again.memory.packed, whole.memory.packed)


def test_a_state_that_cannot_be_written(origin, tmp_path):
    path = tmp_path / "s"
    run = Incremental(replace(BASE, recipe=replace(RECIPE, epochs=1)), TRAIN, TEST, origin, path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(InputError) as error:
            run.run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert str(error.value) == f"{path}: cannot be written (File too large), expected a file name in a folder that can"
    assert not list(tmp_path.iterdir())


def test_an_extractor_with_thresholds_is_frozen_with_them(origin, tmp_path):
    model = FBNN(origin.topology, norm="bn")
    for _ in range(3):
        model.logits(torch.from_numpy(TRAIN.images[:64]))  # in training mode: statistics, and so thresholds
    network = export(model)
    checkpoint.save(tmp_path / "fe.pt", network)
    run = make(start.read(tmp_path / "fe.pt"), recipe=replace(RECIPE, epochs=1))
    before = run.train_samples.clone()
    run.run()
    learned = export(run.model)
    assert set(network.thresholds) == {"conv1", "latent"} == set(learned.thresholds)
    assert all(np.array_equal(learned.thresholds[name], values) for name, values in network.thresholds.items())
    images = np.concatenate([TRAIN.images[TRAIN.labels == TRAIN.classes.index(name)] for name in run.classes])
    assert np.array_equal(before, inference.layers(learned, images)["latent"].reshape(len(images), -1))
    with pytest.raises(InputError, match="^fe.pt .*: has thresholds, which train with batch norm alone; expected --norm bn, a network "
                       "without thresholds, or --replay latent$"):
        make(start.read(tmp_path / "fe.pt"), replay="native", buffer_mb=0.05)
    network.thresholds["hidden"] = np.ones(16, np.int64)
    checkpoint.save(tmp_path / "fe.pt", network)
    with pytest.raises(InputError, match="^fe.pt .*: has thresholds in hidden, which do not train; expected none after the latent$"):
        make(start.read(tmp_path / "fe.pt"))


def test_states_that_do_not_fit(origin, tmp_path):
    path = tmp_path / "s"
    run = Incremental(replace(BASE, recipe=replace(RECIPE, epochs=1)), TRAIN, TEST, origin, path)

    def refusal(config=run.config):
        with pytest.raises((InputError, UsageError)) as error:
            Incremental(config, TRAIN, TEST, origin, path).resume()
        return str(error.value).removeprefix(f"{path}: ")

    assert refusal() == "not found, expected the state of an earlier run; start without --resume"
    run.run()
    assert refusal(replace(run.config, loss="sh")) == "was started with other flags or another --init; resume with the same"
    few = TRAIN.thinned(20)
    with pytest.raises(UsageError, match="was started on other images or labels; resume with the same data"):
        Incremental(run.config, few, TEST, origin, path).resume()
    state = torch.load(path, weights_only=True)
    del state["data"], state["config"]["recipe"]["precision"]  # which the first states lack
    torch.save(state, path)
    Incremental(run.config, few, TEST, origin, path).resume()
    path.write_bytes(path.read_bytes()[:500])
    assert refusal().endswith("; start without --resume")
    torch.save({"format": "x"}, path)
    assert refusal() == "found another kind of file or version, expected fbnn-hw incremental state 1"


def _longer(state):
    state["memory"]["labels"] = torch.cat([state["memory"]["labels"]] * 2)


@pytest.mark.parametrize("damage", [
    lambda state: state["records"][0].update(confusion=[[1, 2]]), lambda state: state["records"][0].update(confusion=3),
    lambda state: state["records"][0].pop("classes"), lambda state: state["records"][0].update(test=None), _longer,
    lambda state: state["memory"]["rng"]["state"].update(inc=-1), lambda state: state["retraining"].update(best=-1),
    lambda state: state["retraining"]["best"].popitem(), lambda state: state["data"].update(crc32=torch.zeros(3))])
def test_a_damaged_state_is_one_line(origin, tmp_path, damage):
    path, config = tmp_path / "s", replace(BASE, recipe=replace(RECIPE, epochs=2))

    def report(record):
        if record["task"] == 1:
            raise Stop

    with pytest.raises(Stop):
        Incremental(config, TRAIN, TEST, origin, path, report=report).run()
    state = torch.load(path, weights_only=True)
    damage(state)
    torch.save(state, path)
    with pytest.raises(InputError, match=r": damaged training state \(\w+ in it\); start without --resume$"):
        Incremental(config, TRAIN, TEST, origin, path).resume()


@pytest.mark.parametrize("changes, message", [
    (dict(buffer_mb=0), "--buffer-mb 0: expected megabits above 0, at most 1,000,000, with --strategy replay; --strategy naive keeps "
     "nothing"),
    (dict(buffer_mb=1e305), "--buffer-mb 1e+305: expected megabits above 0, at most 1,000,000, with --strategy replay; --strategy naive "
     "keeps nothing"),
    (dict(strategy="naive"), "--buffer-mb 0.003: --strategy naive has no buffer, expected --strategy replay"),
    (dict(strategy="naive", buffer_mb=0, balanced=True), "--balanced: with --strategy naive past classes have no samples, so their inverse "
     "frequency is infinite; expected replay, cumulative or offline"),
    (dict(loss="mse"), "--loss mse: expected one of cce, focal, sh"),
    (dict(nu=3.0), "--nu 3: the loss is cce, which has no such exponent; expected --loss focal"),
    (dict(strategy="offline", buffer_mb=0, aware=True), "--aware: --strategy offline has one task, expected a strategy with several"),
    (dict(scenario="core50-10x5", setting="rpt"),
     "--setting rpt: core50-10x5 has no classes of its own in the pre-training, expected fpt"),
    (dict(setting="rpt", strategy="cumulative-reset", buffer_mb=0),
     "--setting rpt: --strategy cumulative-reset forgets the pre-training, expected fpt"),
    (dict(recipe=replace(RECIPE, validation=0.01)), "--validation 0.01: leaves none of 160 training images for validation, which plateau "
     "and --patience need; use more images, or --schedule cosine --patience 0"),
    (dict(buffer_mb=0.0002), "--buffer-mb 0.0002: holds 3 samples of 64 bits, expected one for each of 4 classes; use at least 0.001"),
])
def test_refusals(origin, changes, message):
    with pytest.raises(UsageError) as error:
        make(origin, **changes)
    assert str(error.value) == message


def test_an_origin_that_does_not_fit(origin):
    other = start.Start(start.with_classes(origin.topology, ("a", "b", "c")), origin.proxies, {}, "fe.pt")
    with pytest.raises(InputError, match=r"^fe.pt: has the 3 classes a, b, c..., expected the 2 of the pre-training, pattern0, "):
        make(other, setting="rpt")
    with pytest.raises(UsageError, match="^--replay latent: a random feature extractor is of no use, expected --init"):
        make(start.Start(origin.topology, {}, {}))
    big = start.Start(vgg("big", ("a", "b"), width=1 / 16, latent=64, hidden=16), {"x": 0}, {}, "fe.pt")
    with pytest.raises(InputError, match="^fe.pt: takes images of 32x32, tiny has 16x16; expected a model of that size$"):
        make(big)


def test_classes_of_test_images_go_by_their_names(origin):
    """A folder counts the classes of each split by itself, so that a class that one of them lacks moves the numbers of the others."""
    turned = [*range(1, len(TEST.classes)), 0]
    moved = replace(TEST, labels=np.argsort(turned)[TEST.labels], classes=tuple(TEST.classes[c] for c in turned))
    found = Incremental(BASE, TRAIN, moved, origin)
    assert np.array_equal(found.test_labels, make(origin).test_labels) and torch.equal(found.test_samples, make(origin).test_samples)
    fewer = TEST.select(TEST.classes[:-1])
    with pytest.raises(InputError, match=f"^tiny-2\\+2x2: no image of class {TEST.classes[-1]} in "):
        Incremental(BASE, TRAIN, fewer, origin)
    with pytest.raises(InputError, match="has the class odd, which the training does not have"):
        Incremental(BASE, TRAIN, replace(TEST, classes=(*TEST.classes[:-1], "odd")), origin)
