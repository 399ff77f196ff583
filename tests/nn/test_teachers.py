"""The float network that teaches."""

import pytest
import torch

from fbnn_hw.data import datasets
from fbnn_hw.ir.models import AIRBENCH, vgg
from fbnn_hw.nn.floating import PATCH, Airbench, scaled
from fbnn_hw.train import pretrain
from fbnn_hw.train.config import TrainConfig
from fbnn_hw.train.offline import Trainer
from fbnn_hw.train.teacher import Teacher

FIXTURE = datasets.load("fixture").select(("cat", "dog", "ship"))
IMAGES, LABELS = torch.from_numpy(FIXTURE.images), torch.from_numpy(FIXTURE.labels)


def test_patches_are_white():
    model = Airbench("a", FIXTURE.classes, 32)
    model.whiten(IMAGES)
    responses = torch.nn.functional.conv2d(scaled(IMAGES), model.whitening).transpose(0, 1).flatten(1)
    half = len(responses) // 2
    assert half == 3 * PATCH ** 2 and torch.allclose(responses[:half], -responses[half:], atol=1e-5)
    covariance = torch.cov(responses[:half])
    assert (covariance - torch.diag(covariance.diagonal())).abs().max() < 0.02
    # The weakest directions, pixels that hardly differ, are held down by WHITENING_EPS.
    assert covariance.diagonal().max() < 1.001 and (covariance.diagonal() > 0.9).sum() >= half // 2


def test_it_learns_and_teaches(tmp_path):
    config = TrainConfig(epochs=4, batch=32, lr=2e-3, schedule="cosine", patience=0, decay=0.05, warmup=1)
    model = pretrain.make(AIRBENCH, FIXTURE.classes, 32, config)
    model.whiten(IMAGES)
    first = model.groups[1].weight.detach().clone()
    whitening = model.whitening.clone()
    run = Trainer(model, IMAGES, LABELS, config, tmp_path / "t.state")
    history = run.run()
    assert history[-1]["train_accuracy"] > 0.6 and history[-1]["train_loss"] < history[0]["train_loss"]
    assert not torch.equal(model.groups[1].weight, first) and torch.equal(model.whitening, whitening)
    teacher = Teacher(tmp_path / "t.state", vgg("s", FIXTURE.classes, width=1 / 16, latent=64, hidden=16))
    assert torch.equal(teacher.logits(IMAGES[:8]), model.eval()(IMAGES[:8])) and teacher.description["name"] == AIRBENCH


@pytest.mark.parametrize("size", [16, 32])
def test_shapes_and_precision(size):
    model = Airbench("a", ("x", "y"), size).eval()
    images = torch.randint(0, 256, (4, 3, size, size), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        whole = model(images)
        model.dtype = torch.bfloat16
        rounded = model.logits(images)
    assert whole.shape == (4, 2) and rounded.dtype == torch.float32 and 0 < (whole - rounded).norm() < 0.1 * whole.norm()
