"""Network -> layers of the engine, and where each channel lies in the words of the banks.

The engine knows four layers: a convolution (with or without 2x2 pooling), global pooling, a dense layer, the logits.
Concatenation and duplication cost nothing: they only say where a tensor lies and in which order its words are read.
"""

from dataclasses import dataclass, field

from ..errors import FitError

HARDWARE = "conv (stride 1), maxpool after conv, gap, depthwise, concat of vectors, duplicate, dense"


@dataclass
class Layer:
    """One stored tensor and the ops that make it.

    ops: IR ops it covers, in order; name: that of the op whose output is stored.
    parts: stored tensors read one after the other, as (layer name); repeat: uses of every channel.
    cuts: channels where a word must begin for a reader's or its own groups; word_starts: those behind an unfilled word.
    """

    kind: str  # "input", "conv", "lgap", "dense", "logits"
    name: str
    ops: tuple
    shape: tuple
    parts: tuple = ()
    repeat: int = 1
    groups: int = 1
    pool: bool = False
    taps: int = 1
    cuts: set = field(default_factory=set)
    word_starts: list = field(default_factory=list)
    macs: int = 0
    gap: str = ""  # lgap: op names
    depthwise: str = ""

    @property
    def channels(self):
        return self.shape[0]


def _refuse(op, why):
    raise FitError(f"layer {op.name}: {why}; the engine has {HARDWARE}")


def _lacks(op, shape):
    """Why an op of any network has no hardware, or None."""
    match op.kind:
        case "conv" if op.stride != 1:
            return f"stride {op.stride} has no hardware"
        case "concat" if shape[1:] != (1, 1):
            return "concatenation of maps has no hardware"
        case "slice" | "shuffle":
            return f"{op.kind} has no hardware"
    return None


def _refuse_lacking(topology, shapes):
    """One FitError for all ops without hardware, the first three of each kind by name."""
    found = {}
    for o in topology.ops:
        if why := _lacks(o, shapes[o.name]):
            found.setdefault(why, []).append(o.name)
    if found:
        said = [f"layer{'s' * (len(names) > 1)} {', '.join(names[:3])}{f' and {len(names) - 3} more' if len(names) > 3 else ''}: {why}"
                for why, names in found.items()]
        raise FitError(f"{'; '.join(said)}; the engine has {HARDWARE}")


def lower(topology):
    """Layers in order of execution.  Raises FitError, naming the layers, for what the engine cannot do."""
    shapes = topology.verify()
    _refuse_lacking(topology, shapes)
    readers = {o.name: [r for r in topology.ops if o.name in r.inputs] for o in topology.ops}
    layers, views = [], {}  # views: IR name -> (parts, repeat)
    pooled = {}  # source -> lgap layer
    ops = list(topology.ops)
    done = set()

    def source(o):
        (name,) = o.inputs
        if name not in views:
            _refuse(o, f"reads {name}, which is not stored")
        return views[name]

    for o in ops:
        if o.name in done:
            continue
        match o.kind:
            case "thermometer":
                layer = Layer("input", o.name, (o,), shapes[o.name])
            case "conv":
                parts, repeat = source(o)
                covered, shape = [o], shapes[o.name]
                pool = [r for r in readers[o.name] if r.kind == "maxpool"]
                if pool:
                    if len(readers[o.name]) > 1:
                        _refuse(o, f"feeds {pool[0].name} and another layer")
                    covered.append(pool[0])
                    done.add(pool[0].name)
                    shape = shapes[pool[0].name]
                layer = Layer("conv", covered[-1].name, tuple(covered), shape, parts, repeat, o.groups, bool(pool), o.kernel ** 2)
            case "gap" | "depthwise":
                parts, repeat = source(o)
                if repeat != 1 or len(parts) != 1:
                    _refuse(o, "pools a duplicated or concatenated map")
                if pooled and parts[0] not in pooled:
                    _refuse(o, "is a second map to be pooled globally")
                if parts[0] in pooled:  # the other half of an earlier one
                    layer = pooled[parts[0]]
                    if getattr(layer, o.kind):
                        _refuse(o, f"pools {parts[0]} a second time")
                    setattr(layer, o.kind, o.name)
                    layer.ops += (o,)
                    views[o.name] = ((f"{layer.name}.{o.kind}",), 1)
                    continue
                layer = Layer("lgap", f"pool of {parts[0]}", (o,), shapes[o.name], parts)
                setattr(layer, o.kind, o.name)
                pooled[parts[0]] = layer
                layers.append(layer)
                views[o.name] = ((f"{layer.name}.{o.kind}",), 1)
                continue
            case "concat":
                found = [views[i] for i in o.inputs if i in views]
                if len(found) != len(o.inputs) or any(r != 1 for _, r in found):
                    _refuse(o, "concatenates a duplicated or missing vector")
                views[o.name] = (sum((p for p, _ in found), ()), 1)
                continue
            case "duplicate":
                parts, repeat = source(o)
                if repeat * o.times > 8:
                    _refuse(o, f"repeats every channel {repeat * o.times} times, at most 8")
                views[o.name] = (parts, repeat * o.times)
                continue
            case "dense":
                parts, repeat = source(o)
                layer = Layer("logits" if o.logits else "dense", o.name, (o,), shapes[o.name], parts, repeat, o.groups)
            case _:
                _refuse(o, f"{o.kind} has no hardware")
        layers.append(layer)
        if layer.kind != "logits":
            views[layer.name] = ((layer.name,), 1)
    for layer in layers:
        layer.macs = sum(o.macs(*topology.input_shapes(o, shapes)) for o in layer.ops)
    return layers
