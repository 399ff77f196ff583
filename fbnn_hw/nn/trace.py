"""`export`: a user's torch module -> checkpoint.

torch.fx records what the module does with a picture, and `_Reader` hands each step to
`foreign.fold.Builder`.  A function of single values is not analysed: the module's own layers run on
all dot products, in their type, and the threshold is where the result changes sign.
"""

import inspect
import operator
import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import fx, nn

from ..base import files
from ..base.errors import InputError, UsageError, show
from ..foreign import fold
from ..foreign.imported import Imported, classes_alone, name_of
from ..ir import ops
from . import checkpoint, layers
from .compared import compare
from .fx_nodes import above, array, called, first_line, flat, in_place, last_line, maps, pair, place, short, signs

IDENTITIES = (nn.Identity, nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout)
MONOTONE = (nn.BatchNorm1d, nn.BatchNorm2d, nn.Hardtanh, nn.ReLU, nn.ReLU6, nn.Tanh, nn.Sigmoid, nn.LeakyReLU, nn.Hardsigmoid, nn.Softplus,
            nn.Softsign, nn.ELU, nn.SELU, nn.CELU, nn.LogSigmoid, nn.PReLU)
ENDS = (nn.Softmax, nn.LogSoftmax)
KEPT = ("contiguous", "detach", "clone", "cpu", "cuda")
CASTS = {"float": torch.float32, "double": torch.float64, "half": torch.float16, "bfloat16": torch.bfloat16, "to": None, "type": None,
         "type_as": None}
"""{name of a method: the type that it gives, or None where its operands say it}."""
HALVES = (torch.float16, torch.bfloat16)
MONOTONE_FUNCTIONS = (operator.add, operator.sub, operator.mul, operator.truediv, operator.neg, torch.add, torch.sub, torch.mul, torch.div,
                      torch.neg, torch.clamp, torch.relu, torch.tanh, torch.sigmoid, F.relu, F.hardtanh, F.relu6, F.leaky_relu,
                      F.hardsigmoid, F.softplus, F.softsign, F.elu, F.selu, F.celu, F.logsigmoid, F.prelu)
COMPARISONS = ("ge", "gt", "le", "lt", "where", "heaviside", "greater", "greater_equal")
VERBS = {"mul": "multiplies", "sub": "subtracts", "div": "divides", "truediv": "divides", "__mul__": "multiplies"}
MONOTONE_METHODS = ("add", "sub", "mul", "div", "neg", "clamp", "relu", "tanh", "sigmoid", "__add__", "__mul__")


FIRST = ("input", "tensors", "tensor", "other")
"""Names of the operands that functions of torch take first; "other" comes after "input"."""
NUMPYS = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other"}
"""{a name of numpy's, which torch takes too: its own}."""


PARENTS = (layers._Encoder, layers.BinaryConv2d, layers.BinaryLinear, layers.LearnedPool2d, layers.Sign, nn.modules.batchnorm._BatchNorm)
"""Classes whose forward torch.fx cannot follow, and which a forward of one's own may call as that of its parent."""


class _Parent:
    """The forward of one of `PARENTS`, which that of a subclass calls.  path: of the layer in the module."""

    def __init__(self, layer, forward, path):
        self.layer, self.forward, self.path = layer, forward, path
        self.__name__ = f"{path} ({type(layer).__name__})"

    def __call__(self, x):
        return self.forward(self.layer, x)


class _Tracer(fx.Tracer):
    record_stack_traces = True

    def trace(self, root, concrete_args=None):
        own = {cls: cls.forward for cls in PARENTS}
        try:
            for cls, forward in own.items():
                cls.forward = self._recorded(forward)
            return super().trace(root, concrete_args)
        finally:
            for cls, forward in own.items():
                cls.forward = forward

    def _recorded(self, forward):
        def called(layer, *args, **kwargs):
            values = (*args, *kwargs.values())
            if not any(isinstance(value, fx.Proxy) for value in values):
                return forward(layer, *args, **kwargs)
            return self.create_proxy("call_function", _Parent(layer, forward, self.path_of_module(layer)), values, {})

        return called

    def is_leaf_module(self, m, module_qualified_name):
        """A layer of fbnn_hw.nn, or a class of one's own that computes as one."""
        computes = next(cls for cls in type(m).__mro__ if "forward" in vars(cls))
        return computes.__module__ == layers.__name__ or super().is_leaf_module(m, module_qualified_name)


def export(module: nn.Module, example: torch.Tensor, path: str | Path, classes: Sequence[str] | None = None,
           name: str | None = None) -> Imported:
    """Write the checkpoint of a torch module, and print a summary.

    The module is read as in evaluation.  On every image its logits are the checkpoint's integers
    times one positive number, plus a constant; this is checked on the example and on random images.

    Parameters
    ----------
    module : torch.nn.Module
        Made of the layers of `fbnn_hw.nn` and of those that docs/networks.md lists.
    example : uint8 tensor (N, 3, S, S), or grey (N, 1, S, S)
        Images as the module takes them.
    path : str or Path
        The file to write.
    classes : list of str, optional
        Names of the classes, one for each logit.
    name : str, optional
        Name of the model; by default that of the file.

    Returns
    -------
    foreign.imported.Imported
        The network, the scale of its logits, and notes about its layers.

    Raises
    ------
    InputError
        The module does what +1 and -1 cannot express (the message names the line of source), the
        example has another shape or type, or the module and its checkpoint differ on an image.
    UsageError
        The path is no file name, or the classes are no list.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise UsageError(f"path: found {show(path)}, expected a file name")
    path = Path(path)
    if kind := files.kind_if_not_file(path):
        raise InputError(f"{path}: is a {kind}, expected a file name")
    module = _unwrapped(module)
    shape = tuple(getattr(example, "shape", ()))
    if (not isinstance(example, torch.Tensor) or example.dtype != torch.uint8 or len(shape) != 4 or shape[1] not in (1, 3)
            or shape[2] != shape[3] or not shape[0]):
        noun = f"{str(example.dtype).removeprefix('torch.')} {shape}" if isinstance(example, torch.Tensor) else type(example).__name__
        raise InputError(f"example: found {noun}, expected uint8 images (N, 3, S, S), or grey (N, 1, S, S); scale them inside the module")
    training = {part: part.training for part in module.modules()}
    module.eval()
    try:
        with torch.no_grad():
            imported = _Reader(module, shape).read(str(name) if name else name_of(path), classes)
            imported = compare(module, example, imported)
    finally:
        for part, mode in training.items():  # one by one: some may be kept in evaluation
            part.training = mode
    checkpoint.save(path, imported.network)
    topology = imported.network.topology
    print(f"{path}: {len(topology.ops)} layers, {imported.network.bits():,} bits, {topology.macs() / 1e6:,.1f} MMAC an image")
    print(f"equal on all {len(example)} images of the example: " + (
        "the class" if imported.scale is None else f"the module's logits are {imported.scale:.6g} times the integers"
        + (f" + {imported.shift:.6g}" if imported.shift else "")))
    for note in imported.notes:
        print(f"note: {note}")
    return imported


def _unwrapped(module):
    """Return the user's module without wrappers that run it on several devices or compile it.  Raises InputError where it is no module."""
    while isinstance(module, (nn.DataParallel, nn.parallel.DistributedDataParallel)) or hasattr(module, "_orig_mod"):
        module = module._orig_mod if hasattr(module, "_orig_mod") else module.module
    if isinstance(module, torch.jit.ScriptModule):
        raise InputError("export: found a module that torch.jit compiled, expected the nn.Module that it was made from")
    if not isinstance(module, nn.Module):
        raise InputError(f"export: found a {type(module).__name__}, expected a torch.nn.Module")
    return module


class _Reader:
    """Hands the nodes of a traced module to a `Builder`.  shape: of the example."""

    def __init__(self, module, shape):
        self.module, self.shape, self.builder = module, shape, fold.Builder(rounds=True)
        self.values, self.ended = {}, False
        self.dtype = next((p.dtype for p in (*module.parameters(), *module.buffers()) if p.dtype.is_floating_point), torch.float32)

    def read(self, name, classes):
        _check_unchanged(self.module, type(self.module).__name__)
        try:
            graph = _Tracer().trace(self.module)
        except InputError:
            raise
        except Exception as error:  # whatever a module does with a proxy
            line, said = last_line(error), first_line(error)
            form = ("every layer as an attribute of its module, and lists of layers in nn.ModuleList" if "not installed as a sub" in said
                    else "a forward without branches on values, and signs by fbnn_hw.nn.Sign")
            raise InputError(f"{line or type(self.module).__name__}: cannot be traced by torch.fx ({said}); expected {form}") from None
        for node in graph.nodes:
            if node.op == "output":
                record = {"exported": type(self.module).__name__, "torch": str(torch.__version__)}
                value = self.values.get(node.args[0]) if isinstance(node.args[0], fx.Node) else None
                if not isinstance(value, (fold.Image, fold.Bits, fold.Sum)):
                    raise InputError("the output of the module is no tensor of its layers alone, expected the logits")
                try:
                    imported = self.builder.finish(value, "the output", name, classes, "PyTorch", record)
                except InputError as error:
                    raise self._rounds(error) from None
                return classes_alone(imported) if self.ended else imported
            if self.ended:
                raise InputError(f"{place(node, self.module)}: follows a softmax or argmax, expected the end of the module")
            self.values[node] = self._checked(node, place(node, self.module))

    def _rounds(self, error):
        """`error`, or where it tells of logits that the module's type rounds, that as the reason."""
        if self.dtype not in HALVES or not re.search("is no scale of the logits|the logits have a", str(error)):
            return error
        return InputError(f"{type(self.module).__name__}: is of {str(self.dtype).removeprefix('torch.')}, which rounds sums ({error}); "
                          "expected float32, module.float()")

    def _checked(self, node, where):
        """`_value`; raises InputError where a call passes operands in other places than those that are read."""
        try:
            return self._value(node, where)
        except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
            raise InputError(f"{where}: cannot be read ({type(error).__name__}: {first_line(error)}); expected the map as the first "
                             "operand, and constants for the others") from None

    def _value(self, node, where):
        if node.op == "placeholder":
            if any(isinstance(value, fold.Image) for value in self.values.values()):
                return node.args[0] if node.args else None
            return fold.Image(np.repeat(np.arange(256.0)[:, None], self.shape[1], 1), self.shape[2], kind=torch.uint8)
        if node.op == "get_attr":
            return operator.attrgetter(node.target)(self.module)
        args = fx.node.map_arg(node.args, self.values.__getitem__)
        kwargs = fx.node.map_arg(node.kwargs, self.values.__getitem__)
        if not maps(flat((args, tuple(kwargs.values())))):
            return self._constant(node, args, kwargs)
        if node.op == "call_module":
            layer = self.module.get_submodule(node.target)
            if isinstance(layer, MONOTONE) and getattr(layer, "inplace", False):
                self._check_alone(node, where)
            return self._module(layer, (*args, *kwargs.values())[0], where, node.target)
        if isinstance(node.target, _Parent):
            return self._module(node.target.layer, args[0], where, node.target.path, node.target)
        return self._function(node, *self._in_place_of_names(node, args, kwargs), where)

    @staticmethod
    def _in_place_of_names(node, args, kwargs):
        """(args, kwargs) of a call with the maps in their places, and the others under torch's own names."""
        kwargs = {(NUMPYS.get(key, key) if node.op == "call_method" or not inspect.isfunction(node.target) else key): value
                  for key, value in kwargs.items()}
        first = [key for key in FIRST if key in kwargs and (key != "other" or args or "input" in kwargs)]
        return (*args, *(kwargs[key] for key in first)), {key: value for key, value in kwargs.items() if key not in first}

    def _constant(self, node, args, kwargs):
        if node.op == "call_module":
            return self.module.get_submodule(node.target)(*args, **kwargs)
        return (getattr(args[0], node.target)(*args[1:], **kwargs) if node.op == "call_method" else node.target(*args, **kwargs))

    # Modules

    def _module(self, m, x, where, hint, parent=None):
        """A layer `m`; parent: its forward, where the call is of that alone."""
        build = self.builder
        if parent is None:
            _check_unchanged(m, where)
        match m:
            case layers._Encoder():
                if not isinstance(x, fold.Image) or (x.table != np.arange(256.0)[:, None]).any():
                    raise InputError(f"{where}: encodes what is no image as it came, expected it as the first layer")
                return self._named(where, build.encoded(m.op(build.name(short(hint)), self.shape[2]), where))
            case layers.Sign():
                return build.step(x, lambda v: v >= 0, where)
            case layers.BinaryConv2d() | layers.LearnedPool2d():
                fields = (m.stride, m.frame, m.groups, m.pad_value) if isinstance(m, layers.BinaryConv2d) else (1, 0, len(m.weight), 0.0)
                return self._weighted(m, build.convolution(x, signs(m, where), None, where, short(hint), *fields), where)
            case layers.BinaryLinear():
                return self._weighted(m, build.dense(self._vector(x, where), signs(m, where), None, where, short(hint), m.groups), where)
            case nn.Conv2d():
                return self._named(where, self._float_convolution(m, x, where, hint))
            case nn.Linear():
                return self._named(where, build.dense(self._vector(x, where), array(m.weight), array(m.bias), where, short(hint)))
            case nn.MaxPool2d():
                return self._pool(x, where, hint, m.kernel_size, m.stride, m.padding, m.dilation, m.ceil_mode)
            case nn.AdaptiveAvgPool2d() if m.output_size in (1, (1, 1)):
                return self._named(where, build.average(x, where, short(hint)))
            case nn.AvgPool2d() if m.divisor_override is not None:
                raise InputError(f"{where}: divides by {m.divisor_override} (divisor_override), expected a mean, or x.sum((2, 3))")
            case nn.AvgPool2d() if pair(m.kernel_size) == x.shape[1:] and not any(pair(m.padding)):
                return self._named(where, build.average(x, where, short(hint)))
            case nn.Flatten() if (m.start_dim, m.end_dim) in ((1, -1), (1, 3)):
                return build.flatten(x, where)
            case nn.ChannelShuffle():
                return self._named(where, build.reorder(x, ops.Shuffle("shuffle", (), m.groups), where))
            case nn.ConstantPad2d() | nn.ZeroPad2d():
                return self._pad(x, m.padding, getattr(m, "value", 0.0), where)
            case nn.BatchNorm1d() | nn.BatchNorm2d() if m.running_mean is None:
                raise InputError(f"{where}: has no running statistics, expected track_running_stats=True")
        if isinstance(m, IDENTITIES):
            return x
        if isinstance(m, MONOTONE):
            return self._apply(x, parent or m, where)
        if isinstance(m, ENDS):
            return self._end(x, m.dim, where)
        raise InputError(f"{where}: {type(m).__name__} has no counterpart among +1 and -1; expected the layers of fbnn_hw.nn, batch norm, "
                         "2x2 max pooling, a function of single values before a sign (fbnn-hw help networks.md has the list)")

    def _named(self, where, value):
        op = value.op.name if isinstance(value, fold.Sum) else value.name
        self.builder.part(where, (op,))
        return value

    def _weighted(self, m, value, where):
        """The sums that a layer of fbnn_hw.nn gives: its scale is a function, so that it is rounded as in the module."""
        return self._apply(self._named(where, value), lambda u: u * m.scale, where, quiet=True)

    def _float_convolution(self, m, x, where, hint):
        padding = {"same": m.weight.shape[2] // 2, "valid": 0}.get(m.padding) if isinstance(m.padding, str) else pair(m.padding)
        if isinstance(padding, tuple):
            padding = padding[0] if padding[0] == padding[1] else -1
        if pair(m.dilation) != (1, 1) or len(set(pair(m.stride))) != 1 or (padding and m.padding_mode != "zeros"):
            raise InputError(f"{where}: dilation {m.dilation}, stride {m.stride}, padding_mode {m.padding_mode}, expected none, equal, "
                             "zeros")
        return self.builder.convolution(x, array(m.weight), array(m.bias), where, short(hint), pair(m.stride)[0], padding, m.groups)

    def _pool(self, x, where, hint, size, stride=None, padding=0, dilation=1, ceil_mode=False):
        odd = ceil_mode and any(n % 2 for n in x.shape[1:])
        stride = size if stride is None else stride
        if (pair(size), pair(stride), pair(padding), pair(dilation)) != ((2, 2), (2, 2), (0, 0), (1, 1)) or odd:
            raise InputError(f"{where}: pools {size} by {stride} with padding {padding}, dilation {dilation} and ceil_mode={ceil_mode} "
                             f"a map of {x.shape[1]}x{x.shape[2]}, expected 2x2 blocks without padding, dilation and ceil_mode")
        y = self.builder.pool(x, where, short(hint))
        self.builder.part(where, (y.pools[-1] if isinstance(y, fold.Sum) else y.name,))
        return y

    def _pad(self, x, padding, value, where):
        if len(set(padding)) != 1 or len(padding) != 4:
            raise InputError(f"{where}: pads {tuple(padding)}, expected equally on four sides")
        return self.builder.pad(x, padding[0], float(value or 0), where)

    def _vector(self, x, where):
        if not x.vector and x.shape[1:] != (1, 1):
            raise InputError(f"{where}: reads a map of {'x'.join(map(str, x.shape))}, expected a vector; flatten it")
        return x

    def _end(self, x, dim, where):
        """Take a function of the logits of an image, such as softmax, that keeps the largest one in its place."""
        if dim not in ((1, -1) if x.vector else (1, -3)):
            shape = "(N, {})" if x.vector else "(N, {}, {}, {})"
            raise InputError(f"{where}: goes along dimension {dim} of {shape.format(*x.shape)}, expected 1, the logits of each image")
        self.ended = True
        return x

    # Functions and methods

    def _function(self, node, args, kwargs, where):
        target, x, name = node.target, args[0], called(node)
        if name in KEPT:
            return x
        if name in CASTS:
            return self._cast(name, x, (*args[1:], *kwargs.values()), where)
        if target is getattr and args[1] == "shape" or name == "size":
            sizes = (self.shape[0], *(x.shape[:1] if x.vector else x.shape))
            return sizes if target is getattr or not (args[1:] or kwargs) else sizes[(*args[1:], *kwargs.values())[0]]
        if name in ("cat", "concat"):
            return self._concat(args, kwargs, where)
        if name == "sign":
            return self.builder.step(x, lambda v: v >= 0, where, zero=lambda v: v == 0)
        if name in ("flatten", "view", "reshape", "squeeze"):
            return self._flatten(x, name, args[1:], kwargs, where)
        if target in (torch.max_pool2d, F.max_pool2d):
            return self._pool(x, where, "pool", *args[1:], **{key.replace("kernel_size", "size"): value for key, value in kwargs.items()
                                                              if key != "return_indices"})
        if name in ("mean", "sum", "adaptive_avg_pool2d"):
            return self._mean(x, name, args[1:], kwargs, where)
        if name == "pad":
            if (mode := kwargs.get("mode", args[2] if len(args) > 2 else "constant")) != "constant":
                raise InputError(f"{where}: pads by mode {mode!r}, expected 'constant'")
            return self._pad(x, args[1] if len(args) > 1 else kwargs["pad"], kwargs.get("value", args[3] if len(args) > 3 else 0), where)
        if name in ("repeat_interleave", "chunk", "split", "getitem"):
            return self._reorder(x, name, args[1:], kwargs, where)
        if name in ("softmax", "log_softmax", "argmax"):
            return self._end(x, kwargs.get("dim", args[1] if len(args) > 1 else None if name == "argmax" else 1), where)
        if name in ("dropout", "dropout1d", "dropout2d", "alpha_dropout", "feature_alpha_dropout"):
            if kwargs.get("training", args[2] if len(args) > 2 else True) and kwargs.get("p", args[1] if len(args) > 1 else 0.5):
                raise InputError(f"{where}: drops in evaluation too, expected training=self.training, or nn.Dropout")
            return x
        if name in ("conv2d", "linear") and not maps((*args[1:], *kwargs.values())):
            return self._functional(name, x, args[1:], kwargs, where)
        if name == "batch_norm":
            if kwargs.get("training", args[5] if len(args) > 5 else False):
                raise InputError(f"{where}: takes the statistics of each batch in evaluation too, expected training=self.training, or "
                                 "nn.BatchNorm2d")
            return self._single(node, args, kwargs, where)
        if target in MONOTONE_FUNCTIONS or name in MONOTONE_METHODS:
            return self._single(node, args, kwargs, where)
        return self._unknown(name, where)

    def _functional(self, name, x, args, kwargs, where):
        """torch.nn.functional's conv2d and linear with constant weights."""
        names = ("weight", "bias", "stride", "padding", "dilation", "groups") if name == "conv2d" else ("weight", "bias")
        values = dict(zip(names, args)) | kwargs
        weight, bias = values["weight"], values.get("bias")
        if name == "linear":
            return self._named(where, self.builder.dense(self._vector(x, where), array(weight), array(bias), where, "dense"))
        m = nn.Conv2d(weight.shape[1] * values.get("groups", 1), len(weight), tuple(weight.shape[2:]), values.get("stride", 1),
                      values.get("padding", 0), values.get("dilation", 1), values.get("groups", 1), bias is not None, device="meta")
        m.weight = nn.Parameter(weight, requires_grad=False)
        m.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)
        return self._named(where, self._float_convolution(m, x, where, "conv"))

    @staticmethod
    def _unknown(name, where):
        if name in COMPARISONS:
            raise InputError(f"{where}: {name} compares values, which a layer does by its sign alone; expected fbnn_hw.nn.Sign() in the "
                             "place of a sign of one's own")
        if name.endswith("_") and name.strip("_") in MONOTONE_METHODS:
            raise InputError(f"{where}: {name} changes a value in its place, which other layers may read too; expected {name.strip('_')}")
        raise InputError(f"{where}: {name} has no counterpart among +1 and -1; expected the layers of fbnn_hw.nn, batch norm, 2x2 max "
                         "pooling, a function of single values before a sign (fbnn-hw help networks.md has the list)")

    def _check_alone(self, node, where):
        """Raises InputError where a later node reads what `node` changes in its place."""
        changed = maps(map(self.values.get, node.all_input_nodes))[0]
        for other, value in self.values.items():
            for reader in other.users if value is changed else ():
                if reader is not node and reader not in self.values:
                    raise InputError(f"{where}: changes {other.name} in its place (inplace=True), which {place(reader, self.module)} "
                                     "reads after it; expected inplace=False")

    def _single(self, node, args, kwargs, where):
        """Take a function of single values whose other operands are constants."""
        if in_place(node):
            self._check_alone(node, where)
        operands = maps(args)
        if len(operands) > 1 or kwargs and len(maps(kwargs.values())):
            near = [*above(node, 3)]
            if called(node) in ("add", "sub") and any(called(n) == "sign" and n.all_input_nodes[0] in near for n in near):
                raise InputError(f"{where}: adds a sign to the values that it is of, a straight-through sign of one's own; expected "
                                 "fbnn_hw.nn.Sign() in its place, which has that gradient")
            if all(value is operands[0] for value in operands):
                raise InputError(f"{where}: takes the same values twice, expected a function of one operand that rises or falls")
            verb = VERBS.get(called(node), "adds")
            raise InputError(f"{where}: {verb} real numbers of two layers, a shortcut that +1 and -1 have no room for; expected torch.cat "
                             "of the two after their signs, and a convolution of both")
        place = next(i for i, value in enumerate(args) if value is operands[0])

        def function(values):
            return self._constant(node, [values if i == place else value for i, value in enumerate(args)], kwargs)

        return self._apply(operands[0], function, where)

    def _cast(self, name, x, operands, where):
        """A cast to another type.  The values of a picture are rounded as it rounds them; sums have the one type in which they are read."""
        dtype = CASTS[name]
        for operand in operands:
            if isinstance(operand, torch.dtype):
                dtype = operand
            elif isinstance(operand, torch.Tensor):
                dtype = operand.dtype
            elif isinstance(operand, (fold.Image, fold.Bits, fold.Sum)):
                dtype = getattr(operand, "kind", self.dtype)
            elif isinstance(operand, str) and name == "type":
                dtype = torch.empty(0).type(operand).dtype
        if dtype is not None and isinstance(x, fold.Image):
            return self._apply(x, lambda values: values.to(dtype), where, quiet=True)
        if dtype not in (None, self.dtype, torch.float32, torch.float64):
            raise InputError(f"{where}: casts to {str(dtype).removeprefix('torch.')}, which rounds or wraps, expected float32")
        return x

    def _apply(self, x, function, where, quiet=False):
        channels, dtype = x.shape[0], x.kind if isinstance(x, fold.Image) else self.dtype
        kind = dtype

        def on_numbers(values):
            nonlocal kind
            shape = (len(values), channels) if x.vector else (len(values), channels, 1, 1)
            inputs = torch.from_numpy(np.ascontiguousarray(values)).to(dtype).reshape(shape)
            try:
                y = function(inputs)
            except (RuntimeError, ValueError) as error:
                raise InputError(f"{where}: cannot be run on single values ({first_line(error)}), expected a function of each "
                                 "value alone") from None
            if y.shape != inputs.shape:
                raise InputError(f"{where}: gives {tuple(y.shape[1:])} for a value of each channel, expected a function of each value "
                                 "alone")
            kind = y.dtype
            return y.double().reshape(len(values), channels).numpy()

        y = self.builder.apply(x, on_numbers, where)
        y = replace(y, kind=kind) if isinstance(y, fold.Image) else y
        if not quiet:
            self.builder.part(where)
        return y

    def _concat(self, args, kwargs, where):
        dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
        maps = args[0]
        if dim not in (1, -3) or not all(isinstance(x, (fold.Image, fold.Bits, fold.Sum)) for x in maps):
            raise InputError(f"{where}: concatenates along dimension {dim}, expected maps along dimension 1")
        return self._named(where, self.builder.concat(list(maps), where, "concat"))

    def _flatten(self, x, name, args, kwargs, where):
        if name == "flatten":
            start, end = (kwargs.get(key, args[i] if len(args) > i else default) for i, (key, default) in
                          enumerate((("start_dim", 0), ("end_dim", -1))))
            legal = start == 1 and end in (-1, 3)
        elif name == "squeeze":
            legal = x.shape[1:] == (1, 1)
        else:
            named = kwargs.get("shape", kwargs.get("size"))
            sizes = named if named is not None else args[0] if args and isinstance(args[0], (tuple, list)) else args
            count = int(np.prod(x.shape))
            legal = len(sizes) == 2 and sizes[0] in (-1, self.shape[0]) and sizes[1] in (-1, count) and sizes != (-1, -1)
        if not legal:
            raise InputError(f"{where}: {name}{(*args, *kwargs.values())}, expected flatten(1): one vector for each image")
        return self.builder.flatten(x, where)

    def _mean(self, x, name, args, kwargs, where):
        dims = kwargs.get("dim", args[0] if args else None)
        keep = kwargs.get("keepdim", args[1] if len(args) > 1 else name == "adaptive_avg_pool2d")
        if name == "adaptive_avg_pool2d":
            dims = (2, 3) if (args[0] if args else kwargs.get("output_size")) in (1, (1, 1)) else None
        if not isinstance(dims, (tuple, list)) or {d % 4 for d in dims} != {2, 3} or x.vector:
            raise InputError(f"{where}: {name} along {dims}, expected rows and columns, (2, 3)")
        y = self._named(where, self.builder.average(x, where, "gap", total=name == "sum"))
        return y if keep else self.builder.flatten(y, where)

    def _reorder(self, x, name, args, kwargs, where):
        if name == "getitem":
            if isinstance(x, (tuple, list)):
                return x[args[0]]
            return self._slice(x, args[0], where)
        dim = kwargs.get("dim", args[1] if len(args) > 1 else 0)
        if dim not in (1, -3):
            raise InputError(f"{where}: {name} along dimension {dim}, expected 1, the channels")
        count = args[0] if args else next(value for key, value in kwargs.items() if key not in ("dim", "output_size"))
        if name == "repeat_interleave":
            return self._named(where, self.builder.reorder(x, ops.Duplicate("duplicate", (), count), where))
        channels = x.shape[0]
        size = -(-channels // count) if name == "chunk" else count
        sizes = [min(size, channels - start) for start in range(0, channels, size)] if isinstance(size, int) else list(size)
        ends = np.cumsum(sizes)
        return tuple(self._named(where, self.builder.reorder(x, ops.Slice("slice", (), int(end - n), int(end)), where))
                     for end, n in zip(ends, sizes))

    def _slice(self, x, index, where):
        index = index if isinstance(index, tuple) else (index,)
        other_axes = [i for i in (index[0], *index[2:]) if i != slice(None)]
        if len(index) < 2 or other_axes or not isinstance(index[1], slice) or index[1].step not in (None, 1):
            raise InputError(f"{where}: takes some rows or images, expected channels alone, x[:, a:b]")
        start, stop, _ = index[1].indices(x.shape[0])
        return self._named(where, self.builder.reorder(x, ops.Slice("slice", (), start, stop), where))


def _check_unchanged(m, where):
    """Raises InputError where a module does more than its class says, which a trace does not show."""
    if m._forward_hooks or m._forward_pre_hooks:
        raise InputError(f"{where}: has a forward hook, which may change what it gives, expected none; remove it, or do its work in a "
                         "forward")
    if "forward" in vars(m):
        raise InputError(f"{where}: has a forward of its own beside its class's, expected that of the class; put it into a subclass of "
                         "nn.Module")
