"""Parts of the recipe that are off by default: mixed images, cutout, several teachers, proxies that live, an estimator, restarts."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from fbnn_hw.base.errors import UsageError
from fbnn_hw.data import augment
from fbnn_hw.nn import binarize
from fbnn_hw.nn.network import export
from fbnn_hw.train import record, teacher
from fbnn_hw.train.cil_config import CilConfig
from fbnn_hw.train.config import TrainConfig
from fbnn_hw.train.fit import HELD
from tests.train.test_offline import interrupted_and_resumed, same
from tests.train.test_recipe import CONFIG, IMAGES, NORMED, normed, student, taught  # noqa: F401

PHOTOS = torch.randint(0, 256, (6, 3, 12, 10), generator=torch.Generator().manual_seed(0)).to(torch.uint8)


def seeded(seed=1):
    return torch.Generator().manual_seed(seed)


def test_a_run_without_them_is_that_of_the_versions_before_them():
    """Its steps are written out as version 0.3.0 had them: no draw, no value and no gradient more."""
    config = replace(NORMED, float_epochs=0, ema=0.0, validation=0.0)
    run, plain = normed(config=config), normed(config=config)
    run.run()

    def step(index):
        seen = augment.augment(plain.images[index], plain.generator, config.shift, config.contrast, plain.mirrored(index))
        logits, labels = plain.model(seen), plain.labels[index]
        plain.optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(logits, labels, label_smoothing=config.smoothing)
        loss.backward()
        plain.optimizer.step()
        plain.scheduler.step()
        plain.step += 1
        plain.sums += torch.tensor([loss.item() * len(labels), len(labels), (logits.argmax(1) == labels).sum()], dtype=torch.float64)

    plain._train_step = step
    plain.run()
    assert same(run.state()["model"], plain.state()["model"]) and same(run.state()["rng"], plain.state()["rng"])


def test_mixup_is_the_mean_of_two_images():
    mixed, partner, share = augment.mix(PHOTOS, seeded(), mixup=0.8)
    expected = (share * PHOTOS.double() + (1 - share) * PHOTOS[partner].double()).round()
    assert 0 < share < 1 and mixed.dtype == torch.uint8 and (mixed.double() - expected).abs().max() <= 1
    assert partner.sort().values.tolist() == list(range(6))
    again = augment.mix(PHOTOS, seeded(), mixup=0.8)
    assert torch.equal(again[0], mixed) and again[2] == share
    assert len({augment.mix(PHOTOS, seeded(seed), mixup=0.8)[2] for seed in range(5)}) == 5


def test_cutmix_puts_a_box_of_another_image():
    shares = []
    for seed in range(40):
        mixed, partner, share = augment.mix(PHOTOS, seeded(seed), cutmix=1.0)
        box = (mixed != PHOTOS).any(1).any(0)  # random bytes: no pixel of two images is the same in all six pairs
        rows, columns = torch.nonzero(box.any(1)).flatten().tolist(), torch.nonzero(box.any(0)).flatten().tolist()
        other = (partner != torch.arange(6)).any()
        area = len(rows) * len(columns)
        if other:
            assert box.sum() == area and share == pytest.approx(1 - area / 120)
        inside = box.nonzero().unbind(1)
        assert torch.equal(mixed[:, :, *inside], PHOTOS[partner][:, :, *inside])
        shares.append(share)
    assert min(shares) < 0.6 and max(shares) > 0.8


def test_the_shares_are_of_a_beta_distribution():
    shares = np.array([augment.mix(PHOTOS, seeded(seed), mixup=0.5)[2] for seed in range(400)])
    assert abs(shares.mean() - 0.5) < 0.06 and abs(shares.var() - 1 / 8) < 0.03  # Beta(a, a): 1 / (8 a + 4)


def test_cutout_makes_a_square_grey():
    black, sizes = torch.zeros_like(PHOTOS), set()
    out = augment.cutout(black, seeded(), 4)
    grey = out == augment.GREY
    assert ((out == 0) | grey).all() and (grey == grey[:, :1]).all() and torch.equal(out, augment.cutout(black, seeded(), 4))
    for seed in range(30):
        for square in augment.cutout(black, seeded(seed), 4)[:, 0] > 0:
            assert square.sum() == square.any(0).sum() * square.any(1).sum()
            sizes.add(int(square.sum()))
    assert max(sizes) == 16 and min(sizes) >= 4 and len(sizes) > 3  # a part of some lies outside


@pytest.mark.parametrize("views", ["augmented", "mirrored"])
def test_the_loss_of_mixed_images_is_mixed(taught, views):  # noqa: F811
    """Against the definition: cross-entropy and teacher of a target that is the mean of two; the teacher of the very view sees the mix."""
    config = replace(CONFIG, mixup=0.6, mirror="none", shift=0, contrast=0, validation=0.0, schedule="cosine", teacher_views=views,
                     distil=0.3)
    run = student(config=config)
    run.teacher = teacher.Teacher(taught, run.model.topology)
    index, state, seen = torch.arange(16), run.generator.get_state(), []
    ask = run.teacher.logits
    run.teacher.logits = lambda images: seen.append(images) or ask(images)
    if views == "mirrored":
        run._ask()
    with torch.no_grad():
        run._augmented(run.images[index], index)
        mixed, partner, share = augment.mix(run.images[index], run.generator, mixup=0.6)
        logits, labels, temperature = run.model(mixed), run.labels[index], run.config.temperature
        hot = share * F.one_hot(labels, 3) + (1 - share) * F.one_hot(labels[partner], 3)
        soft = (ask(mixed if views == "augmented" else run.images[index]) / temperature).softmax(1)
        entropy = (soft * soft.log()).sum(1)
        if views == "mirrored":
            soft, entropy = share * soft + (1 - share) * soft[partner], share * entropy + (1 - share) * entropy[partner]
        distance = (entropy - (soft * (logits / temperature).log_softmax(1)).sum(1)).mean() * temperature ** 2
        expected = -0.7 * (hot * logits.log_softmax(1)).sum(1).mean() + 0.3 * distance
    run.generator.set_state(state)
    seen.clear()
    run._train_step(index)
    assert run.sums[0] / 16 == pytest.approx(expected.item(), rel=1e-5)
    assert not seen if views == "mirrored" else torch.equal(seen[0], mixed)
    counted = labels if share >= 0.5 else labels[partner]
    assert run.sums[2] == (logits.argmax(1) == counted).sum()


def test_several_teachers_answer_with_their_mean(taught, tmp_path):  # noqa: F811
    topology = student().model.topology
    other = tmp_path / "o.state"
    state = torch.load(taught, weights_only=True)
    state["best"] = {key: values * 0.5 if values.is_floating_point() else values for key, values in state["best"].items()}
    torch.save(state, other)
    one, two = (teacher.Teacher(path, topology) for path in (taught, other))
    both = teacher.load([taught, other], topology)
    assert torch.allclose(both.logits(IMAGES[:9]), (one.logits(IMAGES[:9]) + two.logits(IMAGES[:9])) / 2)
    assert not torch.equal(one.logits(IMAGES[:9]), two.logits(IMAGES[:9]))
    assert both.sha256 == f"{one.sha256},{two.sha256}" and both.description["members"] == [one.description, two.description]
    assert teacher.load([], topology) is None and teacher.load([taught], topology).sha256 == one.sha256
    run = student(tmp_path / "s.state", replace(CONFIG, epochs=1), teacher=both)
    run.run()
    with pytest.raises(UsageError, match="was started with another --teacher or without one"):
        student(tmp_path / "s.state", replace(CONFIG, epochs=1), teacher=one).resume()


@pytest.mark.parametrize("proxies", ["masked", "open", "clipped", "pulled"])
def test_proxies_beyond_one(proxies):
    run = student(config=replace(CONFIG, proxies=proxies, augment=False, decay=0.0))
    layer = run.model.layers["conv2"]
    with torch.no_grad():
        layer.proxy.mul_(30)
    before, beyond = layer.proxy.detach().clone(), layer.proxy.detach().abs() > 1
    run._train_step(torch.arange(32))
    grad, after = layer.proxy.grad, layer.proxy.detach()
    assert beyond.any() and (~beyond).any() and grad[~beyond].any()
    assert bool(grad[beyond].any()) == (proxies in ("open", "pulled"))
    if proxies == "masked":
        assert torch.equal(after[beyond], before[beyond])
    elif proxies == "clipped":
        assert after.abs().max() == 1
    else:
        share, moved = HELD.get(proxies, 0.0), before - CONFIG.lr * grad.sign()  # Adam's first step, but where the gradient is tiny
        large = beyond & (grad.abs() > 1e-4)
        expected = moved - share * (moved - moved.clamp(-1, 1))
        assert large.any() and torch.allclose(after[large], expected[large], atol=1e-4)


@pytest.mark.parametrize("limit", [1.0, 1.5])
def test_the_polynomial_is_that_of_its_definition(limit):
    """Values are those of the sign; the gradient is 2 - 2 |u| / limit inside the limit, and 0 outside."""
    dot = torch.arange(-9.0, 10).view(1, 1, 1, -1)
    y = (2 * dot + 1).requires_grad_()
    out = binarize.sign(y, 0.2, limit, estimator="polynomial")
    up = torch.randn(out.shape, generator=seeded())
    out.backward(up)
    u = 0.2 * dot
    slope = torch.where(u.abs() < limit, 2 - 2 * u.abs() / limit, 0.0)
    assert torch.equal(out.detach(), binarize.sign(y.detach(), 0.2, limit)) and torch.allclose(y.grad, up * slope, atol=1e-6)
    y, offset = (torch.randn(4, 2, 3, 3, generator=seeded()) * 5).requires_grad_(), torch.tensor([0.3, -0.2], requires_grad=True)
    out, mean, inverse = binarize.norm_sign(y, offset, limit, estimator="polynomial")
    up = torch.randn(out.shape, generator=seeded(2))
    found = torch.autograd.grad(out, [y, offset], up)
    u = F.batch_norm(y, None, None, torch.ones(2), offset, True, eps=binarize.NORM_EPS)
    slope = torch.where(u.abs() < limit, 2 - 2 * u.abs() / limit, 0.0).detach()
    for a, b in zip(found, torch.autograd.grad(u, [y, offset], up * slope)):
        assert torch.allclose(a, b, atol=1e-5)
    assert torch.equal(out.detach(), binarize.norm_sign(y, offset, limit)[0].detach())


def test_a_restart_keeps_the_bits_and_forgets_the_rest():
    run = normed(config=replace(NORMED, epochs=6, restarts=2, float_epochs=0, validation=0.0, ema=0.0))
    rates, sizes, bits = [], [], {}
    original, update = run.restart, run.update

    def restart():
        bits["before"] = export(run.model.eval()).weights
        original()
        bits["after"] = export(run.model).weights
        run.model.train()
        sizes.append((run.epoch, {name: layer.proxy.abs().max().item() for name, layer in run.model.layers.items()}))
        assert not run.optimizer.state

    def follow(*args):
        rates.append(run.optimizer.param_groups[0]["lr"])
        update(*args)

    run.restart, run.update = restart, follow
    run.run()
    cycle = 2 * run.steps
    assert len(rates) == 3 * cycle and rates[:cycle] == rates[cycle:2 * cycle] == rates[2 * cycle:] and max(rates) == NORMED.lr
    assert [epoch for epoch, _ in sizes] == [2, 4]
    for name, layer in run.model.layers.items():
        assert (bits["before"][name] == bits["after"][name]).all()
        assert sizes[0][1][name] == pytest.approx(math.sqrt(6 / (layer.fan_in + len(layer.proxy))) / 2)


ALL = dict(proxies="pulled", estimator="polynomial", cutout=3, restarts=2)


@pytest.mark.parametrize("changes, at", [({**ALL, "mixup": 0.4}, 3), ({**ALL, "cutmix": 1.0}, 9)])
def test_all_of_them_are_resumed_bit_identically(tmp_path, changes, at):
    """Inside the first cycle, and at the first step of a later one, which begins with a restart."""
    config = replace(NORMED, **changes, float_epochs=0, warmup=0)
    whole = normed(tmp_path / "a.state", config)
    whole.run()
    assert (at - 1) % whole.steps == 0 or at < whole.steps
    again = interrupted_and_resumed(lambda **options: normed(tmp_path / "b.state", config, **options), at)
    assert same(again.state(), whole.state())
    config = record.describe(whole)["config"]
    assert all(config[name] == value for name, value in changes.items())
    with pytest.raises(UsageError, match="was started with other values of cutout; resume with the same flags$"):
        normed(tmp_path / "a.state", replace(whole.config, cutout=4)).resume()


def test_a_run_stopped_while_the_teacher_answers_goes_on_with_the_same_bits(tmp_path, taught):  # noqa: F811
    config = replace(CONFIG, mirror="alternating", shift=2, teacher_views="mirrored")
    tutor = teacher.Teacher(taught, student().model.topology)
    whole = student(tmp_path / "a.state", config, teacher=tutor)
    whole.run()
    again = interrupted_and_resumed(lambda **options: student(tmp_path / "b.state", config, teacher=tutor, **options), 1)
    assert same(again.state(), whole.state())


@pytest.mark.parametrize("change, message", [
    (dict(mixup=0.2, cutmix=1.0), "--mixup 0.2 and --cutmix 1: expected one of them"),
    (dict(mixup=-1.0), "--mixup -1.0: expected a number from 0 to 100"),
    (dict(cutout=8, augment=False), "--cutout 8: is part of the augmentation, expected no --no-augment with it"),
    (dict(restarts=1), "--restarts 1: expected --schedule cosine with it"),
    (dict(restarts=2, epochs=10, schedule="cosine"),
     "--restarts 2: makes 3 cycles of equal length, expected a multiple of 3 in place of --epochs 10"),
    (dict(restarts=1, epochs=10, schedule="cosine", warmup=5), "--warmup 5: takes the first of 2 cycles, expected fewer than 5"),
    (dict(proxies="free"), "--proxies free: expected masked or open or clipped or pulled")])
def test_refusals(change, message):
    with pytest.raises(UsageError) as error:
        TrainConfig(**change).verify()
    assert str(error.value) == message


def test_retrainings_have_none_of_them():
    with pytest.raises(UsageError, match="^--mixup 0.2: has no meaning in class-incremental training, expected it with train or pretrain$"):
        CilConfig(scenario="cifar10-4+3x2", buffer_mb=5.0, recipe=TrainConfig(mixup=0.2)).verify()
