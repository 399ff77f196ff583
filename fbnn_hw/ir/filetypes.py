"""Files that are no checkpoint: what each is, and which command takes it (docs/networks.md).  Nothing in it is run or unpacked."""

from collections.abc import Iterable
from pathlib import Path

from ..base.errors import show

EXPORT = "fbnn_hw.export(module, example, FILE) in Python makes a checkpoint of a module"
STATE = f"{EXPORT} that has loaded it"
IMPORT = "fbnn-hw import {} --out mine.pt makes one of it"
OTHER = "fbnn-hw import takes an ONNX file of the network, and fbnn-hw help checkpoint says how to write a checkpoint"
NONE = "fbnn-hw train makes a checkpoint"
UNPACK = "unpack it, and name what it holds"

BEGINNINGS = (
    (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19", "is a file of torch.save in the format before torch 1.6", EXPORT),
    (b"\x89HDF\r\n\x1a\n", "is an HDF5 file, as Keras writes it", OTHER),
    (b"GGUF", "is a GGUF file of llama.cpp", OTHER),
    (b"\x93NUMPY", "is a numpy array", OTHER),
    (b"\x1f\x8b", "is compressed by gzip", UNPACK),
    (b"BZh", "is compressed by bzip2", UNPACK),
    (b"\xfd7zXZ\0", "is compressed by xz", UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "is a 7z archive", UNPACK),
    (b"Rar!", "is a RAR archive", UNPACK),
    (b"version https://git-lfs", "is the pointer of a file in Git LFS", "git lfs pull fetches the file itself"),
    (b"<", "is a web page or XML", "download the file itself"),
    (b"{", "is JSON text", "docs/ir.md says how network.json, the network of a design, becomes a checkpoint"),
    (b"\x89PNG", "is a picture", NONE),
    (b"\xff\xd8\xff", "is a picture", NONE))
"""(first bytes, what the file is, the way out)."""
LATER = (4, b"TFL3", "is a TensorFlow Lite file", OTHER), (257, b"ustar", "is a tar archive", UNPACK)
"""The same of files whose mark has an offset, which comes first."""

TORCH_ENTRIES = {"constants.pkl": ("is TorchScript", EXPORT), "archive_format": ("is a program of torch.export", EXPORT),
                 "serialized_exported_program.json": ("is a program of torch.export", EXPORT)}
"""The entries of a zip archive that another part of PyTorch than torch.save writes."""


def is_onnx(data: bytes) -> bool:
    """Whether `data`, the beginning of a file, is that of an ONNX model: its first field is the version, a small number."""
    return len(data) > 2 and data[:1] == b"\x08" and 3 <= data[1] < 32 and not _is_safetensors(data)


def _is_safetensors(data):
    """Whether `data`, the beginning of a file, is the length of a JSON text and its first characters."""
    return data[8:10] == b'{"' and int.from_bytes(data[:8], "little") < 1 << 27


def words(what: str, door: str) -> str:
    return f"{what}, expected a checkpoint; {door}"


def by_beginning(data: bytes) -> str:
    """Say what a file is and which command takes it, by its first 600 bytes; "" where they do not tell, and for a zip archive."""
    if is_onnx(data):
        return words("is an ONNX file", IMPORT.format("FILE"))
    if _is_safetensors(data):  # before the others: its first byte is that of a length
        return words("is a safetensors file, weights without their network", STATE)
    for offset, start, what, door in [*((0, *each) for each in BEGINNINGS), *LATER]:
        if data.startswith(start, offset):
            return words(what, door)
    if len(data) > 1 and data[0] == 0x80 and 2 <= data[1] <= 5:
        return words("is a pickle of Python, which nothing here runs", EXPORT)
    return ""


def by_entries(names: Iterable[str]) -> str:
    """Say what a zip archive is and which command takes it, by the names of its entries; "" where torch.save wrote it."""
    names = list(names)
    for name in names:
        if name.split("/")[-1] in TORCH_ENTRIES:
            return words(*TORCH_ENTRIES[name.split("/")[-1]])
    if {"config.json", "model.weights.h5"} <= {*names}:
        return words("is a model of Keras", OTHER)
    if any(name.endswith(("/data.pkl", "/byteorder")) for name in names):
        return ""
    if names and all(name.endswith(".npy") for name in names):
        return words(f"holds numpy arrays, {listed(names)}", OTHER)
    return words(f"is a zip archive of {listed(names)}, which torch.save did not write" if names else "is an empty zip archive", UNPACK)


def by_folder(path: Path) -> str:
    """Say what a folder is and which command takes it; "" where nothing tells."""
    if (path / "0-0-weights.bin").is_file():
        return words("is a folder of FINN's parameters", IMPORT.format("FOLDER"))
    if (path / "saved_model.pb").is_file():
        return words("is a SavedModel of TensorFlow", OTHER)
    if (path / "network.json").is_file():
        return words("is the folder of a design", "name the checkpoint that it was generated from")
    return ""


def listed(names: list[str]) -> str:
    """The first two names, fit for a line."""
    return ", ".join(map(show, names[:2])) + ", ..." * (len(names) > 2)
