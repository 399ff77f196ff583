"""Checkpoints: damaged bytes, hostile pickles and archives, and well-formed files whose content no network has."""

import io
import pickle
import zipfile

from . import mutators
from .pictures import Canary
from .runner import Case

VERBS = (("inspect", "x.pt"), ("inspect", "x.pt", "--json"), ("generate", "--model", "x.pt", "--target", "ice40"),
         ("evaluate", "--model", "x.pt", "--data", "fixture", "--images", "1", "--backend", "reference"),
         ("classify", "--model", "x.pt", "--data", "fixture", "--images", "1"))


def case(rng, world, folder):
    name = folder / "x.pt"
    match int(rng.integers(8)):
        case 0:
            name.write_bytes(mutators.data(rng, world.tiny.read_bytes()))
        case 1:
            name.write_bytes(archive(rng, world))
        case 2:
            name.write_bytes(hostile_pickle(rng, world))
        case 3 if rng.random() < 0.4:
            mutators.obstacle(rng, name)
        case _:
            name.write_bytes(content(rng, world))
    verb = VERBS[0] if rng.random() < 0.6 else mutators.some(rng, VERBS)
    return Case(list(verb), folder, may_write=verb[0] == "generate")


def _members(world):
    with zipfile.ZipFile(world.tiny) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def _zip(members, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, body in members.items():
            archive.writestr(name, body)
    return file.getvalue()


def archive(rng, world):
    """An archive with members missing, changed under a right check sum, renamed, or swollen."""
    members = _members(world)
    name = mutators.some(rng, list(members))
    match int(rng.integers(5)):
        case 0:
            del members[name]
        case 1:
            members[name] = mutators.data(rng, members[name])
        case 2:
            members[mutators.some(rng, ("../../x", "/x", "x" * 6000, "a\x1b[2J/data.pkl"))] = members.pop(name)
        case 3:
            members[name] = bytes(2 ** 28)
        case _:
            members |= {f"archive/data/{n}": b"" for n in range(5000)}
    return _zip(members, mutators.some(rng, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)) if len(members[max(members, key=lambda n: len(
        members[n]))]) < 2 ** 27 else zipfile.ZIP_DEFLATED)


def hostile_pickle(rng, world):
    """An archive, or a bare file, whose pickle runs code, counts without end, or nests."""
    match int(rng.integers(6)):
        case 0:
            body = pickle.dumps(Canary(), int(rng.integers(0, 6)))
        case 1:
            body = pickle.dumps({"format": Canary()})
        case 2:
            body = b"cos\nsystem\n(Vtouch canary\ntR."
        case 3:
            body = b"\x80\x02" + b"(" * mutators.DEEP + b"l" * mutators.DEEP + b"."
        case 4:
            body = b"\x80\x04\x8e" + (2 ** 62).to_bytes(8, "little") + b"x."  # BINBYTES8
        case _:
            body = b"\x80\x02]" + b"2" * 40 + b"(ee" * 30 + b"."
    if rng.random() < 0.3:
        return body
    members = _members(world)
    return _zip(members | {next(name for name in members if name.endswith("data.pkl")): body})


def content(rng, world):
    """A well-formed file with other values in it."""
    import torch

    values = torch.load(world.tiny, weights_only=True)
    for key in values if rng.random() < 0.2 else ():
        if torch.is_tensor(values[key]):
            values[key] = tensor(rng, values[key])
    if isinstance(values.get("weights"), dict) and rng.random() < 0.4:
        name = mutators.some(rng, list(values["weights"]))
        values["weights"][name] = tensor(rng, values["weights"][name])
    else:
        values = mutators.tree(rng, values)
    file = io.BytesIO()
    try:
        torch.save(values, file)
    except (UnicodeEncodeError, OverflowError, RuntimeError):  # what no file can hold
        return mutators.data(rng, world.tiny.read_bytes())
    return file.getvalue()


def tensor(rng, original):
    """Another tensor than expected."""
    import torch

    match int(rng.integers(7)):
        case 0:
            return original[:-1]
        case 1:
            return original.float()
        case 2:
            return torch.zeros(1, dtype=torch.uint8).expand(2 ** 40)
        case 3:
            return original.to_sparse() if original.dim() == 1 else original.flatten()
        case 4:
            return torch.zeros((0,) * 5, dtype=torch.uint8)
        case 5:
            return torch.empty(2 ** 20, device="meta") if rng.random() < 0.5 else torch.zeros(3, dtype=torch.complex64)
        case _:
            return original ^ 1
