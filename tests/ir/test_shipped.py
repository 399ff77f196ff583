"""The shipped files: what they state, and that their logits on the fixture images are those of the day they were shipped."""

import hashlib
import os

import pytest
import torch

from fbnn_hw.data import datasets
from fbnn_hw.ir import checkpoint, shipped
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
    "tiny.pt": "2f0b2fd0cce24b7ed817b62a5ab6da37d20ec797e1919fa6d3754e82b4d144da",
    "3mb.pt": "930c7505a05332db70ba7d3c711acd4f052cc2d61462c7f4807e97df4ae5adc1",
    "teach.pt": "7bb2385348a0dbdc781b69f9bbdbe08a9b828faaaedbd162497db237023dd712",
}
"""SHA-256 of the int32 logits (N, classes), little-endian, C order, of as many fixture images as have the pixels of all 300."""
FIRST = {
    "0.5mb-t.pt": "6866f49419c0597a863961adf0258292a4958a40b78cacebc3d224372dfba425",
    "1mb-t.pt": "b67d6a7afebcbd148a301ca0247251b23d99fe607ac52e2b986156c6bf581956",
    "3mb-t.pt": "d339bdb751fc99e341e4f7c66bd239f3816420c89cbb6a9c37390748ebba8110",
    "0.5mb-fe4-combined.pt": "d8098e9676b2ad0097f3ec43e87e5fcac847fab8b7aea83ac01633cfa760e626",
    "0.5mb-fe4.pt": "849f9eddf6fbaa716b6032793a2736b3ad2b8ab7ec3bb19f7f63216137641f46",
    "0.5mb.pt": "37e565ba82b2ece5f1e691f33e96ef57c12ac260574bbb585a30c1779f6c803e",
    "1mb.pt": "810a43b8c2271ce2fe9f98e904e9e556b205ad93c02a2b51c8ab043c3401285a",
    "3mb-fe4-combined.pt": "bdfc223a1c6f6a02a58cbc0fd603f53f3cb3dad3756d6356c2b206c7a95ca823",
    "3mb-fe4.pt": "89cebbc3812bc0a6d83e4cb3e3c7002699f2c67295fe65fbd92afbb7de1860af",
    "res3mb.pt": "c45b56249d28922311b120e82c68a2b93ede8b5676e1410b9cf686138b3dc4c4",
    "res-small.pt": "1e0e2aa4bf95340252dd6aee5494e1a9300aca76aae8e598656302f643304ac4",
    "fast.pt": "fa56e06aebd015abe87b33e99d2473b78167d45ff1674213d4e39cf00d7df271",
    "tiny.pt": "82c2349e79c5689f72405bdc6eeb56ab806f8766c326f6337c5fc548aecf93f1",
    "3mb.pt": "86a98a0a9462874cca4a85bbaa2a5ce03e72046187bee9bcc42db736f5b0832c",
    "teach.pt": "07c2e5d77a2387211993271e56684783ee353699c5c000b218b5abb1e61e93e9",
}
"""Those of the first tenth of these images."""


@pytest.mark.parametrize("name", shipped.names())
def test_record_and_logits(name):
    """On a tenth of the images, or on all of them with FBNN_SLOW=1."""
    network = checkpoint.read(shipped.FOLDER / name)
    record = network.training
    for key in ("command", "data", "epochs", "best_epoch", "train_images", "hardware", "device", "threads", "torch", "seed", "config"):
        assert record[key] is not None, key
    if network.topology.classes:
        correct = record["test_accuracy"] * record["test_images"]
        assert correct == pytest.approx(round(correct), abs=1e-6) and record["test_images"] >= 4000
    size, whole = network.topology.image_size, os.environ.get("FBNN_SLOW")
    images = torch.from_numpy(datasets.test_images(size, 300 * 32 ** 2 // size ** 2))
    images = images if whole else images[:len(images) // 10]
    logits = predict(load(network).eval(), images, 100).to(torch.int32).numpy().astype("<i4")
    assert hashlib.sha256(logits.tobytes()).hexdigest() == (LOGITS if whole else FIRST)[name]


@pytest.mark.parametrize("name, most", [("airbench", 16)])
def test_the_teacher_that_ships(name, most):
    """It gets all but `most` of the 300 images right; float arithmetic of other processors may move an image or two."""
    data = datasets.load("fixture")
    teacher = Teacher(shipped.resolve(name, "--teacher", ".state"), build("tiny", data.classes))
    right = teacher.logits(torch.from_numpy(data.images)).argmax(1) == torch.from_numpy(data.labels)
    assert len(right) == 300 and (~right).sum() <= most + 2
    assert teacher.description["name"] == name and shipped.names(".state") == [f"{name}.state"]
