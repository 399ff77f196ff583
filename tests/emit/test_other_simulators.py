"""A design in Icarus, in the dialects of 2005 and 2012, and every file of it in slang.

A reset is high from time 0, or there is none, and registers begin with their initial values.  Bits and cycles are the reference's.
"""

import shutil
import subprocess

import numpy as np
import pytest

from fbnn_hw import design
from fbnn_hw.design.integration import AXI_STREAM, WRAPPERS
from fbnn_hw.machine.protocol import Command
from fbnn_hw.machine.registers import BY_NAME, LOGITS
from fbnn_hw.reference import inference
from fbnn_hw.simulate.bench import bench
from tests import strategies
from tests.quick import quick, slow

IMAGES, LABEL = 2, 2
BARE = """`timescale 1ns / 1ps
module drive;
    reg clk = 0, rst = {reset};
    reg [1:0] ask = 0;
    reg [31:0] images = {first};
    wire [31:0] frames;
    wire answered, refused;
    always #5 clk = !clk;
    testbench bench (.clk(clk), .rst(rst), .images(images), .stall(1'b0), .want_latent(1'b0), .ask(ask), .request(64'd{request}),
                     .answered(answered), .refused(refused), .frames(frames));
    initial #40 rst = 0;
    always @(posedge clk) begin
        if (frames == 1 && images == 1) begin  // what it learns is the first image
            ask <= answered ? 0 : 1;
            if (answered) images <= {images};
        end
        if (frames == {images}) begin
            if (refused !== 1'b0 && {first} == 1) $display("refused");
            $finish;
        end
    end
    initial #({cycles} * 10) $finish;
endmodule
"""
"""`testbench`; a design that learns is asked to between its two images."""
AXI = """`timescale 1ns / 1ps
module drive;
    reg clk = 0, running = {running};
    always #5 clk = !clk;
    initial #40 running = 1;
`include "instance_axis.v"
    assign aclk = clk;
    assign aresetn = running;
    assign want_latent = 0;
    assign m_axis_logits_tready = 1;
    assign m_axis_result_tready = 1;
    assign m_axis_latent_tready = 1;
    reg [7:0] pixels [0:{pixels} - 1];
    initial $readmemh("images.hex", pixels);
    integer pixel = 0;
    assign s_axis_image_tdata = pixels[pixel];
    assign s_axis_image_tvalid = running && pixel < {pixels};
    assign s_axis_image_tlast = pixel % {image} == {image} - 1;
{others}
    integer file, results = 0;
    initial file = $fopen("results.txt", "w");
    always @(posedge clk) if (running) begin
        if (s_axis_image_tvalid && s_axis_image_tready) pixel <= pixel + 1;
        if (m_axis_logits_tvalid) $fwrite(file, "%0d\\n", $signed(m_axis_logits_tdata));
        if (m_axis_result_tvalid) begin
            $fflush(file);
            results <= results + 1;
            if (results + 1 == {images}) $finish;
        end
    end
    initial #({cycles} * 10) $finish;
endmodule
"""
WEIGHTS = """    reg [7:0] weights [0:{total} - 1];
    initial $readmemh("weights.hex", weights);
    integer weight = 0;
    assign s_axis_weights_tdata = weights[weight];
    assign s_axis_weights_tvalid = running;
    always @(posedge clk) if (running && s_axis_weights_tready) weight <= weight + 1 == {total} ? {boot} : weight + 1;
"""


BUS = """`timescale 1ns / 1ps
module drive;
    reg clk = 0, rst = {reset}, ask = 0, write = 0;
    reg [31:0] address = 0, data = 0, got = 0;
    always #5 clk = !clk;
    initial #40 rst = 0;
`include "instance_{end}.v"
{wires}
    reg [31:0] pixels [0:{words} - 1];
    initial $readmemh("pixels.hex", pixels);
    integer file, word, logit;
    initial begin
        file = $fopen("results.txt", "w");
        #100 @(negedge clk);
        for (word = 0; word < {words}; word = word + 1) begin
            got = 0;
            while (!(got & {room})) access(0, {status}, 0);
            access(1, {payload}, pixels[word]);
            if (word % {image} == {image} - 1) begin
                got = 0;
                while (!(got & {done})) access(0, {status}, 0);
                for (logit = 0; logit < {classes}; logit = logit + 1) begin
                    access(0, {logits} + 4 * logit, 0);
                    $fdisplay(file, "%0d", $signed(got));
                end
                access(1, {status}, {done});
            end
        end
        $fflush(file);
        $finish;
    end
    initial #({cycles} * 20) $finish;
endmodule
"""
"""Images through a register bus, word by word as registers.md has it."""
WIRES = {"wb": """    assign {wb_clk_i, wb_rst_i} = {clk, rst};
    assign {wb_cyc_i, wb_stb_i, wb_we_i, wb_sel_i} = {ask, ask, write, 4'hf};
    assign wb_adr_i = address;
    assign wb_dat_i = data;
    task access(input writes, input [31:0] where, input [31:0] what); begin
        {ask, write} = {1'b1, writes};
        address = where;
        data = what;
        while (wb_ack_o !== 1) @(negedge clk);
        got = wb_dat_o;
        @(posedge clk) #1 ask = 0;
        @(negedge clk);
    end endtask""", "axil": """    reg asked = 0, filled = 0;
    assign {aclk, aresetn} = {clk, !rst};
    assign s_axi_awaddr = address;
    assign s_axi_araddr = address;
    assign s_axi_wdata = data;
    assign s_axi_wstrb = 4'hf;
    assign {s_axi_awvalid, s_axi_wvalid, s_axi_arvalid} = {ask && write && !asked, ask && write && !filled, ask && !write && !asked};
    assign {s_axi_bready, s_axi_rready} = 2'b11;
    always @(posedge clk) begin
        asked <= ask && (asked || s_axi_awvalid && s_axi_awready || s_axi_arvalid && s_axi_arready);
        filled <= ask && (filled || s_axi_wvalid && s_axi_wready);
    end
    task access(input writes, input [31:0] where, input [31:0] what); begin
        {ask, write} = {1'b1, writes};
        address = where;
        data = what;
        while ((writes ? s_axi_bvalid : s_axi_rvalid) !== 1) @(negedge clk);
        got = s_axi_rdata;
        @(posedge clk) #1 ask = 0;
        repeat (2) @(negedge clk);
    end endtask"""}
"""{end of a wrapper's name: its ports, and an access}."""


DESIGNS = [f"{target}{learn}" for target in ("generic", "ice40", "ecp5", "gowin") for learn in ("", "-learn")]
QUICK = [name for name in DESIGNS if name not in ("ecp5-learn", "gowin-learn")]
MODES = [(mode, reset) for mode in ("-g2005", "-g2012") for reset in (False, True)]
TURNS = ("-g2005", True), ("-g2012", False)
SHAPE = {"pixels": 4, "lanes": 16, "outputs": 4}


@pytest.fixture(scope="module", params=slow(DESIGNS, "ecp5-learn", "gowin-learn"))
def made(request, tmp_path_factory):
    target, _, learn = request.param.partition("-")
    network = strategies.smallest_learner() if learn else strategies.smallest()
    options = {"max_classes": 4, "exemplars": 3} if learn else {}
    return design.generate(network, target, learn=bool(learn), wrapper="axi-stream", out=tmp_path_factory.mktemp(target), **SHAPE,
                           **options)


def icarus(made, work, mode, text, sources):
    """Run module `drive`, whose text that is, beside the sources of a folder; returns what it printed."""
    program = shutil.which("iverilog")
    if not program:
        pytest.skip("no Icarus on PATH; Debian: apt-get install iverilog")
    bench.write_images(work, made_images(made))
    for name in ("weights.hex", "layout.json"):
        shutil.copy(made.folder / name, work)
    (work / "drive.v").write_text(text)
    sources = [made.folder / name for name in (*sources, "accelerator.v", "SB_SPRAM256KA.v") if (made.folder / name).exists()]
    done = subprocess.run([program, mode, "-I", made.folder, "-s", "drive", "-o", work / "drive.vvp", work / "drive.v", *sources],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([shutil.which("vvp"), "-n", work / "drive.vvp"], cwd=work, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def made_images(made):
    return np.load(made.folder / "golden.npz")["images"][:IMAGES]


def cases(names, turn):
    """Each of the names in each dialect, with a reset and without; the quick ones take turns, the other way about with the other turn."""
    chosen = [(name, *TURNS[(place + turn) % 2]) for place, name in enumerate(one for one in names if one in QUICK)]
    return quick([(name, *mode) for name in names for mode in MODES], *chosen)


@pytest.mark.parametrize("made, mode, reset", cases(DESIGNS, 0), indirect=["made"])
def test_the_testbench_of_a_folder_in_icarus(made, mode, reset, tmp_path):
    """Every layer of both images and the cycles; a design that learns gives the second one's logits as the reference that learned."""
    estimate, learns, images = made.estimate, made.config.learning is not None, made_images(made)
    text = BARE.format(reset=int(reset), images=IMAGES, first=1 if learns else IMAGES, request=Command.LEARN | LABEL << 3,
                       cycles=20 * estimate["first_cycles"])
    printed = icarus(made, tmp_path, mode, text, ["testbench.v"])
    assert "refused" not in printed
    golden = np.load(made.folder / "golden.npz")
    expected = {name[7:]: golden[name][:IMAGES] for name in golden.files if name.startswith("expect_")}
    if not learns:
        run = bench.compare(tmp_path, expected)
        assert not run.differences and run.first == estimate["first_cycles"] and run.periods == [estimate["cycles"]]
        return
    twin, latents = made.learner(), inference.layers(made.network, images)["latent"].reshape(IMAGES, -1)
    wanted = twin.logits(latents[:1])[0].tolist()
    twin.learn(latents[:1], [LABEL])
    wanted += twin.logits(latents[1:])[0].tolist()
    assert [int(line.split()[1]) for line in (tmp_path / "results.txt").read_text().splitlines() if line.startswith("logit ")] == wanted


@pytest.mark.parametrize("made, mode, reset", cases(DESIGNS, 1), indirect=["made"])
def test_the_axi_stream_wrapper_in_icarus(made, mode, reset, tmp_path):
    """By its template, `instance_axis.v`."""
    config, manifest = made.config, made.manifest
    others = ""
    if config.weights == "stream":
        total = manifest["boot_bytes"] + manifest["frame_bytes"]
        others += WEIGHTS.format(total=total, boot=manifest["boot_bytes"])
    if config.learning:
        others += "    assign s_axis_command_tvalid = 0;\n    assign s_axis_host_tvalid = 0;\n    assign m_axis_host_tready = 1;\n"
    text = AXI.format(running=int(not reset), images=IMAGES, image=config.image_bytes, pixels=IMAGES * config.image_bytes, others=others,
                      cycles=20 * made.estimate["first_cycles"])
    icarus(made, tmp_path, mode, text, [f"{AXI_STREAM}.v"])
    found = [int(line) for line in (tmp_path / "results.txt").read_text().split()]
    assert found == inference.logits(made.network, made_images(made)).ravel().tolist()


@pytest.mark.parametrize("wrapper, mode, reset", quick(
    [(wrapper, *mode) for wrapper in ("wishbone", "axi-lite") for mode in MODES], ("wishbone", *TURNS[0]), ("axi-lite", *TURNS[1])))
def test_a_register_bus_in_icarus(wrapper, mode, reset, tmp_path):
    """Two images through a learner's registers, and slang on its files."""
    made = design.generate(strategies.smallest_learner(), "generic", learn=True, max_classes=4, exemplars=3, wrapper=wrapper, out=tmp_path,
                           **SHAPE)
    end, images, status = WRAPPERS[wrapper][0].removeprefix("accelerator_"), made_images(made), BY_NAME["STATUS"]
    masks = {field.name: field.mask for field in status.fields}
    words = np.concatenate([np.frombuffer(data + bytes(-len(data) % 4), "<u4") for data in made.pixels(images)])
    (tmp_path / "pixels.hex").write_text("\n".join(f"{word:08x}" for word in words))
    text = BUS.format(reset=int(reset), end=end, wires=WIRES[end], words=len(words), image=len(words) // IMAGES, room=masks["ROOM"],
                      done=masks["DONE"], status=status.offset, payload=BY_NAME["PIXELS"].offset, logits=LOGITS,
                      classes=len(made.classes), cycles=20 * made.estimate["first_cycles"])
    icarus(made, tmp_path, mode, text, [f"accelerator_{end}.v"])
    found = [int(line) for line in (tmp_path / "results.txt").read_text().split()]
    assert found == inference.logits(made.network, images).ravel().tolist()
    (tmp_path / "top.v").write_text(f"`timescale 1ns / 1ps\nmodule top;\n{(made.folder / f'instance_{end}.v').read_text()}endmodule\n")
    assert not complaints("top", [tmp_path / "top.v", made.folder / f"accelerator_{end}.v", made.folder / "accelerator.v"], made.folder)


def complaints(top, files, include):
    """slang's errors on files in that order, as text; "" where it has none."""
    pyslang = pytest.importorskip("pyslang", reason="pip install pyslang reads the Verilog as slang does")
    driver = pyslang.driver.Driver()
    driver.addStandardArgs()
    words = ["slang", "--top", top, f"-I{include}", *map(str, files)]
    assert driver.parseCommandLine(" ".join(words)) and driver.processOptions()
    engine, text = driver.diagEngine, pyslang.TextDiagnosticClient()
    engine.addClient(text)
    fine = driver.parseAllSources()
    for diagnostic in driver.createCompilation().getAllDiagnostics():
        engine.issue(diagnostic)
    return "" if fine and not engine.numErrors else text.getString()


@pytest.mark.parametrize("turn", [1, -1], ids=["", "backwards"])
def test_slang_reads_every_file_of_a_folder(made, turn, tmp_path):
    """In either order: a file without a timescale beside one with it is an error."""
    models = [path for path in (made.folder / "SB_SPRAM256KA.v",) if path.exists()]
    files = [made.folder / "testbench.v", made.folder / "accelerator.v", *models]
    assert not complaints("testbench", files[::turn], made.folder)
    (tmp_path / "top.v").write_text(f"`timescale 1ns / 1ps\nmodule top;\n{(made.folder / 'instance_axis.v').read_text()}endmodule\n")
    files = [tmp_path / "top.v", made.folder / f"{AXI_STREAM}.v", made.folder / "accelerator.v", *models]
    assert not complaints("top", files[::turn], made.folder)
    assert "bad" in complaints("top", [*files, bad(tmp_path)], made.folder)


def bad(folder):
    (folder / "bad.v").write_text("module bad; wire a = nothing; endmodule\n")
    return folder / "bad.v"
