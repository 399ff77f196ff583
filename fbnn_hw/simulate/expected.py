"""What the reference expects of images, and images as the test bench takes them."""

from ..reference import encode, inference


def expected_layers(network, images, names, classes=None):
    """{"logits": int32 (N, classes), layer: bits} from the integer reference, for the layers in `names`.

    classes: how many the hardware knows: all of the network's, or none.
    """
    values = inference.layers(network, images)
    return {"logits": values[network.topology.ops[-1].name][:, :classes], **{name: values[name] for name in names}}


def bench_images(images, network, config):
    """Images, uint8 RGB (N, 3, S, S), as bench.py writes them out: as they are, or packed levels as maps (N, bytes, 1, 1) of one pixel."""
    return encode.packed(images, network.topology.ops[0])[:, :, None, None] if config.takes_levels else images
