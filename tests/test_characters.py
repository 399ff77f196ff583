"""The program behind results/omniglot/extractor.pt: its training goes on where it stopped, its loss, and the network that it writes."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "docs" / "benchmarks"))

import characters  # noqa: E402

from fbnn_hw.ir.network import LATENT  # noqa: E402
from fbnn_hw.reference import inference  # noqa: E402

NAMES = "abcde"


@pytest.fixture
def start(tmp_path, monkeypatch):
    """start(name, kind, steps, init, size): a training on five classes of random drawings, with its state in a file of this name."""
    monkeypatch.setattr(characters, "KINDS", {kind: (4, 3, 1e-3) for kind in characters.KINDS})
    for name, value in (("WARMUP", 1), ("BATCHES", 2), ("BATCH", 16)):
        monkeypatch.setattr(characters, name, value)
    kept = torch.randint(0, 256, (5, 20, 1, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    return lambda name, kind, steps, init=None, size="narrow": characters.Training(
        tmp_path / name, kind, kept, NAMES, steps, init, kept, size)


@pytest.mark.parametrize("kind", characters.KINDS)
def test_a_training_goes_on(start, kind):
    whole = start("whole.state", kind, 2)
    whole.run()
    parts = start("parts.state", kind, 2)
    parts._step()
    parts.step = 1
    parts.save()
    again = start("parts.state", kind, 2)
    again.run()
    assert again.step == 2 and torch.equal(whole.generator.get_state(), again.generator.get_state())
    for name, value in whole.model.state_dict().items():  # sums in memory that lies otherwise may round otherwise
        assert torch.allclose(value, again.model.state_dict()[name], atol=1e-4, rtol=1e-4), name


@pytest.mark.parametrize("size, latent", [("narrow", 768), ("wide", 1536)])
def test_the_network_has_the_classes_that_are_not_mirrored(start, size, latent):
    first = start("float.state", "float", 1, size=size)
    first.run()
    bits = start("bits.state", "bits", 1, first.path, size)
    bits.run()
    network = bits.network({})
    assert network.topology.classes == tuple(NAMES) and network.topology.shapes[LATENT] == (latent, 1, 1)
    images = bits.kept[:, 0].expand(-1, 3, -1, -1)
    with torch.no_grad():
        expected = bits.model.eval().logits(images)[:, :5].numpy()
    assert (inference.logits(network, images.numpy()) == expected).all()
    nearest, learned = bits.measured()
    assert 0 <= nearest <= 1 and 0 <= learned <= 1


@pytest.mark.parametrize("signs", [False, True])
def test_the_loss_of_means(signs):
    """By hand, of classes that differ in few places, and of which no mean is near 0, where a sign would be drawn."""
    generator = torch.Generator().manual_seed(0)
    patterns = torch.ones(3, 33)
    patterns[range(3), range(3)] = -1
    latent = patterns.repeat_interleave(4, 0).double() * (0.2 + torch.rand(3 * 4, 33, generator=generator))
    each, losses = latent.reshape(3, 4, 33).numpy(), []
    for c in range(3):
        for d in range(4):
            means = [each[k].mean(0) if k != c else np.delete(each[c], d, 0).mean(0) for k in range(3)]
            means = [np.sign(mean) if signs else mean for mean in means]
            scores = [characters.SHARP * each[c, d] @ mean / np.linalg.norm(each[c, d]) / np.linalg.norm(mean) for mean in means]
            losses.append(np.log(np.exp(scores).sum()) - scores[c])
    drawn = torch.Generator().manual_seed(1)
    assert np.mean(losses) > 0.1
    assert float(characters.by_the_others(latent, 3, signs, drawn)) == pytest.approx(np.mean(losses), rel=1e-9)
