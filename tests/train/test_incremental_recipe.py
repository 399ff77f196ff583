"""What the parts of the recipe do in a retraining: batch norm, augmentation, average, label smoothing, a teacher."""

from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fbnn_hw.base.errors import InputError, UsageError
from fbnn_hw.ir.checkpoint import read
from fbnn_hw.ir.models import vgg
from fbnn_hw.nn import checkpoint, losses
from fbnn_hw.nn.network import FBNN, export
from fbnn_hw.reference import inference
from fbnn_hw.train import start
from fbnn_hw.train.cil_config import CilConfig
from fbnn_hw.train.config import TrainConfig
from fbnn_hw.train.fit import Fit
from fbnn_hw.train.incremental import Incremental
from fbnn_hw.train.memorizer import BitCode, LevelCode, Memorizer, TaughtCode
from fbnn_hw.train.samples import Native
from tests.train.test_incremental import SHALLOW, TEST, TRAIN, plain

RECIPE = TrainConfig(epochs=2, batch=16, lr=5e-3, patience=0, c=1.0)
LATENT = CilConfig("tiny-2+2x2", buffer_mb=0.01, recipe=RECIPE)
NATIVE = replace(LATENT, replay="native", buffer_mb=0.05)
NORMED = replace(RECIPE, norm="bn", schedule="cosine", validation=0.0, statistics=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Checkpoints of the two pre-training classes: scales.pt without thresholds, bn.pt with them."""
    path = tmp_path_factory.mktemp("init")
    for norm in ("scales", "bn"):
        torch.manual_seed(0)
        model = FBNN(SHALLOW, norm=norm)
        for _ in range(3):
            model.logits(torch.from_numpy(TRAIN.images[:64]))  # in training mode: statistics, and so thresholds
        checkpoint.save(path / f"{norm}.pt", export(model))
    return path


class Teacher:
    """It answers with the class after the right one, which it reads from the images of `TRAIN`."""

    sha256 = "0" * 64

    def __init__(self, topology):
        self.names = topology.classes
        self.label = {image.tobytes(): self.names.index(TRAIN.classes[c]) for image, c in zip(TRAIN.images, TRAIN.labels)
                      if TRAIN.classes[c] in self.names}

    def logits(self, images):
        labels = torch.tensor([self.label[image.numpy().tobytes()] for image in images])
        return 20.0 * F.one_hot(labels ^ 1, len(self.names)).float()


def make(path, config, *more, **recipe):
    return Incremental(replace(config, recipe=replace(config.recipe, **recipe)), TRAIN, TEST, start.read(path), *more)


def taught(path, config, *more, **recipe):
    config = replace(config, teacher=Teacher.sha256, recipe=replace(config.recipe, **recipe))
    return Incremental(config, TRAIN, TEST, start.read(path), *more, teacher=Teacher)


CASES = {
    "average": (make, "scales.pt", LATENT, dict(ema=0.9)), "smoothing": (make, "scales.pt", LATENT, dict(smoothing=0.3)),
    "centred": (make, "scales.pt", LATENT, dict(centre=True)), "warm-up": (make, "scales.pt", LATENT, dict(schedule="cosine", warmup=1)),
    "shift": (make, "scales.pt", NATIVE, dict(shift=1, contrast=0.0)), "mirror": (make, "scales.pt", NATIVE, dict(mirror="alternating")),
    "warp": (make, "scales.pt", NATIVE, dict(warp=0.2)), "ties": (make, "scales.pt", NATIVE, dict(ties="random")),
    "norm": (make, "bn.pt", NATIVE, dict(norm="bn")), "float": (make, "bn.pt", NATIVE, dict(norm="bn", float_epochs=1, ema=0.9)),
    "taught": (taught, "bn.pt", LATENT, {}), "taught images": (taught, "scales.pt", NATIVE, {}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_part_changes_the_run_and_is_resumed(case, folder, tmp_path):
    kind, name, config, recipe = case
    whole = kind(folder / name, config, **recipe)
    expected = plain(whole.run())
    if recipe.get("norm") != "bn":  # which that file needs
        assert plain(make(folder / name, config).run())["history"] != expected["history"]

    class Stop(Exception):
        pass

    def report(record):
        if record["epoch"] == 1 and record["task"] == 1:
            raise Stop

    with pytest.raises(Stop):
        kind(folder / name, config, tmp_path / "s", None, report, **recipe).run()
    again = kind(folder / name, config, tmp_path / "s", **recipe)
    again.resume()
    assert plain(again.run()) == expected
    assert all(torch.equal(value, again.model.state_dict()[key]) for key, value in whole.model.state_dict().items())


def test_native_replay_trains_thresholds(folder):
    """It starts with those of the file, and ends with others, which are in what it saves."""
    run = make(folder / "bn.pt", NATIVE, norm="bn")
    before, images = read(folder / "bn.pt"), TEST.images[TEST.labels == 2]
    latents = run.model.eval().latent(torch.from_numpy(images)) > 0
    assert np.array_equal(latents, inference.layers(before, images)["latent"].reshape(len(images), -1))
    final = run.run()
    saved = export(run.model)
    assert saved.thresholds.keys() == before.thresholds.keys() and "latent" in saved.thresholds
    assert any(not np.array_equal(saved.thresholds[name], values) for name, values in before.thresholds.items())
    answers = np.concatenate([inference.layers(saved, TEST.images[TEST.labels == c])["logits"].reshape(-1, 4).argmax(1) == c - 2
                              for c in range(2, 6)])
    assert answers.mean() == pytest.approx(final["final"]["a_final"])
    with pytest.raises(InputError, match="^bn.pt .*: has thresholds, which train with batch norm alone; expected --norm bn, a network wi"):
        make(folder / "bn.pt", NATIVE)


def test_batch_norm_begins_with_the_state_beside_the_file(folder, tmp_path):
    torch.manual_seed(1)
    model = FBNN(start.read(folder / "bn.pt").topology, norm="bn")
    model.logits(torch.from_numpy(TRAIN.images[:64]))
    origin = start.Start(model.topology, {name: layer.proxy.detach() for name, layer in model.layers.items()}, {}, best=model.state_dict())
    made = start.make(origin, TRAIN.classes[2:], False, 0, {"norm": "bn"})
    for name, norm in made.norms().items():
        assert norm.target is None and torch.equal(norm.variance, model.norms()[name].variance) and norm.steps == 1
    assert all(norm.target is None for norm in start.make(replace(origin, proxies={}, best=None), ("a",), False, 0, {"norm": "bn"})
               .norms().values())


def test_statistics_are_estimated_and_a_last_batch_of_one_is_left_out(folder):
    count = 33  # two batches of 16 and one sample
    model = FBNN(start.read(folder / "bn.pt").topology, norm="bn")
    fit = Fit(model, model.parameters(), NORMED, count, torch.Generator())
    assert fit.steps == 2 and Fit(model, model.parameters(), RECIPE, count, torch.Generator()).steps == 3
    images = torch.from_numpy(TRAIN.images[:count])
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with fit.judged(images.split(16)):
        assert not model.training and all(norm.steps == 2 for norm in model.norms().values())
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    few = TRAIN.thinned(17)  # 34 images a task
    run = Incremental(replace(NATIVE, strategy="naive", buffer_mb=0, recipe=replace(NORMED, batch=33)), few, TEST,
                      start.read(folder / "bn.pt"))
    assert all(0 < record["train_accuracy"] <= 1 for record in run.run()["history"])


def test_the_average_is_what_is_kept(folder):
    kept = make(folder / "scales.pt", replace(LATENT, strategy="offline", buffer_mb=0), ema=0.99, validation=0.0, schedule="cosine")
    averages = []

    def report(record):
        averages.append([values.clone() for values in kept.retraining.average])

    kept.report = report
    kept.run()
    assert len(averages) == 2 and all(torch.equal(kept, average) for kept, average in zip(kept.model.parameters(), averages[-1]))


def test_levels_are_augmented_as_the_recipe_says():
    kind = Native(vgg("small", ("a", "b"), width=1 / 8, latent=64, hidden=16, size=16))
    samples = kind.form(TRAIN.images[:8])
    generator, all_of_them = torch.Generator().manual_seed(0), torch.ones(8, dtype=torch.bool)
    still = replace(RECIPE, shift=0, contrast=0.0)
    assert torch.equal(kind.augment(samples, still, generator, ~all_of_them), samples)
    assert torch.equal(kind.augment(samples, still, generator, all_of_them), samples.flip(3))
    for recipe in (RECIPE, replace(still, warp=0.2), replace(still, contrast=1.0)):
        moved = kind.augment(samples, recipe, generator, None)
        assert not torch.equal(moved, samples) and (moved.amax((0, 2, 3)) < torch.tensor(kind.planes)).all()


def test_label_smoothing_is_over_the_classes_that_take_part():
    logits, labels = torch.randn(6, 4, requires_grad=True), torch.tensor([0, 1, 2, 3, 0, 1])
    assert torch.allclose(losses.cross_entropy(logits, labels, None, 0.2), F.cross_entropy(logits, labels, label_smoothing=0.2))
    labels = labels % 2
    absent = logits.masked_fill(torch.tensor([False, False, True, True]), -torch.inf)
    found = losses.cross_entropy(absent, labels, None, 0.2)
    assert torch.allclose(found, F.cross_entropy(logits[:, :2], labels, label_smoothing=0.2))
    found.backward()
    assert logits.grad.isfinite().all()
    weighted = losses.cross_entropy(logits, labels, torch.tensor([2.0, 2.0, 2.0, 2.0]), 0.2)
    assert torch.allclose(weighted, 2 * losses.cross_entropy(logits, labels, None, 0.2))


@pytest.mark.parametrize("config, recipe", [
    (replace(LATENT, buffer_mb=0.05), {}), (replace(NATIVE, buffer_mb=0.5), dict(norm="bn", augment=False))])
def test_a_student_follows_its_teacher_and_not_the_labels(config, recipe, folder):
    """The teacher takes both classes of a task for each other, so nearly all answers are wrong; exemplars are taught too."""
    result = taught(folder / "bn.pt", config, distil=1.0, temperature=1.0, epochs=12, **recipe).run()
    confusion = np.array(result["tasks"][-1]["confusion"])
    assert sum(confusion[c, c ^ 1] for c in range(4)) > 3 * np.trace(confusion)
    assert result["final"]["a_buffer_train"] < 0.3


@pytest.mark.parametrize("config, name", [(LATENT, "bn.pt"), (NATIVE, "scales.pt")])
def test_exemplars_keep_their_answers_and_pay_for_them(config, name, folder):
    run = taught(folder / name, config)
    alone = make(folder / name, config).memory.code.bits
    assert run.memory.code.bits == alone + 16 * 4 and run.memory.ledger(4)["slots"] == round(config.buffer_mb * 1e6) // (alone + 64)
    run._store(0)
    run._store(1)
    answer_of = {sample.numpy().tobytes(): answer for sample, answer in zip(run.train_samples, run.answers)}
    samples, labels, answers = run._exemplars()
    assert len(labels) == len(run.memory) > 4
    assert all(torch.equal(answer_of[sample.numpy().tobytes()], answer) for sample, answer in zip(samples, answers))
    assert (answers.argmax(1).numpy() == labels ^ 1).all()


@pytest.mark.parametrize("code", [BitCode(13), LevelCode((5, 9, 9), 4)], ids=lambda code: type(code).__name__)
def test_taught_samples_are_packed_into_their_bits(code):
    rng = np.random.default_rng(0)
    top = 2 if isinstance(code, BitCode) else 5
    samples = rng.integers(0, top, (20, *code.shape)).astype(np.uint8)
    answers = rng.normal(size=(20, 3)).astype(np.float16)
    joint = TaughtCode(code, 3)
    memory = Memorizer(20 * joint.bits, joint)
    memory.update(joint.join(samples, answers), np.arange(20))
    records, labels = memory.samples()
    assert memory.packed.shape[1] == -(-joint.bits // 8) and joint.bits == code.bits + 48
    assert np.array_equal(records["sample"], samples[labels]) and np.array_equal(records["answer"], answers[labels])


@pytest.mark.parametrize("config, recipe, message", [
    (LATENT, dict(shift=3), "--shift 3: --replay latent trains the classifier alone, on latents; expected --replay native with it"),
    (LATENT, dict(augment=False), "--no-augment: --replay latent trains the classifier alone, on latents; expected --replay native"),
    (LATENT, dict(norm="bn"), "--norm bn: --replay latent trains the classifier alone, on latents; expected --replay native with it"),
    (LATENT, dict(ties="random"), "--ties random: --replay latent trains the classifier alone, on latents; expected --replay native"),
    (replace(LATENT, loss="sh"), dict(smoothing=0.1), "--smoothing 0.1: the loss is sh, which has no such target; expected --loss cce"),
    (replace(LATENT, aware=True, teacher="x"), {}, "--teacher: answers for all classes seen, --aware trains each task alone; expected"),
    (NATIVE, dict(norm="bn", batch=1), "--batch 1: batch norm has no statistics of one image, expected at least 2"),
    (replace(LATENT, strategy="ncm", buffer_mb=0), dict(ema=0.5), "--ema 0.5: has no meaning with --strategy ncm, expected --strategy"),
    (replace(LATENT, strategy="der++"), dict(centre=True), "--centre: has no meaning with --strategy der++, expected --strategy"),
    (replace(LATENT, strategy="der++", teacher="x"), {}, "--teacher: --strategy der++ takes no answers of a teacher, expected --strategy"),
])
def test_parts_without_a_meaning_are_refused(config, recipe, message):
    with pytest.raises(UsageError) as error:
        replace(config, recipe=replace(config.recipe, **recipe)).verify()
    assert str(error.value).startswith(message)
