"""What a node of a torch.fx graph calls, reads and holds, and the line of source that it comes from."""

import inspect
import os
import re
from pathlib import Path

import torch

from ..base.errors import InputError
from ..foreign import fold


def called(node):
    return node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))


def above(node, steps):
    """The nodes that `node` reads, those that these read, and so on, `steps` times, but not what a sign reads."""
    for other in node.all_input_nodes if steps else ():
        yield other
        yield from above(other, steps - 1) if called(other) != "sign" else ()


def in_place(node):
    """Whether a call says inplace=True."""
    try:
        return inspect.signature(node.target).bind(*node.args, **node.kwargs).arguments.get("inplace", False) is True
    except (TypeError, ValueError):  # torch's own functions have no signature, and none takes the word
        return False


def maps(values):
    return [value for value in values if isinstance(value, (fold.Image, fold.Bits, fold.Sum))]


def flat(values):
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from flat(value)
        else:
            yield value


def array(tensor):
    return None if tensor is None else tensor.detach().cpu().double().numpy()


def signs(m, where):
    if not m.weight.isfinite().all():
        raise InputError(f"{where}: a weight is NaN or infinite, expected finite numbers; the training diverged")
    return array(m.signs())


def pair(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value, value)


def short(hint):
    """Return the last part of a module's path; where that is a number, also the part before it."""
    parts = hint.split(".")
    return parts[-1] if not parts[-1].isdigit() else "_".join(parts[-2:])


def first_line(error):
    """The first line of what an exception says, or its kind where it says nothing."""
    return (str(error).splitlines() or [type(error).__name__])[0][:120]


TRACER = str(Path(__file__).with_name("trace.py"))
"""The file that runs a module while torch.fx follows it."""
FRAME = re.compile(r'File "(.+?)", line (\d+)')


def place(node, module):
    """The line of source of a node, and what it calls."""
    subject = f"{node.target} ({type(module.get_submodule(node.target)).__name__})" if node.op == "call_module" else called(node)
    line = _line(FRAME.findall(node.stack_trace or ""))
    return f"{line}, {subject}" if line else subject


def _line(frames):
    """file:line of the innermost frame of a user's code, or ""."""
    own, theirs = str(Path(__file__).parents[1]), str(Path(torch.__file__).parent)
    last = max((i for i, (file, _) in enumerate(frames) if file == TRACER), default=-1)
    for file, line in reversed(frames[last + 1:]):
        if not file.startswith((own, theirs)) and not file.startswith("<eval"):
            relative = os.path.relpath(file)
            return f"{relative if not relative.startswith('..') else Path(file).name}:{line}"
    return ""


def last_line(error):
    frames, trace = [], error.__traceback__
    while trace:
        frames.append((trace.tb_frame.f_code.co_filename, trace.tb_lineno))
        trace = trace.tb_next
    return _line(frames)
