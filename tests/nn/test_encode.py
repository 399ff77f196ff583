"""What the encoders take: bytes alone."""

import numpy as np
import pytest
import torch

from fbnn_hw import nn as binary
from fbnn_hw.base.errors import InputError
from fbnn_hw.ir.models import build
from fbnn_hw.nn.network import FBNN
from fbnn_hw.reference import encode, inference
from tests import strategies

IMAGES = torch.from_numpy(strategies.images(1, 2, 32))
WAY_OUT = "take torchvision's PILToTensor in place of ToTensor, or (255 * images).round().to(torch.uint8) of floats from 0 to 1"


@pytest.mark.parametrize("make", [binary.Thermometer, lambda: binary.Thermometer("trgb"), binary.Binarize, binary.Bits8,
                                  lambda: FBNN(build("tiny", ("a", "b")))])
@pytest.mark.parametrize("change, found", [
    (lambda images: images.float() / 255, "float32"), (lambda images: images.double(), "float64"), (lambda images: images > 99, "bool"),
    (lambda images: images.to(torch.int64), "int64"), (lambda images: images.half(), "float16")])
def test_floats_are_refused_where_they_come_in(make, change, found):
    """As torchvision's ToTensor makes them, from 0 to 1: of a byte nothing would be left."""
    encoder = make()
    encoder(IMAGES)
    with pytest.raises(InputError) as refused:
        encoder(change(IMAGES))
    assert str(refused.value) == f"images: found {found}, expected bytes, uint8 of 0 to 255; {WAY_OUT}"


@pytest.mark.parametrize("images, message", [
    (IMAGES[0], r"images: found shape \(3, 32, 32\), expected \(N, 3, S, S\), or grey \(N, 1, S, S\)$"),
    (IMAGES[:, :2], r"images: found shape \(2, 2, 32, 32\), expected"),
    (IMAGES.permute(0, 2, 3, 1), r"images: found shape \(2, 32, 32, 3\), expected"),
    (IMAGES.numpy(), "images: found ndarray, expected a uint8 tensor")])
def test_what_is_no_image(images, message):
    with pytest.raises(InputError, match=message):
        binary.Thermometer()(images)


def test_the_reference_refuses_floats():
    network = strategies.fill(build("tiny", ("a", "b")), 1)
    floats = IMAGES.numpy() / 255
    for use in (lambda images: inference.logits(network, images), lambda images: encode.encode(images, "tycc", 4),
                lambda images: encode.encode(images, "trgb", 4), encode.to_bytes,
                lambda images: encode.packed(images, network.topology.ops[0]),
                *(lambda images, kind=kind: encode.first_map(images, kind().op("input", 32)) for kind in (binary.Binarize, binary.Bits8))):
        use(IMAGES.numpy())
        for images in (floats, floats.astype(np.float32), IMAGES.numpy().astype(np.int64)):
            with pytest.raises(InputError, match=f"images: found {images.dtype}.* expected .*uint8"):
                use(images)
