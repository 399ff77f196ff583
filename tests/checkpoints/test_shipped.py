"""The shipped files: what they state, and that their logits on the fixture images are those of the day they were shipped."""

import hashlib

import pytest
import torch

from fbnn_hw import checkpoints
from fbnn_hw.data import datasets
from fbnn_hw.ir import checkpoint
from fbnn_hw.ir.models import build
from fbnn_hw.nn.network import load
from fbnn_hw.train.offline import predict
from fbnn_hw.train.teacher import Teacher

LOGITS = {
    "0.5mb-t.pt": "d8f7a64a770c59c86c5132a04873564114241a31266d0c7c93a2a27bd7c0ce21",
    "1mb-t.pt": "4fe9a30bcbd77952840a8b375c775fcf42850d952d2ea7883433657abfe44714",
    "3mb-t.pt": "3c40c3e2b9a0ac1bd08a574f18509b9b099fea0735ec2028df9c143e425c3019",
    "0.5mb-fe4-combined.pt": "f014e68cf7fce50cf2c4dc059118df5e7cfbe02c4ddfb17aa24b809e47ca61b5",
    "0.5mb-fe4.pt": "7a4e3898316c52efcbb481d9579ad5d8162105e4d6fbdeefae6611799508eec8",
    "0.5mb.pt": "97b7be4e2632e14bc886cfa6303bc43df9f8eaaeb9e1371083c02bdf87c5fd6b",
    "1mb.pt": "55ea620dfc44dfbfa0b7728f17937c98e06b2b633152db6296cccaa3b071276d",
    "3mb-fe4-combined.pt": "a15eb54fba3c6114f2b2ac60443bbbef24ee29a12721dce8454be9f2d33c2d5d",
    "3mb-fe4.pt": "1ee2b7b6ad1e9f4b073eef537f9cf875ccdbe09268fe7284078463e1b6001aab",
    "res3mb.pt": "11d97c4ee33100beb1ff2ee4ebb6501a4429c12a88ea3108e419293bd75fa0fb",
    "res-small.pt": "f3e7612d2615ee51e5f875226a64222d1a521e8f051608e90538ae303bbcace3",
    "fast.pt": "a40a023cb2d309677dc452048b8eb55a8452427e32b1bad09edc26d822a11f84",
    "tiny.pt": "95b4c8cd2acee3dc15bd42c2c51e3325307a8aeb1a617ae2e47e3d3fd684d7d5",
    "3mb.pt": "930c7505a05332db70ba7d3c711acd4f052cc2d61462c7f4807e97df4ae5adc1",
    "teach.pt": "a6d8a1e56830e7356142c04a811a4add6b35202cd7a15f46a9a29b7c5579f0d0",
}
"""SHA-256 of the int32 logits (N, classes), little-endian, C order, of as many fixture images as have the pixels of all 300."""


@pytest.mark.parametrize("name", checkpoints.shipped())
def test_record_and_logits(name):
    network = checkpoint.read(checkpoints.FOLDER / name)
    record = network.training
    for key in ("command", "data", "epochs", "best_epoch", "train_images", "hardware", "device", "threads", "torch", "seed", "config"):
        assert record[key] is not None, key
    correct = record["test_accuracy"] * record["test_images"]
    assert correct == pytest.approx(round(correct), abs=1e-6) and record["test_images"] >= 4000
    size = network.topology.image_size
    images = torch.from_numpy(datasets.test_images(size, 300 * 32 ** 2 // size ** 2))
    logits = predict(load(network).eval(), images, 100).to(torch.int32).numpy().astype("<i4")
    assert hashlib.sha256(logits.tobytes()).hexdigest() == LOGITS[name]


@pytest.mark.parametrize("name, most", [("airbench", 16)])
def test_the_teacher_that_ships(name, most):
    """It gets all but `most` of the 300 images right; float arithmetic of other processors may move an image or two."""
    data = datasets.load("fixture")
    teacher = Teacher(checkpoints.resolve(name, "--teacher", ".state"), build("tiny", data.classes))
    right = teacher.logits(torch.from_numpy(data.images)).argmax(1) == torch.from_numpy(data.labels)
    assert len(right) == 300 and (~right).sum() <= most + 2
    assert teacher.description["name"] == name and checkpoints.shipped(".state") == [f"{name}.state"]
