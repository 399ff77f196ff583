"""Data sets, as archives and as folders, folders of pictures, results of runs, and pages of boards: damaged, endless, or well-formed with
other values in them."""

import gzip
import io
import json
import os
import pickle
import shutil
import tarfile
import zipfile
from pathlib import Path

import numpy as np

from . import mutators, pictures
from .checkpoints import hostile_pickle
from .runner import Case

CIFAR, OMNIGLOT = "cifar-10-batches-py", "omniglot"
EVALUATE = ("evaluate", "--images", "1", "--backend", "reference")
SWEEP = ("sweep", "runs", "--over", "seed", "0", "--dry-run", "--", "train", "--model", "0.5mb", "--data", "tiny")
REPRODUCE = ("reproduce", "encoding", "--scenario", "tiny-2+2x2", "--dry-run")
LITERALS = ("-1", "0", "2", str(2 ** 70), "nan", "inf", "[]", "{}", "true", "1979-05-27", "''", '"\\u001b[2J"', '"../../x"', "[" * 5000,
            '"' + "x" * 10 ** 5 + '"', "[[0, 1]]", "{ a = 1 }", "['led', 99]", "json:JSONDecoder", "'json:JSONDecoder'")
"""Values of a page."""


def case(rng, world, folder):
    match int(rng.integers(6)):
        case 0:
            return evaluate(world, folder, "cifar10", cifar_folder(rng, world, folder))
        case 1:
            return evaluate(world, folder, "cifar10", cifar_archive(rng, world, folder))
        case 2:
            return evaluate(world, folder, None, of_pictures(rng, world, folder))
        case 3:
            return evaluate(world, folder, *zipped(rng, folder))
        case 4:
            return results(rng, world, folder)
        case _:
            return page(rng, world, folder)


def evaluate(world, folder, name, place):
    where = ["--data", name, "--data-dir", place] if name else ["--data", f"./{place.name}"]
    return Case([*EVALUATE, "--model", world.tiny, *where], folder)


def batches(rng):
    """{file: bytes} of CIFAR-10 with two images, perhaps one value of it another."""
    values = {"batches.meta": {b"label_names": [b"class%d" % n for n in range(10)]},
              "test_batch": {b"data": np.zeros((2, 3072), np.uint8), b"labels": [0, 9]}}
    if rng.random() < 0.5:
        chosen = values[mutators.some(rng, list(values))]
        key = mutators.some(rng, list(chosen))
        chosen[key] = mutators.some(rng, (
            mutators.value(rng), np.zeros((2, 3073), np.uint8), np.zeros((0, 3072), np.uint8), np.zeros((2, 3072)),
            np.zeros(0), [mutators.value(rng)] * 10, [0, -1], [0, 10], [0.5, 1], [b"\x1b[2J"] * 10, [2 ** 70, 0]))
    return {name: pickle.dumps(value, protocol=int(rng.integers(2, 6))) for name, value in values.items()}


def damaged(rng, world, files):
    """The files with one of them missing, changed or hostile."""
    name = mutators.some(rng, list(files))
    match int(rng.integers(5)):
        case 0:
            del files[name]
        case 1:
            files[name] = hostile_pickle(rng, world)
        case 2 | 3:
            files[name] = mutators.data(rng, files[name])
    return files


def cifar_folder(rng, world, folder):
    place = folder / "data"
    (place / CIFAR).mkdir(parents=True)
    for name, body in damaged(rng, world, batches(rng)).items():
        (place / CIFAR / name).write_bytes(body)
    if rng.random() < 0.3:
        mutators.obstacle(rng, place / CIFAR / mutators.some(rng, ("batches.meta", "test_batch")))
    return place


def cifar_archive(rng, world, folder):
    """A tar archive: its headers may name sizes, types and places that no data set has."""
    place, body = folder / "data", io.BytesIO()
    place.mkdir()
    with tarfile.open(fileobj=body, mode="w", format=mutators.some(rng, (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT))) as archive:
        for name, content in damaged(rng, world, batches(rng)).items():
            names = f"../{name}", f"/{CIFAR}/{name}", f"./{CIFAR}//{name}"
            member = tarfile.TarInfo(mutators.some(rng, (f"{CIFAR}/{name}",) * 6 + names))
            member.size = len(content)
            if rng.random() < 0.3:
                member.size = mutators.some(rng, (2 ** 29, 2 ** 40, 2 ** 60, 0))
            if rng.random() < 0.3:
                member.type = mutators.some(rng, (tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.SYMTYPE, tarfile.LNKTYPE,
                                                  tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE, tarfile.DIRTYPE))
                member.linkname = mutators.some(rng, ("/dev/zero", "/etc/passwd", name, f"{CIFAR}/{name}"))
            body.write(member.tobuf(archive.format, errors="surrogateescape") + content + bytes(-len(content) % 512))
    data = gzip.compress(body.getvalue(), 1)
    if rng.random() < 0.2:
        data += gzip.compress(bytes(2 ** 24), 1) * int(rng.integers(1, 40))
    if rng.random() < 0.3:
        data = mutators.data(rng, data)
    (place / "cifar-10-python.tar.gz").write_bytes(data)
    return place


def of_pictures(rng, world, folder):
    """A folder of pictures, for each class a folder; names, kinds and depths that nobody expects."""
    place = folder / "pictures"
    for number in range(int(rng.integers(0, 4))):
        name = mutators.some(rng, (f"class{number}", f"class{number}", "train", "test", "x" * 200, f"\x1b[2J{number}", f"a\nb{number}",
                                   f"\u202e{number}", " ", f"\udcff{number}"))
        (place / os.fsdecode(os.fsencode(name))).mkdir(parents=True, exist_ok=True)
    place.mkdir(exist_ok=True)
    folders = [path for path in place.iterdir() if path.is_dir()]
    for path in folders if rng.random() < 0.8 else ():
        (path / mutators.some(rng, ("1.png", "x.jpg", ".hidden", "\x1b[2J.png", "1.npy"))).write_bytes(
            mutators.some(rng, (pictures.picture, pictures.picture, pictures.bomb, pictures.array))(rng))
    path = mutators.some(rng, [place, *folders])
    match int(rng.integers(6)):
        case 0:
            (path / "again").symlink_to(place)
        case 1:
            mutators.obstacle(rng, path / "2.png")
        case 2:
            for number in range(3000):
                (path / f"{number}.png").touch()
        case 3:
            (path / "deep" / "deeper").mkdir(parents=True)
    return place


def zipped(rng, folder):
    """(data set, place) of an archive of CORe50 or Omniglot whose members are not those."""
    name, member = mutators.some(rng, (("core50", "core50_128x128/s3/o1/C_03_01_000.png"),
                                       ("omniglot", "images_background/Balinese/character01/0108_11.png")))
    place, body = folder / "data", io.BytesIO()
    place.mkdir()
    with zipfile.ZipFile(body, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(int(rng.integers(1, 4))):
            content = mutators.some(rng, (pictures.picture, pictures.bomb, lambda rng: bytes(2 ** 25), lambda rng: b""))(rng)
            archive.writestr(member.replace("_000", f"_{number:03}").replace("_11", f"_{number + 11}"), content)
        if rng.random() < 0.3:
            archive.writestr(mutators.some(rng, ("../../x", "\x1b[2J.png", "s3/o99/C_03_99_000.png", "x" * 60000)), b"")
    data = body.getvalue()
    target = {"core50": "core50_128x128.zip", "omniglot": "images_background.zip"}[name]
    if name == "core50" and rng.random() < 0.3:
        target, names = "core50_imgs.npz", io.BytesIO()
        (place / "paths.pkl").write_bytes(mutators.some(rng, (pickle.dumps(["s3/o1/C_03_01_000.png"]), hostile_pickle(rng, None)))
                                          if rng.random() < 0.5 else pickle.dumps(["s3/o1/C_03_01_000.png"] * 10 ** 6))
        np.savez_compressed(names, x=np.zeros((1, 128, 128, 3), np.uint8))
        data = names.getvalue()
    (place / target).write_bytes(mutators.data(rng, data) if rng.random() < 0.4 else data)
    return name, place


def results(rng, world, folder):
    """A result of a run, other values in it, met by what counts and averages results."""
    values = json.loads((world.training / "t.result.json").read_text())
    for place in ("runs/seed0.result.json", "results/x.json"):
        (folder / place).parent.mkdir()
        (folder / place).write_bytes(mutators.text(rng, json.loads(json.dumps(values))))
    if rng.random() < 0.1:
        mutators.obstacle(rng, folder / place)
    return Case(list(mutators.some(rng, (SWEEP, REPRODUCE))), folder, may_write=True)


def page(rng, world, folder):
    """A board's page with other values: TOML that is read, and names of what Amaranth's platform has."""
    lines = (Path(__file__).parents[2] / "boards" / "icebreaker.toml").read_text().splitlines()
    for _ in range(int(rng.integers(1, 4))):
        at = int(rng.integers(len(lines)))
        key, equals, _ = lines[at].partition(" = ")
        others = "", "[x]", "[[flash]]", "\x1b[2J", lines[at] * 2
        lines[at] = f"{key} = {mutators.some(rng, LITERALS)}" if equals else mutators.some(rng, others)
    text = "\n".join(lines).encode()
    (folder / "x.toml").write_bytes(mutators.data(rng, text) if rng.random() < 0.2 else text)
    if rng.random() < 0.05:
        mutators.obstacle(rng, folder / "x.toml")
    shutil.copytree(world.plain.folder, folder / "d", ignore=shutil.ignore_patterns("sim_build*", ".*"))
    return Case(["flash", "d", "--board", "x.toml", "--dry-run"], folder, may_write=True, path="")
