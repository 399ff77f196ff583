"""The official formats, on small files; what is missing or damaged is one line; downloads are whole or not there."""

import functools
import gzip
import hashlib
import http.server
import io
import multiprocessing
import os
import pickle
import struct
import tarfile
import threading
from dataclasses import replace

import numpy as np
import pytest

from fbnn_hw.base import files
from fbnn_hw.base.errors import InputError, UsageError
from fbnn_hw.data import datasets

CIFAR10 = "airplane automobile bird cat deer dog frog horse ship truck".split()
CIFAR100 = [f"fine{i}" for i in range(100)]


@pytest.fixture(autouse=True)
def nowhere(tmp_path, monkeypatch):
    """No data on this machine, no network."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("FBNN_DATA", raising=False)

    def refuse(*args, **kwargs):
        raise OSError("no network in tests")

    monkeypatch.setattr("urllib.request.urlopen", refuse)


def python2(value):
    """A pickle as Python 2 wrote it: protocol 2, str as bytes, arrays through numpy.core.multiarray."""
    out = io.BytesIO()

    def put(v):
        if isinstance(v, bytes):
            out.write(b"T" + struct.pack("<i", len(v)) + v)  # BINSTRING
        elif isinstance(v, int):
            out.write(b"J" + struct.pack("<i", v))
        elif isinstance(v, list):
            out.write(b"](")
            for item in v:
                put(item)
            out.write(b"e")
        elif isinstance(v, dict):
            out.write(b"}(")
            for key, item in v.items():
                put(key)
                put(item)
            out.write(b"u")
        else:
            out.write(b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R(K\x01")
            for size in v.shape:
                put(size)
            out.write(b"\x86cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89")
            put(v.tobytes())
            out.write(b"tb")

    out.write(b"\x80\x02")
    put(value)
    out.write(b".")
    return out.getvalue()


def batch(seed, count, classes, key):
    rng = np.random.default_rng(seed)
    return {b"batch_label": b"a batch", key: rng.integers(0, classes, count).tolist(),
            b"data": rng.integers(0, 256, (count, 3072), dtype=np.uint8), b"filenames": [b"%d.png" % i for i in range(count)],
            b"nothing": b""}  # which Python 3 writes as a call of bytes in protocol 2


def cifar10_files(dump):
    files = {f"data_batch_{i}": dump(batch(i, 3, 10, b"labels")) for i in range(1, 6)}
    return {**files, "test_batch": dump(batch(6, 4, 10, b"labels")), "batches.meta": dump({b"label_names": [n.encode() for n in CIFAR10]}),
            "readme.html": b"<html>"}


def cifar100_files(dump):
    def both(seed, count):
        return {**batch(seed, count, 100, b"fine_labels"), b"coarse_labels": [0] * count}

    return {"train": dump(both(1, 5)), "test": dump(both(2, 4)), "meta": dump({b"fine_label_names": [n.encode() for n in CIFAR100]})}


def write_folder(folder, files):
    folder.mkdir(parents=True)
    for name, data in files.items():
        (folder / name).write_bytes(data)


def write_archive(path, folder, files):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


DUMPS = [python2, *(functools.partial(pickle.dumps, protocol=p) for p in (2, 4, 5))]


@pytest.mark.parametrize("dump", DUMPS)
def test_cifar10_folder(tmp_path, dump):
    write_folder(tmp_path / "cifar-10-batches-py", cifar10_files(dump))
    for place in (tmp_path, tmp_path / "cifar-10-batches-py"):
        train, test = (datasets.load("cifar10", place, split) for split in ("train", "test"))
        assert train.images.shape == (15, 3, 32, 32) and train.images.dtype == np.uint8 and train.labels.dtype == np.int64
        assert test.classes == tuple(CIFAR10)
        expected = [batch(i, 3, 10, b"labels") for i in range(1, 6)]
        assert (train.images.reshape(15, -1) == np.concatenate([b[b"data"] for b in expected])).all()
        assert train.labels.tolist() == sum((b[b"labels"] for b in expected), [])
        assert (test.images[1, 2, 0] == batch(6, 4, 10, b"labels")[b"data"][1, 2048:2080]).all()  # planes R, G, B of rows


@pytest.mark.parametrize("dump", DUMPS[:2])
def test_cifar100_archive(tmp_path, monkeypatch, dump):
    archive = tmp_path / "d" / "cifar-100-python.tar.gz"
    write_archive(archive, "cifar-100-python", cifar100_files(dump))
    test = datasets.load("cifar100", archive.parent, "test")
    assert test.labels.tolist() == batch(2, 4, 100, b"fine_labels")[b"fine_labels"] and test.classes == tuple(CIFAR100)
    assert test.source == str(archive)
    monkeypatch.setenv("FBNN_DATA", str(archive.parent))
    assert datasets.load("cifar100").images.shape == (5, 3, 32, 32)
    assert datasets.load("cifar100", archive, "test").images.shape == (4, 3, 32, 32)


def with_size(path, folder, name, size):
    """An archive whose first member says that it has `size` bytes, and which has them: zeros."""
    with gzip.open(path, "wb", 1) as stream, tarfile.open(fileobj=stream, mode="w:") as archive:
        member = tarfile.TarInfo(f"{folder}/{name}")
        member.size = size
        archive.addfile(member, io.BytesIO(bytes(size)))


def test_an_archive_whose_header_is_endless(tmp_path, monkeypatch):
    """One of names in PAX's form, which tarfile reads whole."""
    member = tarfile.TarInfo("x")
    member.type, member.size = tarfile.XHDTYPE, 2 ** 40
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(gzip.compress(member.tobuf(tarfile.GNU_FORMAT) + bytes(2 ** 20)))
    with pytest.raises(InputError, match="it unpacks to more than 268,435,456 bytes"):
        datasets.load("cifar10", tmp_path, "test")


@pytest.mark.parametrize("name", ["test_batch", "junk"])
def test_an_archive_that_unpacks_to_more_than_the_official_one(tmp_path, monkeypatch, name):
    """It took the memory of its largest member, and the time of all of them."""
    cifar10 = datasets.DATASETS["cifar10"]
    monkeypatch.setitem(datasets.DATASETS, "cifar10", replace(cifar10, archive=replace(cifar10.archive, unpacked=2 ** 20)))
    with_size(tmp_path / "cifar-10-python.tar.gz", "cifar-10-batches-py", name, 2 ** 22)
    with pytest.raises(InputError, match="cannot be read .it unpacks to more than 1,048,576 bytes., expected the official archive"):
        datasets.load("cifar10", tmp_path, "test")
    write_folder(tmp_path / "d" / "cifar-10-batches-py", cifar10_files(python2))
    with open(tmp_path / "d" / "cifar-10-batches-py" / "test_batch", "r+b") as file:
        file.truncate(2 ** 40)
    with pytest.raises(InputError, match="cannot be read .test_batch has more than 1,048,576 bytes., expected the official archive"):
        datasets.load("cifar10", tmp_path / "d", "test")


def test_bytes_after_the_archive(tmp_path, monkeypatch):
    cifar10 = datasets.DATASETS["cifar10"]
    monkeypatch.setitem(datasets.DATASETS, "cifar10", replace(cifar10, archive=replace(cifar10.archive, unpacked=2 ** 18)))
    archive = tmp_path / "cifar-10-python.tar.gz"
    write_archive(archive, "cifar-10-batches-py", cifar10_files(python2))
    with open(archive, "ab") as file:
        file.write(gzip.compress(bytes(2 ** 20)))
    with pytest.raises(InputError, match="it unpacks to more than 262,144 bytes"):
        datasets.load("cifar10", tmp_path, "test")


def test_cache_folder(tmp_path):
    write_archive(files.cache_folder() / "cifar-10-python.tar.gz", "cifar-10-batches-py", cifar10_files(python2))
    assert datasets.load("cifar10", tmp_path / "no such folder", "test").images.shape == (4, 3, 32, 32)


def test_offline_says_which_file_to_put_where(tmp_path):
    cache = tmp_path / "cache" / "fbnn-hw"
    with pytest.raises(InputError) as error:
        datasets.load("cifar10")
    assert str(error.value) == (f"cifar10: not found in {cache}, and the download failed (no network in tests); "
                                f"put cifar-10-python.tar.gz from https://www.cs.toronto.edu/~kriz/ into {cache}")
    with pytest.raises(InputError, match=rf"not found in {tmp_path}/x, {cache}, .* into {tmp_path}/x$"):
        datasets.load("cifar100", tmp_path / "x")
    assert not cache.exists() and not (tmp_path / "x").exists()  # nothing is left of a download that failed


class Touch:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def damage(files, name, **changes):
    values = pickle.loads(files[name])
    values.update({key.encode(): value for key, value in changes.items()})
    return {**files, name: pickle.dumps(values, protocol=2)}


FILES = cifar10_files(pickle.dumps)


@pytest.mark.parametrize("files, message", [
    ({k: v for k, v in FILES.items() if k != "data_batch_3"}, "DIR: has no data_batch_3, expected data_batch_1, data_batch_2, "
     "data_batch_3, data_batch_4, data_batch_5, batches.meta"),
    ({**FILES, "data_batch_1": FILES["data_batch_1"][:2000]}, "DIR/data_batch_1: damaged or not a data set's pickle ("),
    ({**FILES, "data_batch_1": b""}, "DIR/data_batch_1: damaged or not a data set's pickle (Ran out of input), "
     "expected a dict of numpy arrays and lists"),
    ({**FILES, "batches.meta": pickle.dumps([1])}, "DIR/batches.meta: damaged or not a data set's pickle (it holds list), "
     "expected a dict of numpy arrays and lists"),
    (damage(FILES, "batches.meta", label_names=[b"cat"]), "DIR/batches.meta: label_names has 1 names, expected 10"),
    (damage(FILES, "data_batch_2", labels=[1, 2]), "DIR/data_batch_2: labels has 2 entries, expected 3, one for each image"),
    (damage(FILES, "data_batch_2", labels=[1, 2, 10]), "DIR/data_batch_2: labels holds 10, expected 0 to 9"),
    (damage(FILES, "data_batch_2", data=np.zeros((3, 3072))), "DIR/data_batch_2: data is float64 (3, 3072), expected uint8 (n, 3072)"),
    (damage(FILES, "data_batch_2", data=np.zeros((3, 5), np.uint8)), "DIR/data_batch_2: data is uint8 (3, 5), expected uint8 (n, 3072)"),
    (damage(FILES, "data_batch_2", data=[1]), "DIR/data_batch_2: data is list, expected uint8 (n, 3072)"),
    (damage(FILES, "data_batch_2", data=np.array([[{}]], object)), "DIR/data_batch_2: damaged or not a data set's pickle (an array of type "
     "O8), expected a dict of numpy arrays and lists"),
])
def test_damage_is_one_line(tmp_path, files, message):
    folder = tmp_path / "cifar-10-batches-py"
    write_folder(folder, files)
    with pytest.raises(InputError) as error:
        datasets.load("cifar10", tmp_path)
    assert str(error.value).replace(str(folder), "DIR").startswith(message) and "\n" not in str(error.value)


@pytest.mark.parametrize("payload", [Touch, lambda path: {b"data": Touch(path)}])
@pytest.mark.parametrize("protocol", range(6))
def test_pickles_run_no_code(tmp_path, payload, protocol):
    write_folder(tmp_path / "d", {**FILES, "test_batch": pickle.dumps(payload(str(tmp_path / "ran")), protocol=protocol)})
    with pytest.raises(InputError, match=r"test_batch: damaged or not a data set's pickle \(it asks for posix.mkdir\)"):
        datasets.load("cifar10", tmp_path / "d", "test")
    assert not (tmp_path / "ran").exists()


def test_damaged_archives(tmp_path):
    archive = tmp_path / "cifar-10-python.tar.gz"
    write_archive(archive, "cifar-10-batches-py", FILES)
    whole = archive.read_bytes()
    for data in (whole[:len(whole) // 2], b"", b"not a tar", whole[:500] + bytes(100) + whole[600:]):
        archive.write_bytes(data)
        with pytest.raises(InputError, match=rf"^{archive}[:/].*(cannot be read|damaged)") as error:
            datasets.load("cifar10", tmp_path)
        assert "\n" not in str(error.value)


def test_an_archive_whose_member_has_a_map_of_no_numbers(tmp_path):
    """Tarfile raises ValueError there, not an error of its own."""
    archive = tmp_path / "cifar-10-python.tar.gz"
    member = tarfile.TarInfo("cifar-10-batches-py/batches.meta")
    member.size, member.pax_headers = 512, {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "9"}
    with tarfile.open(archive, "w:gz", format=tarfile.PAX_FORMAT) as file:
        file.addfile(member, io.BytesIO(b"one\n" + bytes(508)))
    with pytest.raises(InputError, match=rf"^{archive}: cannot be read \(invalid literal for int.*\), expected the official archive"):
        datasets.load("cifar10", tmp_path)


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Serves tmp_path/www at 127.0.0.1, cifar10 pointed at it; the right archive lies there."""
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    archive = tmp_path / "www" / "cifar-10-python.tar.gz"
    write_archive(archive, "cifar-10-batches-py", FILES)

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=archive.parent))
    threading.Thread(target=httpd.serve_forever, daemon=True).start()
    real = datasets.DATASETS["cifar10"]
    url = f"http://127.0.0.1:{httpd.server_address[1]}/cifar-10-python.tar.gz"
    published = replace(real.archive, url=url, md5=hashlib.md5(archive.read_bytes()).hexdigest())
    monkeypatch.setitem(datasets.DATASETS, "cifar10", replace(real, archive=published))
    yield archive
    httpd.shutdown()
    httpd.server_close()


class Bar:
    done = 0

    def __init__(self, **kwargs):
        self.options = kwargs

    def update(self, count):
        self.done += count

    def close(self):
        self.closed = True


def test_download(tmp_path, server):
    bars = []
    images = datasets.load("cifar10", None, "test", progress=lambda **kw: bars.append(Bar(**kw)) or bars[-1])
    assert images.images.shape == (4, 3, 32, 32)
    assert os.listdir(tmp_path / "cache" / "fbnn-hw") == ["cifar-10-python.tar.gz"]
    assert bars[0].done == bars[0].options["total"] == server.stat().st_size and bars[0].closed
    server.unlink()
    assert datasets.load("cifar10").images.shape == (15, 3, 32, 32)


def test_download_with_a_wrong_checksum_leaves_nothing(tmp_path, server):
    server.write_bytes(server.read_bytes() + b"\0")
    with pytest.raises(InputError, match="md5 is [0-9a-f]{32}, expected [0-9a-f]{32}; try again$"):
        datasets.load("cifar10", tmp_path / "here")
    assert os.listdir(tmp_path / "here") == []


@pytest.mark.parametrize("place", ["file", "file/sub"])
def test_a_download_into_a_file_is_one_line(tmp_path, server, place):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="^cifar10: "):
        datasets.download(datasets.DATASETS["cifar10"], tmp_path / place)


def test_interrupted_download_leaves_nothing(tmp_path, server):
    def interrupt(**kwargs):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        datasets.load("cifar10", tmp_path / "here", progress=interrupt)
    assert os.listdir(tmp_path / "here") == []


def test_two_runs_may_download_at_once(tmp_path, server):
    """Each from its first byte to its last while the other has begun."""
    begun = multiprocessing.get_context("fork").Barrier(2)

    class Together(Bar):
        def update(self, count):
            begun.wait(30)

    def load(results):
        try:
            results.put(datasets.load("cifar10", tmp_path / "here", progress=Together).images.shape)
        except InputError as error:
            results.put(error)

    results = multiprocessing.get_context("fork").Queue()
    runs = [multiprocessing.get_context("fork").Process(target=load, args=(results,)) for _ in range(2)]
    for run in runs:
        run.start()
    assert [results.get(timeout=60) for _ in runs] == [(15, 3, 32, 32)] * 2
    for run in runs:
        run.join()
    assert os.listdir(tmp_path / "here") == ["cifar-10-python.tar.gz"]


def test_fixture():
    images = datasets.load("fixture", None, "test")
    assert images.images.shape == (300, 3, 32, 32) and images.images.dtype == np.uint8 and images.classes == tuple(CIFAR10)
    assert np.bincount(images.labels).tolist() == [36, 24, 27, 29, 23, 28, 34, 27, 37, 35]
    assert hashlib.sha256(images.images.tobytes()).hexdigest() == "8b59cf892152243fa292630f1beeb43c38b95fdd012dd152b31738b5b3da8331"
    assert datasets.DATASETS["fixture"].overlap


def test_select():
    images = datasets.load("fixture")
    two = images.select(("dog", "cat"))
    assert two.classes == ("dog", "cat") and len(two.labels) == 57
    assert (two.images[two.labels == 0] == images.images[images.labels == 5]).all()
    with pytest.raises(UsageError, match="^--classes cow: no such class, expected some of airplane, automobile, "):
        images.select(("cow",))
    with pytest.raises(UsageError, match="^--classes cat,cat: expected each class once$"):
        images.select(("cat", "cat"))


def test_thinned():
    images = datasets.load("fixture")
    few = images.thinned(3)
    assert np.bincount(few.labels).tolist() == [3] * 10 and (images.thinned(23).labels == 4).sum() == 23
    cats = np.flatnonzero(images.labels == 3)  # 29 of them
    assert (few.images[few.labels == 3] == images.images[cats[[0, 9, 19]]]).all()
    with pytest.raises(UsageError, match="^--images 24: class deer has 23, expected at most that many$"):
        images.thinned(24)


def test_unknown_names():
    expected = "cifar10, cifar100, fixture, stl10, core50, omniglot, omniglot-background, tiny"
    with pytest.raises(UsageError, match=f"^--data mnist: no such data set, expected one of {expected}$"):
        datasets.load("mnist")
