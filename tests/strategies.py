"""Random networks and images, drawn by a numpy generator: equal seeds give equal networks.

    network(seed)           any legal network of version 1: every op, odd widths, groups, strides, thresholds, encoders, class counts
    network_2(seed)         any legal network of version 2: also odd maps, kernels, padding, flatten and the other inputs
    engine_network(seed)    a random network of what the engine has
    vgg_network(seed, ...)  the paper's structure at any width, with random weights
    images(seed, count, size)
"""

from dataclasses import replace

import numpy as np

from fbnn_hw.ir import models
from fbnn_hw.ir import ops as op
from fbnn_hw.ir.network import LATENT, Network, Topology

SIZES = (4, 6, 8, 12, 16)
CLASS_COUNTS = (1, 2, 3, 10, 37, 100)


def images(seed, count, size=32):
    """uint8 RGB (count, 3, size, size); a quarter of the bytes are 0 or 255."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 256, (count, 3, size, size), dtype=np.uint8)
    extreme = rng.random(values.shape) < 0.25
    return np.where(extreme, rng.integers(0, 2, values.shape, dtype=np.uint8) * 255, values).astype(np.uint8)


def fill(topology, seed, thresholds=0.0):
    """`Network` with random weights; each layer that may have thresholds has them with probability `thresholds`."""
    rng = np.random.default_rng(seed)
    weights = {name: rng.integers(0, 2, shape, dtype=np.uint8) for name, shape in topology.weight_shapes().items()}
    arrays = {}
    for layer in topology.ops:
        shape = topology.threshold_shape(layer.name)
        if shape and rng.random() < thresholds:
            limit = topology.largest_sum(layer)
            spread = rng.choice([2, int(np.sqrt(limit)) + 1, limit + 1])
            arrays[layer.name] = rng.integers(-min(spread, limit + 1), min(spread, limit + 1) + 1, shape).astype(np.int32)
    return Network(topology, weights, arrays, {"seed": int(seed), "note": "random weights", "rate": 0.5})


def vgg_network(seed, name="tiny", classes=10, thresholds=0.0, **options):
    """The paper's structure (options as `models.vgg`), width 1/16 and a latent of 64 bits unless stated, random weights."""
    options = {"width": 1 / 16, "latent": 64, "hidden": 16, **options}
    return fill(models.vgg(name, tuple(f"class{i}" for i in range(classes)), **options), seed, thresholds)


def smallest(seed=1):
    """Three convolutions and a dense layer on 8 x 8 pixels, random weights: as little hardware as there is."""
    layers = [op.Thermometer("input", (), "trgb", 8, 5)]
    for n in "123":
        layers += [op.Conv(f"conv{n}", (layers[-1].name,), 16), op.MaxPool(f"pool{n}", (f"conv{n}",))]
    return fill(Topology("smallest", (*layers, op.Dense("logits", ("pool3",), 2, logits=True)), ("a", "b")), seed)


def smallest_learner(seed=1):
    """A convolution, global pooling, a latent of 32 bits and two classes on 8 x 8 pixels: little hardware that can learn."""
    layers = (op.Thermometer("input", (), "trgb", 8, 5), op.Conv("conv", ("input",), 16), op.MaxPool("pool", ("conv",)),
              op.Gap("gap", ("pool",)), op.Dense(LATENT, ("gap",), 32), op.Dense("logits", (LATENT,), 2, logits=True))
    return fill(Topology("learner", layers, ("a", "b")), seed)


def network(seed, thresholds=0.5):
    """A random legal network."""
    topology = random_topology(seed)
    return fill(topology, seed + 1, thresholds)


def random_topology(seed):
    rng = np.random.default_rng(seed)
    encoder = str(rng.choice(["tycc", "trgb"]))
    levels = int(rng.choice([2, 4, 8])) if encoder == "tycc" else int(rng.integers(2, 10))
    size = int(rng.choice(SIZES))
    layers = [op.Thermometer("input", (), encoder, size, levels)]
    shapes = {"input": layers[0].output_shape()}

    def add(cls, inputs, **fields):
        layer = cls(f"{cls.kind}{len(layers)}", tuple(inputs), **fields)
        shapes[layer.name] = layer.output_shape(*(shapes[i] for i in inputs))
        layers.append(layer)
        return layer.name

    def grouped(channels):
        """A legal (out_channels, groups) for `channels` inputs, often odd."""
        groups = int(rng.choice([g for g in range(1, 9) if channels % g == 0]))
        return groups * int(rng.integers(1, 9)), groups

    x = "input"
    for _ in range(int(rng.integers(1, 7))):
        channels, height, width = shapes[x]
        match rng.choice(["conv", "conv", "conv", "stride", "pool", "convpool", "duplicate", "concat", "slice", "shuffle"]):
            case "conv":
                out, groups = grouped(channels)
                x = add(op.Conv, [x], out_channels=out, kernel=int(rng.choice([1, 3])), groups=groups)
            case "stride" if height % 2 == 0:
                out, groups = grouped(channels)
                x = add(op.Conv, [x], out_channels=out, kernel=int(rng.choice([1, 3])), stride=2, groups=groups)
            case "pool" if height % 2 == 0:
                x = add(op.MaxPool, [x])
            case "convpool" if height % 2 == 0:
                out, groups = grouped(channels)
                x = add(op.MaxPool, [add(op.Conv, [x], out_channels=out, groups=groups)])
            case "duplicate" if channels <= 40:
                x = add(op.Duplicate, [x], times=int(rng.integers(1, 4)))
            case "concat":
                same = [name for name, shape in shapes.items() if shape[1:] == (height, width)]
                if channels <= 40:
                    x = add(op.Concat, [x, *(str(n) for n in rng.choice(same, int(rng.integers(1, 4))))])
            case "slice" if channels > 1:
                start = int(rng.integers(0, channels - 1))
                x = add(op.Slice, [x], start=start, stop=int(rng.integers(start + 1, channels + 1)))
            case "shuffle":
                x = add(op.Shuffle, [x], groups=int(rng.choice([g for g in range(1, 9) if channels % g == 0])))
    pooled = [add(kind, [x]) for kind in rng.permutation([op.Gap, op.Depthwise])[:int(rng.integers(1, 3))]]
    x = add(op.Concat, pooled) if len(pooled) == 2 else pooled[0]
    out, groups = grouped(shapes[x][0])
    latent = op.Dense(LATENT, (x,), out, groups)
    layers.append(latent)
    shapes[LATENT] = latent.output_shape(shapes[x])
    x = LATENT
    if rng.random() < 0.7:
        x = add(op.Duplicate, [x], times=2)
        out, groups = grouped(shapes[x][0])
        x = add(op.Concat, [LATENT, add(op.Dense, [x], out_channels=out, groups=groups)])
    classes = int(rng.choice(CLASS_COUNTS))
    layers.append(op.Dense("logits", (x,), classes, 1, True))
    return Topology(f"random{seed}", tuple(layers), tuple(f"class{i}" for i in range(classes)))


def network_2(seed, thresholds=0.5):
    """A random legal network that may use all of version 2 of the format."""
    return fill(random_topology_2(seed), seed + 1, thresholds)


def random_input(rng):
    size = int(rng.choice((2, 3, 5, 6, 7, 8, 9, 11, 12, 13)))
    match rng.choice(["tycc", "trgb", "grey", "binarize", "bits8", "bits8"]):
        case "binarize":
            return op.Binarize("input", (), size, int(rng.integers(1, 256)))
        case "bits8":
            tables = (op.Bits8.table, tuple(min(p + (p >> 7), 255) for p in range(256)), tuple(rng.integers(0, 256, 256).tolist()))
            return op.Bits8("input", (), size, tables[rng.integers(3)])
        case encoder:
            return op.Thermometer("input", (), str(encoder), size, int(rng.choice([2, 4, 8]) if encoder == "tycc" else rng.integers(2, 10)))


def random_topology_2(seed):
    rng = np.random.default_rng(seed)
    layers, shapes = [random_input(rng)], {}
    shapes["input"] = layers[0].output_shape()

    def add(cls, *inputs, name=None, **fields):
        layer = cls(name or f"{cls.kind}{len(layers)}", inputs, **fields)
        shapes[layer.name] = layer.output_shape(*(shapes[i] for i in inputs))
        layers.append(layer)
        return layer.name

    def grouped(x):
        whole = x in byte_maps
        groups = 1 if whole else int(rng.choice([g for g in range(1, 9) if shapes[x][0] % g == 0]))
        return dict(out_channels=groups * int(rng.integers(1, 9)), groups=groups)

    def conv(x):
        kernel = int(rng.choice([1, 3, 3, 5]))
        padding = 0 if shapes[x][1] >= kernel and rng.random() < 0.4 else "same"
        return add(op.Conv, x, kernel=kernel, stride=int(rng.choice([1, 1, 2])), padding=padding, **grouped(x))

    x, byte_maps = "input", {"input"} if layers[0].kind == "bits8" else set()
    if byte_maps and rng.random() < 0.3:
        x = add(op.Flatten, x)
        byte_maps.add(x)
        x = add(op.Dense, x, **grouped(x))
    elif byte_maps:
        x = conv(x)
    for _ in range(int(rng.integers(1, 6))):
        channels, height, width = shapes[x]
        match rng.choice(["conv", "conv", "conv", "first", "pool", "convpool", "duplicate", "concat", "slice", "shuffle", "gap",
                          "depthwise"]):
            case "conv":
                x = conv(x)
            case "first":  # a second reader of the input
                y = conv("input")
                x = add(op.Concat, x, y) if shapes[y][1:] == shapes[x][1:] else y
            case "pool" if height > 1:
                x = add(op.MaxPool, x)
            case "convpool":
                y = conv(x)
                x = add(op.MaxPool, y) if shapes[y][1] > 1 else y
            case "duplicate" if channels <= 40:
                x = add(op.Duplicate, x, times=int(rng.integers(1, 4)))
            case "concat" if channels <= 40:
                same = [name for name, shape in shapes.items() if shape[1:] == (height, width) and name not in byte_maps]
                x = add(op.Concat, x, *(str(n) for n in rng.choice(same, int(rng.integers(1, 4)))))
            case "slice" if channels > 1:
                start = int(rng.integers(0, channels - 1))
                x = add(op.Slice, x, start=start, stop=int(rng.integers(start + 1, channels + 1)))
            case "shuffle":
                x = add(op.Shuffle, x, groups=int(rng.choice([g for g in range(1, 9) if channels % g == 0])))
            case "gap" | "depthwise" as kind if rng.random() < 0.3:
                x = add(op.KINDS[kind], x)
    ends = [kind for kind in (op.Gap, op.Depthwise, op.Flatten) if rng.random() < 0.5] or [op.Flatten]
    parts = [add(kind, x) for kind in ends]
    x = add(op.Concat, *parts) if len(parts) > 1 else parts[0]
    x = add(op.Dense, x, name=LATENT, **grouped(x)) if rng.random() < 0.8 else x
    classes = int(rng.choice(CLASS_COUNTS))
    layers.append(op.Dense("logits", (x,), classes, 1, True))
    return Topology(f"later{seed}", tuple(layers), tuple(f"class{i}" for i in range(classes)))


def engine_network(seed, sizes=SIZES, thresholds=0.3, classes=CLASS_COUNTS, channels=40):
    """A random network of the ops the engine has, without thresholds on global pooling; blocks may still not tile its maps,
    or its groups split words where they may not."""
    rng = np.random.default_rng(seed)
    encoder = str(rng.choice(["tycc", "trgb"]))
    levels = int(rng.choice([2, 4, 8, 16])) if encoder == "tycc" else int(rng.integers(2, 30))
    layers = [op.Thermometer("input", (), encoder, int(rng.choice(sizes)), levels)]
    shapes = {"input": layers[0].output_shape()}

    def add(cls, *inputs, name=None, **fields):
        layer = cls(name or f"{cls.kind}{len(layers)}", inputs, **fields)
        shapes[layer.name] = layer.output_shape(*(shapes[i] for i in inputs))
        layers.append(layer)
        return layer.name

    def grouped(x, most):
        inputs = shapes[x][0]
        groups = int(rng.choice([g for g in ((1, 1, 1, 2, 3, 4) if x != "input" else (1, 1, 1, 2)) if inputs % g == 0]))
        return dict(out_channels=groups * int(rng.integers(1, most // groups + 1)), groups=groups)

    def duplicated(x):
        return add(op.Duplicate, x, times=int(rng.integers(2, 4))) if rng.random() < 0.25 else x

    x = "input"
    for _ in range(int(rng.integers(0, 5))):
        smaller = shapes[x][1] % 2 == 0 and shapes[x][1] > 2 and rng.random() < 0.4
        y = duplicated(x)
        x = add(op.Conv, y, kernel=int(rng.choice([1, 3, 3])), **grouped(y, channels))
        x = add(op.MaxPool, x) if smaller else x
    pooled = [add(kind, x) for kind in rng.permutation([op.Gap, op.Depthwise])[:int(rng.integers(1, 3))]]
    pooled = [pooled[i] for i in rng.permutation(len(pooled))]
    x = add(op.Concat, *pooled) if len(pooled) == 2 else pooled[0]
    names = [LATENT, "hidden"][:int(rng.integers(0, 3))]
    for name in names:
        y = duplicated(x)
        layer = add(op.Dense, y, name=name, **grouped(y, 2 * channels))
        x = add(op.Concat, *((x, layer) if rng.random() < 0.7 else (layer, x))) if name == "hidden" and rng.random() < 0.7 else layer
    x = duplicated(x)
    count = int(rng.choice(classes))
    layers.append(op.Dense("logits", (x,), count, 1, True))
    return on_engine(fill(Topology(f"engine{seed}", tuple(layers), tuple(f"class{i}" for i in range(count))), seed + 1, thresholds))


def on_engine(network):
    """The network without the thresholds that the engine does not have."""
    kept = {name: values for name, values in network.thresholds.items() if network.topology[name].kind in ("conv", "dense")}
    return replace(network, thresholds=kept)
