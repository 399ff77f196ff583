"""A module beside its checkpoint: equal logits on the example and on random images."""

from dataclasses import replace

import torch

from ..base.errors import InputError
from ..foreign import fold
from .fx_nodes import first_line, last_line
from .network import load

RANDOM_IMAGES = 8
"""Fewest images beside the example on which a module and its checkpoint are compared."""


def compare(module, example, imported):
    """Compare the module with its checkpoint on the example and on random images; returns `imported` with what there is to note.

    Raises InputError where the two differ, but for random images where the module rounds and a note says so.
    """
    twin = load(imported.network)
    wrong = _differences(module, twin, example, imported)
    differ = f"the module and its checkpoint differ on {wrong} of {len(example)} images of the example"
    near = next((note for note in imported.notes if note.endswith(fold.ROUNDED)), "")
    if wrong and near:
        raise InputError(f"{near}; {differ}; expected a batch norm before the sign, fbnn_hw.nn.Bits8 in place of scaled bytes, or "
                         "x.sum((2, 3)) in place of a mean")
    if not wrong:  # an example of one image, or of plain ones, shows little
        generator, count = torch.Generator().manual_seed(0), -(-RANDOM_IMAGES // len(example))
        others = [torch.randint(0, 256, example.shape, dtype=torch.uint8, generator=generator).to(example.device) for _ in range(count)]
        wrong = sum(_differences(module, twin, images, imported) for images in others)
        differ = f"the module and its checkpoint differ on {wrong} of {count * len(example)} random images"
        if wrong and near:
            return replace(imported, notes=(*imported.notes, differ))
    if wrong:
        raise InputError(f"{differ}; expected equal logits: does the module change with what it was given before?")
    return imported


def _differences(module, twin, images, imported):
    """The number of images on which the module and the checkpoint, as the network `twin`, differ."""
    try:
        theirs = module(images)
    except Exception as error:  # whatever a module does with images
        raise InputError(f"{last_line(error) or type(module).__name__}: the module cannot be run on the example "
                         f"({type(error).__name__}: {first_line(error)})") from None
    ours, theirs = twin.logits(images.expand(-1, 3, -1, -1)).double(), theirs.reshape(len(images), -1)  # which may be (N, classes, 1, 1)
    if imported.scale is None:
        theirs = theirs.argmax(1) if theirs.is_floating_point() else theirs[:, 0]  # argmax gives the class itself
        return int((ours.argmax(1) != theirs).sum())
    equal = ((theirs.double() - imported.shift) / imported.scale - ours).abs() <= 0.01  # which NaN is not
    return int((~equal).any(1).sum())
