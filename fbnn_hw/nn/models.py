"""The topologies that have names, from the paper and scaled from it.  No torch here: a topology is plain data.

True sizes with 10 classes, in Mbit (10^6 bits): 0.5mb 0.53, 1mb 1.09, 3mb 2.76, 9mb 8.31, 24mb 28.3
(the paper's names say 3, 9 and 24; `fbnn-hw inspect` prints the exact number of a file).
"""

from ..errors import UsageError
from ..ir import ops as op
from ..ir.network import LATENT, Topology

CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def vgg(name, classes, width=1.0, encoder="tycc", size=32, latent=1024, hidden=128):
    """The paper's VGG-like FBNN (Fig. `baseline`): 3 blocks of 2 grouped convolutions, LGAP, dense latent, DenseSkip.

    width scales the filters of the convolutions (128, 256, 512); the latent keeps `latent` bits.
    """
    levels = op.TYCC_LEVELS if encoder == "tycc" else op.TRGB_LEVELS
    layers = [op.Thermometer("input", (), encoder, size, levels)]

    def add(cls, *args, name, inputs=None, **kwargs):
        layers.append(cls(name, inputs or (layers[-1].name,), *args, **kwargs))

    for block, (filters, groups) in enumerate(((128, 1), (256, 2), (512, 4))):
        for conv in (1, 2):
            add(op.Conv, round(filters * width), name=f"conv{2 * block + conv}", groups=groups)
        add(op.MaxPool, name=f"pool{block + 1}")
    add(op.Gap, name="gap", inputs=("pool3",))
    add(op.Depthwise, name="depthwise", inputs=("pool3",))
    add(op.Concat, name="lgap", inputs=("gap", "depthwise"))
    add(op.Dense, latent, name=LATENT)
    add(op.Duplicate, name="latent_twice")
    add(op.Dense, hidden, name="hidden", groups=2)
    add(op.Concat, name="skip", inputs=(LATENT, "hidden"))
    add(op.Duplicate, name="skip_twice")
    add(op.Dense, len(classes), name="logits", logits=True)
    return Topology(name, tuple(layers), tuple(classes))


MODELS = {
    "0.5mb": dict(width=1 / 4),
    "1mb": dict(width=1 / 2),
    "3mb": dict(width=1.0),
    "9mb": dict(width=2.0),
    "24mb": dict(width=4.0),
}


def build(name, classes=CIFAR10, **options):
    """Topology of the model `name` for the class names `classes` (or a number of classes); options override `vgg`'s."""
    if name not in MODELS:
        raise UsageError(f"--model {name}: no such model, expected one of {', '.join(MODELS)}")
    if isinstance(classes, int):
        classes = tuple(f"class{i}" for i in range(classes))
    topology = vgg(name, classes, **{**MODELS[name], **options})
    topology.verify()
    return topology
