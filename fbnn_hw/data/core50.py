"""CORe50, 128x128 (Ref: https://vlomonaco.github.io/core50/): the folder or zip of PNG files, or core50_imgs.npz beside paths.pkl.

A picture is sSESSION/oOBJECT/C_SESSION_OBJECT_FRAME.png; 11 sessions, 50 objects.
"""

import re

import numpy as np

from ..base import files
from ..base.errors import InputError
from . import pickles, zips
from .images import npy_header, png

NAME = re.compile(r"(?:^|/)s(\d+)/o(\d+)/C_\d+_\d+_\d+\.png$")
FOLDER, ZIP, NPZ, PATHS = "core50_128x128", "core50_128x128.zip", "core50_imgs.npz", "paths.pkl"
URL = "http://bias.csr.unibo.it/maltoni/download/core50/"
PATHS_URL = "https://vlomonaco.github.io/core50/data/"
MOST_PATHS_BYTES = 2 ** 26
MOST_PICTURES = 2 ** 18
"""More than the 164,866 that there are."""


def read(dataset, places, split):
    """The fields of `datasets.Images`, of the sessions that are the split's; the objects are called o1, o2, ...

    Looks into `places` in order.  Raises InputError that says what to download where nothing is found, or what is damaged.
    """
    images, labels, source = _found(places, dataset.options[split], dataset.size, dataset.classes)
    return images, labels, tuple(f"o{i + 1}" for i in range(dataset.classes)), source


def _found(places, sessions, size, count):
    """(images uint8 RGB (N, 3, size, size), labels int64 (N,), source) of the pictures whose session is in `sessions`."""
    for place in places:
        for file in (place, place / NPZ, place / ZIP):
            if file.is_file():
                return (_read_npz if file.suffix == ".npz" else _read_zip)(file, sessions, size, count)
        for folder in (place / FOLDER, place):
            if (folder / "s1").is_dir():
                names = sorted(str(p.relative_to(folder)) for p in folder.glob("s*/o*/*.png"))
                return _read_png(folder, names, lambda name, folder=folder: files.read(folder / name, zips.MOST_BYTES, "a PNG"), sessions,
                                 size, count)
    raise InputError(f"core50: not found in {', '.join(map(str, places))}; put {ZIP} from {URL}, "
                     f"or {NPZ} from there and {PATHS} from {PATHS_URL}, into {places[0]}")


def _of_sessions(names, where, sessions, count):
    """(index, object from 0) of every name in `names` whose session is wanted; raises InputError where a wanted session has none."""
    missing = set(sessions)
    for index, name in enumerate(names):
        match = NAME.search(name)
        if not match:
            raise InputError(f"{where}: holds the name {name[:60]!r}, expected sSESSION/oOBJECT/C_SESSION_OBJECT_FRAME.png")
        session, item = int(match[1]), int(match[2]) - 1
        if not 0 <= item < count:
            raise InputError(f"{where}: {name} is of object {item + 1}, expected 1 to {count}")
        if session in sessions:
            missing.discard(session)
            yield index, item
    if missing:
        raise InputError(f"{where}: no picture of session {', '.join(map(str, sorted(missing)))}, expected all of "
                         f"{', '.join(map(str, sessions))}")


def _read_npz(path, sessions, size, count):
    beside = path.with_name(PATHS)
    if not beside.is_file():
        raise InputError(f"{beside}: not found, expected beside {NPZ}; get it from {PATHS_URL}")
    names = pickles.texts(files.read(beside, MOST_PATHS_BYTES, f"{PATHS} from {PATHS_URL}"), beside)
    if len(names) > MOST_PICTURES:
        raise InputError(f"{beside}: {len(names):,} names, expected at most {MOST_PICTURES:,}; get it from {PATHS_URL}")
    with zips.opened(path, f"an array x; get it from {URL}") as archive:
        with archive.open("x.npy") as file:
            shape, _, dtype = npy_header(file)  # before memory is asked for
        if dtype != np.uint8 or shape != (len(names), size, size, 3):
            raise InputError(f"{path}: x is {dtype} {shape}, expected uint8 {(len(names), size, size, 3)}, as many as {PATHS} names")
        with archive.open("x.npy") as file:
            images = np.lib.format.read_array(file, allow_pickle=False)
    pairs = list(_of_sessions(names, beside, sessions, count))
    index, labels = (np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))
    pictures = np.empty((len(index), 3, size, size), np.uint8)
    for row, number in zip(pictures, index):  # one by one, for all of them at once would take twice the memory
        row[:] = images[number].transpose(2, 0, 1)
    return pictures, labels, str(path)


def _read_zip(path, sessions, size, count):
    with zips.opened(path, f"the official zip; get it from {URL}") as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".png"))
        return _read_png(path, names, lambda name: zips.member(archive, name), sessions, size, count)


def _read_png(where, names, read_bytes, sessions, size, count):
    if len(names) > MOST_PICTURES:
        raise InputError(f"{where}: {len(names):,} pictures, expected at most {MOST_PICTURES:,}")
    pairs = list(_of_sessions(names, where, sessions, count))
    images = np.empty((len(pairs), 3, size, size), np.uint8)
    for row, (index, _) in enumerate(pairs):
        images[row] = np.asarray(png(read_bytes(names[index]), f"{where}/{names[index]}", size, "RGB")).transpose(2, 0, 1)
    return images, np.array([item for _, item in pairs], np.int64), str(where)
