"""Sizes of the named models, in bits and multiply-accumulates, as computed by hand in the paper's structure."""

import math

import pytest

from fbnn_hw.errors import UsageError
from fbnn_hw.ir import models


def test_3mb_has_the_bits_and_macs_of_the_paper():
    topology = models.build("3mb", 100)
    shapes = topology.weight_shapes()
    extractor = [name for name in shapes if name not in ("hidden", "logits")]
    assert sum(math.prod(shapes[name]) for name in extractor) == 2_605_056
    assert topology.weight_bits() == 2_966_528
    assert round(topology.macs() / 1e6, 1) == 397.8
    assert topology.shapes["latent"] == (1024, 1, 1) and topology.shapes["skip_twice"] == (2304, 1, 1)


@pytest.mark.parametrize("name, mbit", [("0.5mb", 0.53), ("1mb", 1.09), ("3mb", 2.76), ("9mb", 8.31), ("24mb", 28.3)])
def test_true_sizes_are_those_in_the_docstring(name, mbit):
    bits = models.build(name).weight_bits()
    assert float(f"{bits / 1e6:.3g}") == mbit or round(bits / 1e6, 2) == mbit


@pytest.mark.parametrize("classes", [2, 37])
def test_any_number_of_classes(classes):
    assert len(models.build("0.5mb", classes).classes) == classes


def test_unknown_model():
    with pytest.raises(UsageError) as error:
        models.build("4mb")
    assert str(error.value) == "--model 4mb: no such model, expected one of 0.5mb, 1mb, 3mb, 9mb, 24mb, res3mb, res-small, fast, tiny"
