"""What programs keep for their next run: snapshots of learners, with right check sums, and states of trainings."""

import io
import json
import shutil
import zlib

import numpy as np

from fbnn_hw.board.taught import HEAD

from . import mutators
from .checkpoints import hostile_pickle, tensor
from .runner import Case

TRAIN = ("train", "--model", "0.5mb", "--data", "tiny", "--images", "2", "--batch", "8", "--validation", "0.4", "--epochs", "1",
         "--threads", "1", "--out", "t.pt")


def case(rng, world, folder):
    if rng.random() < 0.8:
        name = folder / "x.snapshot"
        if rng.random() < 0.05:
            mutators.obstacle(rng, name)
        else:
            name.write_bytes(snapshot(rng, world))
        return Case([f"{__name__}:take_up", name.name, world.learner.folder], folder)
    for name in ("t.pt", "t.result.json", "t.state"):
        shutil.copy(world.training / name, folder)
    state = folder / "t.state"
    if rng.random() < 0.1:
        mutators.obstacle(rng, state)
    else:
        state.write_bytes(training(rng, world))
    return Case([*TRAIN, "--resume"], folder, may_write=True)


def snapshot(rng, world):
    """A file of what a board was taught: one part changed, the check sum made right again."""
    from fbnn_hw.reference.learning import snapshot as of

    names, body = list(world.taught[0]), bytearray(world.taught[1][of.HEADER.size:])
    scalars = list(of.SCALARS.unpack_from(body))
    kind = int(rng.integers(6))
    if kind < 2:
        for _ in range(int(rng.integers(1, 3))):
            at = int(rng.integers(1, len(scalars)))
            widths = (32, 16, 8, 32, 64, 64, 64)
            scalars[at] = max(0, mutators.some(rng, (0, 1, 2, 4, 5, 6, 7, 9, 255, 65535, 2 ** 31, 2 ** 64 - 1, scalars[at] + 1)))
            scalars[at] &= 2 ** widths[at] - 1
        body[:of.SCALARS.size] = of.SCALARS.pack(*scalars)
    elif kind < 4:
        at = int(rng.integers(of.SCALARS.size, len(body)))
        body[at] = int(rng.integers(256))
    elif kind == 4:
        body = body[:of.SCALARS.size] + mutators.data(rng, body[of.SCALARS.size:])
    whole = of.HEADER.pack(of.MAGIC, int(rng.integers(4)) if rng.random() < 0.1 else of.VERSION, zlib.crc32(body)) + body
    if rng.random() < 0.1:
        return mutators.data(rng, whole)
    line = mutators.text(rng, names) if kind == 5 else json.dumps(names).encode()
    return HEAD + line.replace(b"\n", b" ") + b"\n" + whole


def take_up(path, folder):
    """Read a file of what a board was taught, as `learn --restore` does; a learner that takes it must be able to go on."""
    from fbnn_hw.board.taught import Taught
    from fbnn_hw.design import Design
    from fbnn_hw.reference.learning.snapshot import State

    taught = Taught.read(path)
    learner = Design(folder).learner()
    before = learner.snapshot()
    try:
        learner.restore(taught.snapshot)
    except Exception:
        assert learner.snapshot() == before, "restored by half"
        raise
    state, names = taught.state(learner, path), taught.names
    assert all(name.isprintable() for name in names) and len(set(names)) == len(names) <= state.known, names
    assert State.unpack(learner.snapshot(), learner).pack() == state.pack()
    latents = np.zeros((2, learner.head.latent), np.uint8)
    learner.classify(latents)
    learner.freeze(False)
    if learner.known:
        learner.learn(latents, [0, learner.known - 1])
        learner.rehearse(3)
    State.unpack(learner.snapshot(), learner)


def training(rng, world):
    """The state of a training, damaged, hostile, or with other values in it."""
    import torch

    original = (world.training / "t.state").read_bytes()
    kind = int(rng.integers(5))
    if kind == 0:
        return mutators.data(rng, original)
    if kind == 1:
        return hostile_pickle(rng, world)
    values = torch.load(io.BytesIO(original), weights_only=True)
    if kind == 2:
        part = mutators.some(rng, [part for part in (values["model"], values["best"], values) if part])
        name = mutators.some(rng, [name for name in part if torch.is_tensor(part[name])])
        part[name] = tensor(rng, part[name].to(torch.uint8)) if rng.random() < 0.5 else part[name] * float("nan")
    else:
        values = mutators.tree(rng, values)
    file = io.BytesIO()
    try:
        torch.save(values, file)
    except (UnicodeEncodeError, OverflowError, RuntimeError):
        return mutators.data(rng, original)
    return file.getvalue()
