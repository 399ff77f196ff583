"""The import graph, read from the sources: docs/architecture.md, section "Layers of the code"."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fbnn_hw"

# Each part may import itself and these.
IR = {"base", "ir"}
MACHINE = IR | {"reference", "machine"}
ALLOWED = {
    "__init__": {"base"},
    "__main__": {"cli"},
    "base": set(),
    "ir": {"base"},
    "data": {"base"},
    "reference": IR,
    "foreign": IR,
    "machine": IR | {"reference"},
    "nn": IR | {"foreign"},
    "targets": {"base", "machine"},
    "rtl": MACHINE,
    "link": {"base", "reference", "machine"},
    "report": {"base", "ir", "machine"},
    "train": IR | {"nn", "data", "reference"},
    "compile": IR | {"machine", "targets"},
    "fpga": {"base", "machine", "targets", "rtl"},
    "simulate": MACHINE | {"rtl", "targets", "link"},
    "design": MACHINE | {"data", "targets", "rtl", "report", "compile", "simulate", "__init__"},
    "board": MACHINE | {"data", "link", "design", "simulate"},
    "litex": {"base", "machine", "design"},
    "studio": {"base", "data", "machine", "link", "design"},
    "cli": MACHINE | {"foreign", "compile", "targets", "rtl", "fpga", "simulate", "link", "report", "nn", "data",
                      "train", "design", "board", "studio", "__init__"},
}
TORCH = {"nn", "train"}
TORCH_FILES = {"data/augment.py", "cli/train.py", "cli/_common.py"}
TORCH_FREE = {"nn/__init__.py",  # and what the command line reads before it is known whether torch is there
              *(f"train/{name}.py" for name in ("__init__", "config", "cil_config", "learner", "memorizer", "metrics",
                                                "results", "scenarios", "sweep"))}


def sources():
    return sorted(PACKAGE.rglob("*.py"))


def part(path):
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def imports(path):
    """Absolute dotted names that `path` imports, anywhere in it; a name imported from a package counts as its module."""
    names = set()
    package = ("fbnn_hw", *path.relative_to(PACKAGE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[:len(package) - node.level + 1] if node.level else ()
            base = ".".join([*base, *([node.module] if node.module else [])])
            names |= {f"{base}.{alias.name}" for alias in node.names}
    return names


def targets(path):
    """Parts of the package that `path` imports."""
    parts = {name.split(".")[1] if "." in name else "__init__" for name in imports(path) if name.split(".")[0] == "fbnn_hw"}
    rooms = {part(p) for p in sources()}
    return {name if name in rooms else "__init__" for name in parts}


def name(path):
    return str(path.relative_to(PACKAGE))


@pytest.mark.parametrize("path", sources(), ids=name)
def test_imports_point_one_way(path):
    assert part(path) in ALLOWED, f"{name(path)}: a new part of the package; say in ALLOWED what it may import"
    wrong = targets(path) - ALLOWED[part(path)] - {part(path)}
    assert not wrong, f"{name(path)} imports {', '.join(sorted(wrong))}"


def level(room):
    """0 for a room that imports nothing, else one above the highest room that it may import."""
    return 1 + max(map(level, ALLOWED[room] - {"__init__"}), default=-1)


def test_the_drawing_shows_what_is_allowed():
    text = (ROOT / "docs" / "architecture.md").read_text().split("### Layers of the code")[1].split("\n## ")[0]
    drawing, table = (re.findall(pattern, text, re.MULTILINE) for pattern in (r"^    (\S.*)$", r"^\| (`.*?) \|"))
    drawn = {room: number for number, line in enumerate(reversed(drawing)) for room in line.split()}
    rooms = ALLOWED.keys() - {"__init__", "__main__"}
    assert drawn == {room: level(room) for room in rooms}
    assert sorted(room for cell in table for room in re.findall(r"`(\w+)`", cell)) == sorted(rooms)


@pytest.mark.parametrize("path", sources(), ids=name)
def test_torch_stays_where_training_is(path):
    torch = any(i.split(".")[0] == "torch" for i in imports(path))
    allowed = name(path) in TORCH_FILES or (part(path) in TORCH and name(path) not in TORCH_FREE)
    assert not torch or allowed, f"{name(path)} imports torch"


def test_the_package_itself_is_light():
    program = "import sys, fbnn_hw; sys.exit(bool({'torch', 'numpy', 'amaranth'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0


def test_parts_that_the_documentation_names_come_with_the_package():
    program = "import fbnn_hw; fbnn_hw.errors.InputError, fbnn_hw.foreign.read"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0


@pytest.mark.parametrize("module", ["board", "cli", "cli._common", "ir.models", "ir.checkpoint", "ir.file", "reference.inference",
                                    "ir.shipped"])
def test_importing_these_does_not_load_torch(module):
    program = f"import sys, fbnn_hw.{module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT).returncode == 0


def test_tests_and_simulation_are_not_imported_by_the_package():
    for path in sources():
        assert not {i.split(".")[0] for i in imports(path)} & {"tests", "sim", "boards"}, name(path)


@pytest.mark.parametrize("path", sources(), ids=name)
def test_no_function_is_longer_than_a_screen(path):
    functions = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.FunctionDef)]
    assert not [f.name for f in functions if f.end_lineno - f.lineno >= 80]


def test_programs_of_the_pages_need_no_command_line():
    for path in (ROOT / "docs").rglob("*.py"):
        nodes = [node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Import | ast.ImportFrom)]
        names = {f"{getattr(node, 'module', '')}.{alias.name}" for node in nodes for alias in node.names}
        assert not [each for each in names if "fbnn_hw.cli" in each], path


COMPONENTS = [(path, node) for path in sources() if part(path) == "rtl" for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
              if isinstance(node, ast.ClassDef) and any(ast.unparse(base).endswith(("Component", "Elaboratable")) for base in node.bases)]


@pytest.mark.parametrize("path, component", COMPONENTS, ids=[component.name for _, component in COMPONENTS])
def test_a_component_says_what_a_user_of_it_asks(path, component):
    """Its timing, its parameters but a configuration, and what its members are, beside the signature."""
    headings = re.findall(r"^(\w+)(?:\n-+$|:)", ast.get_docstring(component), re.MULTILINE)
    init = next(node for node in component.body if getattr(node, "name", "") == "__init__")
    assert "Timing" in headings
    assert "Parameters" in headings or [each.arg for each in init.args.args] == ["self", "config"]
    signature = path.read_text(encoding="utf-8").splitlines()[init.lineno:init.end_lineno]
    assert "Members" in headings or any("  # " in line for line in signature)


@pytest.mark.parametrize("path", [path for path in sources() if part(path) == "rtl"], ids=name)
def test_each_signal_has_a_line(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert not [line for line in lines if len(re.findall(r"\b(?:Signal|unnamed|Signal\.like)\(", line)) > 1]


def functions(text):
    """{name: ast.FunctionDef} of a file; functions within others too."""
    return {node.name: node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}


RTL = {name(path): path.read_text(encoding="utf-8") for path in sources() if part(path) == "rtl"}


@pytest.mark.parametrize("path", [path for path, text in RTL.items() if re.search("_signals\\(|Part of `", text)])
def test_the_signals_of_a_namespace_are_declared_in_one_place(path):
    """Of a component with a function `_signals`, or with such an ending, and of its chapters: `s.x = Signal()` stands there alone."""
    for function in functions(RTL[path]).values():
        made = [ast.unparse(node) for node in ast.walk(function) if isinstance(node, ast.Assign)
                and any(ast.unparse(target).startswith("s.") for target in node.targets)
                and re.search(r"\b(?:Signal|unnamed|Signal\.like)\(", ast.unparse(node.value))]
        assert not made or function.name.endswith("_signals"), (path, function.name, made)


def test_the_drivers_that_a_declaration_names_are_there():
    everywhere, named = set().union(*map(functions, RTL.values())), 0
    for path, text in RTL.items():
        for function in functions(text).values():
            if function.name.endswith("_signals"):
                drivers = re.findall(r"`(_\w+)`", ast.get_source_segment(text, function))
                assert not set(drivers) - everywhere, (path, function.name)
                named += len(drivers)
    assert named > 50
