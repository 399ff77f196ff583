"""Data sets as arrays: one table, `DATASETS`, and `load`.

A data set is found in --data-dir, then $FBNN_DATA, then the cache folder ($XDG_CACHE_HOME/fbnn-hw, ~/.cache/fbnn-hw), each as the
official archive or unpacked; otherwise its archive is downloaded into the first of them that is set.  No torch here.
"""

import gzip
import hashlib
import os
import tarfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ..base import files
from ..base.errors import InputError, UsageError, spelled
from ..base.files import cache_folder
from . import core50, omniglot, pickles, stl10, synthetic, zips
from .images import scale

SPLITS = ("train", "test")
TIMEOUT_S = 30
BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Images:
    """images: uint8 RGB (N, 3, S, S).  labels: int64 (N,), indices into `classes`.  source: where they were read."""

    images: np.ndarray
    labels: np.ndarray
    classes: tuple
    source: str = ""

    def select(self, classes):
        """The images of the named classes alone, labels renumbered in the order given; raises UsageError for an unknown name."""
        own = {spelled(name): number for number, name in enumerate(self.classes)}
        for name in classes:
            if spelled(name) not in own:
                raise UsageError(f"--classes {name}: no such class, expected some of {', '.join(self.classes)}")
        if len(set(classes)) != len(classes) or not classes:
            raise UsageError(f"--classes {','.join(classes)}: expected each class once")
        number = np.full(len(self.classes), -1, np.int64)
        number[[own[spelled(name)] for name in classes]] = np.arange(len(classes))
        renumbered = replace(self, labels=number[self.labels], classes=tuple(classes))
        return renumbered._of(renumbered.labels >= 0)

    def by_name(self, classes):
        """The same images with the numbers of `classes`; raises InputError where an image's class is none of them."""
        number = {spelled(name): place for place, name in enumerate(classes)}
        strange = next((name for name in self.classes if spelled(name) not in number), None)
        if strange is not None:
            raise InputError(f"{self.source}: has the class {strange}, which the training does not have, expected some of "
                             f"{', '.join(classes[:5])}{', ...' if len(classes) > 5 else ''}")
        numbers = np.array([number[spelled(name)] for name in self.classes], np.int64)
        return replace(self, labels=numbers[self.labels], classes=tuple(classes))

    def thinned(self, count):
        """`count` images of each class, spread evenly over those it has, in their order; raises UsageError where a class has fewer."""
        sizes = np.bincount(self.labels, minlength=len(self.classes))
        if sizes.min() < count:
            raise UsageError(f"--images {count}: class {self.classes[sizes.argmin()]} has {sizes.min()}, expected at most that many")
        members = [np.flatnonzero(self.labels == c)[np.arange(count) * size // count] for c, size in enumerate(sizes)]
        return self._of(np.sort(np.concatenate(members)))

    def scaled(self, size):
        """The same images, size x size, as `images.scale` makes them; these themselves if they are so large."""
        return self if self.images.shape[2:] == (size, size) else replace(self, images=scale(self.images, size))

    def whole(self):
        """Raises InputError where a class has no image, or there is one class alone, which every answer gets right."""
        if len(self.classes) < 2:
            raise InputError(f"{self.source}: has the class {self.classes[0]} alone, expected two or more to tell apart")
        missing = [name for number, name in enumerate(self.classes) if number not in self.labels]
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            raise InputError(f"{self.source}: no image of {', '.join(missing[:3])}{more}, expected some of each of {len(self.classes)} "
                             f"classes")

    def first(self, count):
        """The first `count` images; all of them if None or too few."""
        return self._of(slice(count))

    def _of(self, members):
        return replace(self, images=self.images[members], labels=self.labels[members])


@dataclass(frozen=True)
class Archive:
    """An official download.

    md5: of the archive as published.  folder: what it unpacks to.  files: names inside the folder; a folder
    without them is not taken for the data set.  unpacked: more bytes than the official one unpacks to.
    """

    url: str
    md5: str
    folder: str
    files: tuple
    unpacked: int

    @property
    def name(self):
        return self.url.rsplit("/", 1)[1]


@dataclass(frozen=True)
class Dataset:
    """A data set.

    size: pixels a side.  classes: number of classes.  archive: None where it ships with the package, or
    where `read` gets the folders to look into.  read(data set, `Source` or folders, split): returns `Images`, or its fields.
    overlap: both splits are the same images, so accuracy on "test" after training on "train" says nothing.
    """

    name: str
    size: int
    classes: int
    archive: Archive | None
    read: Callable
    overlap: bool = False
    splits: tuple = SPLITS
    options: dict = field(default_factory=dict)


class Source:
    """Members of an unpacked folder or of a tar archive, as bytes."""

    def __init__(self, path, archive):
        self.path, self.archive = Path(path), archive

    def members(self, names):
        """{name: bytes}, in one reading; raises InputError for a missing or damaged one."""
        try:
            members = dict(self._from_folder(names) if self.path.is_dir() else self._from_archive(names))
        except Exception as error:  # tarfile raises a dozen classes on damaged archives
            raise InputError(f"{self.path}: cannot be read ({zips.reason(error)}), expected the official archive; "
                             f"delete it to have it downloaded again") from None
        for name in names:
            if name not in members:
                raise InputError(f"{self.path}: has no {name}, expected {', '.join(names)}")
        return members

    def _from_folder(self, names):
        for path in (self.path / name for name in names if (self.path / name).is_file()):
            if path.stat().st_size > self.archive.unpacked:
                raise ValueError(f"{path.name} has more than {self.archive.unpacked:,} bytes")
            yield path.name, path.read_bytes()

    def _from_archive(self, names):
        names_of_members = {f"{self.archive.folder}/{name}": name for name in names}
        with gzip.open(self.path) as file:
            stream = _Bounded(file, self.archive.unpacked)
            with tarfile.open(fileobj=stream, mode="r:") as archive:
                for member in archive:
                    name = names_of_members.get(os.path.normpath(member.name))
                    if name and member.isfile():
                        yield name, archive.extractfile(member).read()
            while stream.read(BLOCK_BYTES):  # to the end, where the checksum is
                pass


class _Bounded:
    """A file for tarfile; ValueError before more than its first `most` bytes are read, of a member or of a header."""

    def __init__(self, file, most):
        self.file, self.most, self.tell = file, most, file.tell

    def read(self, size):
        self._check(self.tell() + size)
        return self.file.read(size)

    def seek(self, place):
        self._check(place)
        return self.file.seek(place)

    def _check(self, end):
        if end > self.most + BLOCK_BYTES:  # the last block may be shorter than asked for
            raise ValueError(f"it unpacks to more than {self.most:,} bytes")


def _read_cifar(dataset, source, split):
    """Pickled batches: b"data" uint8 (n, 3072), R, G, B planes; a list of labels; class names in a meta file."""
    options = dataset.options
    names, meta = options[split], options["meta"]
    members = source.members((*names, meta))

    def where(name):
        return f"{source.path}/{name}"

    def listed(values, name, key, what, count, more=""):
        found = values.get(options[key])
        if not isinstance(found, list) or len(found) != count:
            raise InputError(f"{where(name)}: {options[key]} has {len(found) if isinstance(found, list) else 'no'} {what}, "
                             f"expected {count}{more}")
        return found

    class_names = listed(pickles.loads(members[meta], where(meta)), meta, "class_names", "names", dataset.classes)
    classes = tuple(name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in class_names)
    images, labels = [], []
    pixels = 3 * dataset.size ** 2
    for name in names:
        batch = pickles.loads(members.pop(name), where(name))
        data = batch.get("data")
        if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != pixels or not len(data):
            shape = f"{data.dtype} {data.shape}" if isinstance(data, np.ndarray) else type(data).__name__
            raise InputError(f"{where(name)}: data is {shape}, expected uint8 (n, {pixels})")
        label = listed(batch, name, "labels", "entries", len(data), ", one for each image")
        for value in label:
            if type(value) is not int or not 0 <= value < dataset.classes:
                raise InputError(f"{where(name)}: {options['labels']} holds {value!r}, expected 0 to {dataset.classes - 1}")
        images.append(data.reshape(-1, 3, dataset.size, dataset.size))
        labels.append(np.array(label, np.int64))
    return np.concatenate(images), np.concatenate(labels), classes, str(source.path)


def _read_fixture(dataset, source, split):
    """The first 300 test images of CIFAR-10, in the package; both splits are the same images."""
    path = Path(__file__).with_name("fixture.npz")
    with np.load(path) as file:
        return file["images"], file["labels"].astype(np.int64), tuple(file["classes"].tolist()), str(path)


def _read_omniglot(dataset, places, split):
    return omniglot.read(places, dataset.options["alphabets"], dataset.options[split], dataset.size, dataset.classes)


DATASETS = {d.name: d for d in (
    Dataset("cifar10", 32, 10, Archive(
        # Ref: https://www.cs.toronto.edu/~kriz/cifar.html
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz", "c58f30108f718f92721af3b95e74349a",
        "cifar-10-batches-py", ("batches.meta", "test_batch"), 2 ** 28), _read_cifar,
        options=dict(train=tuple(f"data_batch_{i}" for i in range(1, 6)), test=("test_batch",), meta="batches.meta",
                     labels="labels", class_names="label_names")),
    Dataset("cifar100", 32, 100, Archive(
        "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz", "eb9058c3a382ffc7106e4002c42a8d85",
        "cifar-100-python", ("meta", "test"), 2 ** 28), _read_cifar,
        options=dict(train=("train",), test=("test",), meta="meta", labels="fine_labels", class_names="fine_label_names")),
    Dataset("fixture", 32, 10, None, _read_fixture, overlap=True),
    Dataset("stl10", 96, 10, Archive(
        "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz", "91f7769df0f17e558f3565bffb0c7dfb",
        "stl10_binary", ("class_names.txt", "test_X.bin"), 2 ** 32), stl10.read, splits=(*SPLITS, "unlabeled")),
    Dataset("core50", 128, 50, None, core50.read, options=dict(train=(1, 2, 4, 5, 6, 8, 9, 11), test=(3, 7, 10))),
    Dataset("omniglot", 32, 250, None, _read_omniglot, options=dict(
        alphabets=("Balinese", "Korean"), train=range(1, 11), test=range(11, 21))),
    Dataset("omniglot-background", 32, 712, None, _read_omniglot, options=dict(
        alphabets=("Early_Aramaic", "Greek", "Japanese_(katakana)", "Latin", "Sanskrit", "Tagalog"), train=range(1, 19), test=(19, 20))),
    Dataset("tiny", 16, 6, None, synthetic.read),
)}


def folders(data_dir=None):
    """Folders to look in, in order.  A download goes into the first."""
    places = (data_dir, os.environ.get("FBNN_DATA"), cache_folder())
    return [Path(folder).expanduser() for folder in places if folder]


def find(dataset, data_dir=None):
    """The `Source` of a data set on this machine, or None.

    A folder counts if it is the unpacked data set or holds it, or holds the archive; a path to the archive itself counts too.
    """
    archive = dataset.archive
    for place in folders(data_dir):
        for path in (place, place / archive.folder):
            if all((path / name).is_file() for name in archive.files):
                return Source(path, archive)
        for path in (place, place / archive.name):
            if path.is_file():
                return Source(path, archive)
    return None


def load(name, data_dir=None, split="train", progress=None):
    """`Images` of a split, "train" or "test" ("unlabeled" of stl10, with labels of -1), downloaded first if it is nowhere on this machine.

    progress(total=bytes, desc=text, unit=..., unit_scale=...) -> a tqdm-like bar with update and close.
    Raises UsageError for an unknown name, InputError for a data set that is missing or damaged.
    """
    if name not in DATASETS:
        raise UsageError(f"--data {name}: no such data set, expected one of {', '.join(DATASETS)}")
    dataset = DATASETS[name]
    if split not in dataset.splits:
        raise UsageError(f"split {split}: expected one of {', '.join(dataset.splits)}")
    if dataset.archive is None:
        source = folders(data_dir)
    else:
        source = find(dataset, data_dir) or Source(download(dataset, data_dir, progress), dataset.archive)
    found = dataset.read(dataset, source, split)
    return found if isinstance(found, Images) else Images(*found)  # a data set of somebody else's gives it whole


def test_images(size, count):
    """The first `count` shipped test images, uint8 (N, 3, size, size).  They have 32 pixels a side; for smaller networks random ones
    take their place, always the same, and for larger ones they are enlarged.
    """
    if size < 32:
        return np.random.default_rng(0).integers(0, 256, (count, 3, size, size), dtype=np.uint8)
    return load("fixture").first(count).scaled(size).images


def download(dataset, data_dir=None, progress=None):
    """Fetch the archive into the first of `folders`, whole and with the right checksum or not at all; returns its path."""
    import urllib.request  # 15 ms, which a command that downloads nothing need not wait for

    archive, places = dataset.archive, folders(data_dir)
    target = places[0] / archive.name
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")  # another run may fetch it too
    bar = None
    try:
        digest = hashlib.md5(usedforsecurity=False)
        with urllib.request.urlopen(archive.url, timeout=TIMEOUT_S) as reply:
            target.parent.mkdir(parents=True, exist_ok=True)  # only now: a failed download leaves no empty folder
            size = int(reply.headers.get("Content-Length") or 0) or None
            if progress:
                bar = progress(total=size, desc=archive.name, unit="B", unit_scale=True)
            with files.new(partial) as file:
                while block := reply.read(BLOCK_BYTES):
                    file.write(block)
                    digest.update(block)
                    if bar is not None:
                        bar.update(len(block))
                got = file.tell()
        if size and got != size:
            raise InputError(f"{archive.url}: got {got} bytes, expected {size}; try again")
        if digest.hexdigest() != archive.md5:
            raise InputError(f"{archive.url}: md5 is {digest.hexdigest()}, expected {archive.md5}; try again")
        partial.replace(target)
    except OSError as error:  # a URLError is one
        looked = ", ".join(str(place) for place in places)
        reason = getattr(error, "reason", None) or str(error) or type(error).__name__
        raise InputError(f"{dataset.name}: not found in {looked}, and the download failed ({reason}); "
                         f"put {archive.name} from {archive.url.rsplit('/', 1)[0]}/ into {places[0]}") from None
    finally:
        if bar is not None:
            bar.close()
        with suppress(OSError):
            partial.unlink()
    return target
