"""The programs behind teach.pt: its training goes on where it stopped, and what measures it."""

import sys
from argparse import Namespace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "docs" / "benchmarks"))

import extractor  # noqa: E402
import few_shot  # noqa: E402
import pasted  # noqa: E402
import things  # noqa: E402
import through_camera  # noqa: E402

import fbnn_hw  # noqa: E402


@pytest.fixture
def small(monkeypatch):
    """`Things` of 20 photographs and 4 shapes."""
    for name, value in (("PHOTOGRAPHS", 6), ("CUT", 2), ("DRAWN", 2), ("WARMUP", 1)):
        monkeypatch.setattr(extractor, name, value)
    random, generator = np.random.default_rng(0), torch.Generator().manual_seed(0)
    photographs = torch.randint(0, 256, (20, 3, 32, 32), generator=generator, dtype=torch.uint8)
    return extractor.Things(torch.from_numpy(np.stack([pasted.shape(random) for _ in range(4)])), photographs, torch.arange(20) % 10,
                            tuple("abcdefghij"))


def plain(images):
    """Features (N, 64) as a teacher's: pixels of images of 32 x 32."""
    return images[:, 0, ::4, ::4].flatten(1).float()


def options(steps, weights=extractor.WEIGHTS):
    return Namespace(steps=steps, model="0.5mb", init=None, rate=extractor.RATE, norm="bn", weights=weights, precision="float32")


@pytest.fixture
def features(small, tmp_path):
    extractor.features(small.photographs, tmp_path / "features.pt", plain)
    return torch.load(tmp_path / "features.pt", weights_only=True)["features"]


def test_a_training_goes_on(small, features, tmp_path):
    whole = extractor.Training(small, features, options(2), tmp_path / "whole.pt")
    before = {name: layer.proxy.detach().clone() for name, layer in whole.model.layers.items()}
    whole.run()
    assert all((layer.proxy != before[name]).any() for name, layer in whole.model.layers.items())
    parts = extractor.Training(small, features, options(2), tmp_path / "parts.pt")
    parts._step()
    parts.step = 1
    parts.save()
    assert not fbnn_hw.load(tmp_path / "parts.pt").training["finished"]
    again = extractor.Training(small, features, options(2), tmp_path / "parts.pt")
    again.run()
    assert again.step == 2 and torch.equal(whole.generator.get_state(), again.generator.get_state())
    for name, value in whole.model.state_dict().items():  # sums in memory that lies otherwise may round otherwise
        assert torch.allclose(value, again.model.state_dict()[name], atol=1e-6), name
    network = fbnn_hw.load(tmp_path / "whole.pt")
    assert network.training["finished"] and network.training["teacher_images"] == 20 and network.thresholds


@pytest.mark.parametrize("number", range(4))
def test_each_loss_trains_alone(small, features, tmp_path, number):
    """The hidden layer and the logits learn from the classes alone."""
    training = extractor.Training(small, features, options(1, [float(i == number) for i in range(4)]), tmp_path / "one.pt")
    before = {name: layer.proxy.detach().clone() for name, layer in training.model.layers.items()}
    for group in training.parts["optimizer"].param_groups:
        group["weight_decay"] = 0
    training.run()
    moved = {name for name, layer in training.model.layers.items() if (layer.proxy != before[name]).any()}
    assert moved == set(before) - (set() if number == 3 else {"hidden", "logits"}) and training.sums.isfinite().all()


def test_a_training_begins_with_the_bits_of_a_file(small, features, tmp_path):
    first = extractor.Training(small, features, options(1), tmp_path / "first.pt")
    first.run()
    again = Namespace(**vars(options(1)) | {"init": str(tmp_path / "first.pt")})
    second = extractor.Training(small, features, again, tmp_path / "second.pt")
    second.save()
    one, other = (fbnn_hw.load(tmp_path / name) for name in ("first.pt", "second.pt"))
    assert all((one.weights[name] == other.weights[name]).all() for name in one.weights)
    assert all((one.thresholds[name] == other.thresholds[name]).all() for name in one.thresholds)


def test_features_go_on(small, features, tmp_path):
    """What the teacher was not asked yet is asked; without all a training is refused."""
    asked = []
    path = tmp_path / "parts.pt"
    torch.save({"features": features[:8]}, path)
    extractor.features(small.photographs, path, lambda images: asked.append(len(images)) or plain(images), 8)
    assert asked == [8, 4]
    assert torch.equal(torch.load(path, weights_only=True)["features"], features) and torch.equal(features, plain(small.photographs).half())
    with pytest.raises(SystemExit, match="features: of 8 of 20 photographs"):
        extractor.Training(small, features[:8], options(1), tmp_path / "none.pt")


def test_a_picture_shows_its_thing():
    """A red sprite before black: red in the middle, black where the sprite is not; a whole one fills the picture."""
    generator = torch.Generator().manual_seed(0)
    sprite = torch.zeros(64, 4, 64, 64, dtype=torch.uint8)
    sprite[:, 0] = sprite[:, 3] = 255
    shown = pasted.paste(sprite, torch.zeros(64, 3, 64, 64), torch.arange(64) % 2 == 0, generator).float()
    red = shown[:, 0] - shown[:, 1]
    assert (red[:, 14:18, 14:18].mean((1, 2)) > 30).all()
    covered = (red > 25).float().mean((1, 2))
    assert covered[::2].min() > 0.9 and covered[1::2].mean() < 0.75


def test_losses():
    """Alike latents of a thing cost less than unlike ones; features that lie as the latents do cost least."""
    generator = torch.Generator().manual_seed(0)
    latent = torch.randn(8, 64, generator=generator).sign()
    numbers = torch.arange(8).repeat(2)
    assert extractor.alike(latent.repeat(2, 1), numbers) < 0.1 < extractor.alike(latent.repeat(2, 1), torch.arange(8).repeat_interleave(2))
    same = torch.nn.Identity()
    assert extractor.taught(latent, latent, same).abs() < 1e-5 < extractor.taught(latent, latent.roll(1, 0), same)


def around(patterns, count, noise, random):
    """uint8 bits: `count` latents of each pattern, of which the share `noise` of the bits is turned over."""
    latents = patterns.repeat(count, 0)
    return latents ^ (random.random(latents.shape) < noise)


def test_nearest_mean_and_the_learner():
    """Latents around one pattern for each class: both find nearly all."""
    network = fbnn_hw.load("0.5mb.pt")
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 20)
    latents = around(random.integers(0, 2, (3, 1024), np.uint8), 20, 0.3, random)
    assert (things.nearest_mean(2.0 * latents - 1, labels, 2.0 * latents - 1) == labels).all()
    assert (things.learned(network, latents, labels, latents, 50, 30, 0) == labels).mean() > 0.95


@pytest.mark.parametrize("rule", few_shot.RULES)
def test_few_shot_rules(rule):
    """Latents around one pattern for each of 4 classes, of which 3 are drawn; and latents that say nothing of their class."""
    network = fbnn_hw.load("0.5mb.pt")
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 110)
    latents = around(random.integers(0, 2, (4, 1024), np.uint8), 110, 0.4, random)
    assert few_shot.shares(network, latents, labels, rule, 3, 2).min() > 0.95
    assert few_shot.shares(network, random.permutation(latents), labels, rule, 3, 2).max() < 0.5


def test_shorter_lessons():
    """Ten of the twenty pictures are taught, and the same ones are asked."""
    network = fbnn_hw.load("0.5mb.pt")
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 110)
    latents = around(random.integers(0, 2, (4, 1024), np.uint8), 110, 0.4, random)
    assert few_shot.shares(network, latents, labels, "nearest-mean", 3, 2, 10).min() > 0.95
    for count in (10, 20):
        lost, right, _ = few_shot.unknowns(network, latents, labels, 3, 2, count).T
        assert (right > 0.9).all() and (lost + right <= 1).all()


def test_few_shot_draws():
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(5), 130))
    taught, asked = few_shot.draw(labels, 3, 7)
    assert taught.shape == (3, 20) and asked.shape == (3, 80) and len(np.unique(np.concatenate([taught, asked], 1))) == 300
    assert (labels[taught] == labels[asked][:, :1]).all() and len(set(labels[taught[:, 0]])) == 3
    assert not np.array_equal(taught, few_shot.draw(labels, 3, 8)[0])


def test_two_bits_are_the_nearest_of_rounded_means():
    """By distance: |x - m|^2 with means of -3/4, -1/4, 1/4 or 3/4."""
    random = np.random.default_rng(1)
    taught = np.where(random.random((24, 40)) < random.random((3, 40)).repeat(8, 0), 1.0, -1.0)
    asked, labels = np.where(random.random((50, 40)) < 0.5, 1.0, -1.0), np.repeat(np.arange(3), 8)
    means = taught.reshape(3, 8, 40).mean(1)
    rounded = np.where(means >= 0, 1, -1) * np.where(abs(means) >= 0.5, 0.75, 0.25)
    distances = ((asked[:, None] - rounded) ** 2).sum(2)
    found = few_shot.two_bits(taught, labels, asked)
    assert np.allclose(distances[np.arange(50), found], distances.min(1)) and len(set(found)) == 3
    distances = ((asked[:, None] - means) ** 2).sum(2)
    assert np.allclose(distances[np.arange(50), few_shot.nearest_mean(taught, labels, asked)], distances.min(1))


def test_held_out_classes(tmp_path):
    names = [f"n{i:08}" for i in range(180)]
    names = sorted([*names, *few_shot.HELD_OUT])
    assert len(names) == 200 == len(set(names))
    images = np.random.default_rng(0).integers(0, 256, (200, 3, 32, 32), np.uint8)
    np.savez(tmp_path / "all.npz", images=images, labels=np.arange(200, dtype=np.uint8), names=np.array(names))
    held, rest = (few_shot.photographs(tmp_path / "all.npz", which) for which in (True, False))
    assert held[2] == list(few_shot.HELD_OUT) and len(rest[2]) == 180 and not set(held[2]) & set(rest[2])
    for part, labels, kept in (held, rest):
        assert np.array_equal(part, images[[names.index(name) for name in kept]]) and labels.tolist() == [*range(len(kept))]


def test_drawings_and_photographs():
    for parts in things.DRAWINGS.values():
        assert things.drawing(parts).getchannel("A").getextrema() == (0, 255)
    assert len(things.DRAWINGS) == len(things.PHOTOGRAPHS) == 12
    if not (find_spec("skimage") and find_spec("sklearn")):
        pytest.skip("scikit-image or scikit-learn is not there, whose photographs are the backgrounds")
    for kind in ("photographs", "drawings"):
        (seen, labels), (unseen, truth) = things.pictures(kind, 2, 0)
        assert seen.shape == (40, 3, 32, 32) and unseen.shape == (120, 3, 32, 32) and labels.tolist() == [0] * 20 + [1] * 20
        assert seen.std() > 20 and np.bincount(truth).tolist() == [60, 60]


def test_things_through_a_camera(monkeypatch):
    """Two things are known by both ways; the pictures are those that things.py has."""
    if not (find_spec("skimage") and find_spec("sklearn")):
        pytest.skip("scikit-image or scikit-learn is not there, whose photographs are the things")
    monkeypatch.setattr(through_camera, "CLASSES", 2)
    found = through_camera.of_things(fbnn_hw.load("teach.pt"), 1)
    assert all(len(right) == 120 and right.mean() > 0.8 for right in found.values())
    (large, _), _ = things.pictures("photographs", 2, 0, 128)
    (small, _), _ = things.pictures("photographs", 2, 0)
    assert (through_camera.WAYS["as they are"](large) == small).all()
