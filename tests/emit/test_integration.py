"""What lies beside accelerator.v for a designer: a template that compiles, a clock, a core file that names files that are there."""

import re
import subprocess
from pathlib import Path

import pytest

from fbnn_hw import design
from fbnn_hw.emit import integration, simulator
from tests import strategies


@pytest.fixture(scope="module", params=["ice40", "generic"])
def folder(request, tmp_path_factory):
    return design.generate(strategies.smallest(), request.param, out=tmp_path_factory.mktemp(request.param)).folder


def test_the_template_names_every_port_once(folder):
    """Verilator, with all warnings as errors but those of the accelerator itself."""
    template, verilog = (folder / "instance.v").read_text(), (folder / "accelerator.v").read_text()
    found = integration.ports(verilog)
    assert {"clk", "rst", "pixels__payload", "pixels__valid", "pixels__ready", "logits__payload", "busy"} <= {name for _, _, name in found}
    top = folder / "top.v"
    top.write_text(f"module top;\n{template}endmodule\n")
    executable, root = simulator.verilator()
    models = [str(path) for path in (folder / "SB_SPRAM256KA.v",) if path.exists()]
    flags = "-Wno-fatal", "-Wno-UNDRIVEN", "-Wno-UNUSED"
    sources = str(top), str(folder / "accelerator.v"), *models
    done = subprocess.run([executable, "--lint-only", "-Wall", *flags, "--top-module", "top", *sources],
                          env={"VERILATOR_ROOT": str(root)}, capture_output=True, text=True)
    assert done.returncode == 0 and not re.search(r"(PINMISSING|PINNOTFOUND|WIDTH\w*|IMPLICIT): [^\n]*top\.v", done.stderr), done.stderr
    top.unlink()


def test_the_clock_is_the_targets(folder):
    period = float(re.search(r"-period ([\d.]+) ", (folder / "accelerator.sdc").read_text())[1])
    assert period == pytest.approx(1e9 / design.Design(folder).estimate["clock_hz"], abs=1e-3)


def test_the_core_names_files_that_are_there(folder):
    core = (folder / "accelerator.core").read_text()
    files = re.findall(r"^      - ([\w.]+\.(?:v|hex|sdc))", core, re.MULTILINE)
    assert core.startswith("CAPI=2:\nname: fbnn-hw:designs:") and {"accelerator.v", "accelerator.sdc"} <= set(files)
    assert all((folder / Path(name)).is_file() for name in files)
    assert ("weights.hex" in files) == ("fbnn_weight_memory" in (folder / "accelerator.v").read_text())


def test_every_folder_has_a_core_of_its_own_name(folder):
    """FuseSoC takes any of the cores of one name.  Folders differ in the model, the target, and an id of weights and hardware."""
    named = re.search("^name: fbnn-hw:designs:(.*):[0-9.]+$", (folder / "accelerator.core").read_text(), re.MULTILINE)[1]
    assert named == re.sub("[.-]", "_", folder.name) and named.startswith("smallest_2c_")


def test_lint_of_the_core_has_every_module(folder, tmp_path):
    """The Verilog of the filesets of `lint`, from another folder, as FuseSoC runs it."""
    core = (folder / "accelerator.core").read_text()
    used = re.search(r"^  lint:\n    filesets: \[([\w, ]+)\]", core, re.MULTILINE)[1].split(", ")
    sets = dict(re.findall(r"^  (\w+):\n    file_type: verilogSource\n    files:\n((?:      - .*\n)+)", core, re.MULTILINE))
    names = [name for fileset in used for name in re.findall(r"- ([\w.]+\.v)$", sets[fileset], re.MULTILINE)]
    assert "models" not in re.search(r"^  default:\n    filesets: (.*)", core, re.MULTILINE)[1]
    executable, root = simulator.verilator()
    done = subprocess.run([executable, "--lint-only", "-Wno-fatal", "--top-module", "accelerator", *(str(folder / name) for name in names)],
                          env={"VERILATOR_ROOT": str(root)}, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
