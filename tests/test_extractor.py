"""The programs behind teach.pt: its training goes on where it stopped, and what measures it."""

import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "docs" / "benchmarks"))

import extractor  # noqa: E402
import pasted  # noqa: E402
import things  # noqa: E402


@pytest.fixture
def small(monkeypatch):
    """(things, fixed pictures) of 20 photographs and 4 shapes."""
    monkeypatch.setattr(extractor, "THINGS", 6)
    random, generator = np.random.default_rng(0), torch.Generator().manual_seed(0)
    photographs = torch.randint(0, 256, (20, 3, 32, 32), generator=generator, dtype=torch.uint8)
    known = extractor.Things(torch.from_numpy(np.stack([pasted.shape(random) for _ in range(4)])), photographs, torch.arange(20) % 10)
    numbers = torch.arange(24)
    return known, {"things": numbers, "images": known.pictures(numbers, generator), "features": torch.randn(24, 1280, generator=generator)}


def test_a_training_goes_on(small, tmp_path, monkeypatch):
    monkeypatch.setattr(extractor, "WARMUP", 1)
    whole = extractor.Training(*small, 2, "scales", tmp_path / "whole.state")
    before = {name: layer.proxy.detach().clone() for name, layer in whole.model.layers.items()}
    whole.run()
    assert all((layer.proxy != before[name]).any() for name, layer in whole.model.layers.items())
    parts = extractor.Training(*small, 2, "scales", tmp_path / "parts.state")
    parts._step()
    parts.step = 1
    parts.save()
    again = extractor.Training(*small, 2, "scales", tmp_path / "parts.state")
    again.run()
    assert again.step == 2 and torch.equal(whole.generator.get_state(), again.generator.get_state())
    for name, value in whole.model.state_dict().items():  # sums in memory that lies otherwise may round otherwise
        assert torch.allclose(value, again.model.state_dict()[name], atol=1e-6), name


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


def test_nearest_mean_and_the_learner():
    """Latents around one pattern for each class: both find nearly all."""
    import fbnn_hw

    network = fbnn_hw.load("0.5mb.pt")
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(3), 20)
    latents = random.integers(0, 2, (3, 1024), np.uint8)[labels] ^ (random.random((60, 1024)) < 0.3)
    assert (things.nearest_mean(2.0 * latents - 1, labels, 2.0 * latents - 1) == labels).all()
    assert (things.learned(network, latents, labels, latents, 50, 30, 0) == labels).mean() > 0.95


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
