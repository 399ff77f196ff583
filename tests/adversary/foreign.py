"""Networks of other programs: FINN's folders with a file that is damaged, missing, endless or of another layer; ONNX files with other
bytes, and with other nodes, attributes and sizes in a sound file."""

import shutil

import numpy as np

from . import mutators
from .runner import Case

WORDS = (0, 1, 2 ** 31, 2 ** 63, 2 ** 64 - 1)


def case(rng, world, folder):
    source = folder / "p"
    if rng.random() < 0.5:
        source, content = folder / "p.onnx", world.onnx.read_bytes()
        source.write_bytes(mutators.data(rng, content) if rng.random() < 0.4 else graph(rng, content))
    else:
        shutil.copytree(world.finn, source)
        for _ in range(int(rng.integers(1, 4))):
            damage(rng, source)
    words = ["import", source.name, "--out", "x.pt"]
    if rng.random() < 0.2:
        words += ["--classes", mutators.some(rng, (",", "a", "a,a", "x" * 500, "\x1b[2J,b", ",".join(map(str, range(99)))))]
    return Case(words, folder, may_write=True)


def graph(rng, content):
    """A sound ONNX file in which nodes, attributes, constants or sizes are others."""
    import onnx

    model = onnx.ModelProto.FromString(content)
    for _ in range(int(rng.integers(1, 4))):
        node = mutators.some(rng, model.graph.node)
        tensor = mutators.some(rng, model.graph.initializer)
        match int(rng.integers(8)):
            case 0:
                node.op_type = mutators.some(rng, [other.op_type for other in model.graph.node] + ["Div", "Pow", "LeakyRelu", "", "Loop"])
            case 1:
                name = mutators.some(rng, ("strides", "pads", "kernel_shape", "group", "axis", "perm", "alpha", "axes", "auto_pad"))
                value = mutators.some(rng, (-1, 0, 2 ** 40, -1.0, "x", [0], [2 ** 62] * 4, [-1, 3], [1.5, 2.5]))
                node.attribute.append(onnx.helper.make_attribute(name, value))
            case 2:
                del node.attribute[:]
            case 3:
                tensor.dims[:] = [int(mutators.some(rng, (0, 1, -1, 3, 2 ** 20, 2 ** 62))) for _ in range(int(rng.integers(5)))]
            case 4:
                tensor.CopyFrom(onnx.numpy_helper.from_array(
                    mutators.some(rng, (np.full(4, np.nan, np.float32), np.zeros(0, np.float32), np.array(7, np.int8),
                                        np.full((4, 3, 3, 3), 1e30, np.float32), np.ones((2 ** 10, 1, 1), np.float32))), tensor.name))
            case 5:
                model.graph.node.add().CopyFrom(node)
            case 6:
                node.input[:] = [mutators.some(rng, (*node.input, *node.output, "", "x", "none")) for _ in range(int(rng.integers(4)))]
            case _:
                for size in model.graph.input[0].type.tensor_type.shape.dim:
                    size.dim_value = int(mutators.some(rng, (-5, 0, 1, 3, 2 ** 40)))
    return model.SerializeToString()


def damage(rng, folder):
    """Do something to one file of a folder, or to the thresholds of a layer."""
    small = [path for path in sorted(folder.iterdir()) if path.is_file() and path.stat().st_size < 2 ** 20]
    path = mutators.some(rng, small)
    layer = [other for other in small if other.match(f"{path.name.partition('-')[0]}-*-thres.bin")]
    match int(rng.integers(7)):
        case 0:
            mutators.obstacle(rng, path)
        case 1:
            path.unlink()
        case 2:
            name = mutators.some(rng, ("0-9999-weights.bin", "99-0-weights.bin", "1-0-thres.bin", "x", "00-0-weights.bin"))
            if not (folder / name).exists():
                path.rename(folder / name)
        case 3:
            for other in layer:
                other.unlink()
        case 4:
            for other in layer:
                other.write_bytes(other.read_bytes()[:8 * int(rng.integers(3))])
        case 5:
            path.write_bytes(int(mutators.some(rng, WORDS)).to_bytes(8, "little") + path.read_bytes()[8:])
        case _:
            path.write_bytes(mutators.data(rng, path.read_bytes()))
