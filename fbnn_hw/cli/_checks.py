"""What the checks of `fbnn-hw doctor` are made of: a probe returns what it found, or raises `Missing`."""

import importlib
import importlib.metadata
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import ToolError
from ._common import one_line

PLATFORMS = {"debian": "Debian, Ubuntu", "fedora": "Fedora", "macos": "macOS", "windows": "Windows"}


class Missing(Exception):
    """Raised by a probe: what it found in place of what is needed, in a few words."""


@dataclass(frozen=True)
class Check:
    """One entry of the table."""

    name: str  # of what is looked for
    used_for: str  # what needs it
    probe: Callable  # returns a text or raises `Missing`
    fix: dict  # {platform: command}
    needed: bool = True  # without it the exit code is 5


def everywhere(command: str) -> dict[str, str]:
    return dict.fromkeys(PLATFORMS, command)


def package(distribution: str, module: str | None = None, more: Callable[[], str | None] = str) -> Callable[[], str]:
    """Probe of an installed package: its version, after an import where that is cheap, and what `more` says; ToolError: what it lacks."""

    def probe():
        try:
            version = importlib.metadata.version(distribution)
            if module:
                importlib.import_module(module)
        except importlib.metadata.PackageNotFoundError:
            raise Missing("not installed") from None
        except Exception as error:
            raise Missing(f"{version} does not import: {one_line(f'{type(error).__name__}: {error}')}") from None
        with suppress(ImportError):
            from packaging.requirements import Requirement

            versions = Requirement(requirement(distribution)).specifier
            if not versions.contains(version, prereleases=True):
                raise Missing(f"{version}, expected {versions}")
        try:
            return ", ".join(filter(None, (version, more())))
        except ToolError as error:
            raise Missing(f"{version}: {error}") from None

    return probe


def requirement(distribution: str) -> str:
    """Return the requirement that this package states for `distribution`, such as "torch<2.14,>=2.6".

    Where fbnn-hw is not installed, it is the name alone.
    """
    try:
        requirements = importlib.metadata.requires("fbnn-hw") or ()
    except importlib.metadata.PackageNotFoundError:
        requirements = ()
    return next((text.split(";")[0].strip() for text in requirements if re.split(r"[^\w-]", text)[0] == distribution), distribution)


def output(command: str, *flags: str) -> str:
    """First line that a command prints."""
    try:
        process = subprocess.run([command, *flags], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{command} does not run ({error.__class__.__name__})") from None
    text = (process.stdout or process.stderr).strip().split("\n")[0]
    if process.returncode:
        raise Missing(f"{command} fails: {text}")
    return text


def tool(*names: str, flag: str = "--version") -> Callable[[], str]:
    """Probe of a command on PATH, the first of several names."""

    def probe():
        for name in names:
            if path := shutil.which(name):
                return f"{output(path, flag)} ({path})"
        raise Missing(f"no {' or '.join(names)} on PATH")

    return probe


def pip(distribution: str) -> dict[str, str]:
    return everywhere(f"{Path(sys.executable).name} -m pip install '{requirement(distribution)}'")
