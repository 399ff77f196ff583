"""`fbnn_hw.litex`: the accelerator in a SoC of LiteX, simulated in Icarus from the Verilog that LiteX writes."""

import shutil
import subprocess
import sys

import numpy as np
import pytest

from fbnn_hw import design
from fbnn_hw.base.errors import UsageError
from fbnn_hw.machine import registers
from fbnn_hw.machine.registers import BY_NAME
from fbnn_hw.reference import inference
from tests import strategies

ORIGIN = 0x3000_0000
DONE = 1
BENCH = """`timescale 1ns / 1ps
module bench;
    reg clk = 0, rst = 1, cyc = 0, we = 0;
    reg [29:0] adr = 0;
    reg [31:0] dat_w = 0;
    wire [31:0] dat_r;
    wire ack, irq;
    %(tap)s
    soc soc (.sys_clk(clk), .sys_rst(rst), .wb_adr(adr), .wb_dat_w(dat_w), .wb_dat_r(dat_r), .wb_sel(4'hf), .wb_cyc(cyc), .wb_stb(cyc),
             .wb_ack(ack), .wb_we(we), .wb_cti(3'd0), .wb_bte(2'd0), .wb_err(), .irq(irq)%(ports)s);
    always #5 clk = !clk;
    task access(input [31:0] at, input writes, input [31:0] value);
        begin
            @(negedge clk);
            adr = at >> 2; we = writes; dat_w = value; cyc = 1;
            @(negedge clk);
            while (!ack) @(negedge clk);
            dat_w = dat_r;
            @(posedge clk);
            #1 cyc = 0;
        end
    endtask
    task write(input [31:0] at, input [31:0] value); access(at, 1, value); endtask
    task show(input [31:0] at); begin access(at, 0, 0); $display("%%0d", dat_w); end endtask
    task until_bit(input [31:0] at, input [31:0] mask);
        begin
            access(at, 0, 0);
            while (!(dat_w & mask)) access(at, 0, 0);
        end
    endtask
    initial begin
        repeat (8) @(negedge clk);
        rst = 0;
%(body)s
        $finish;
    end
    initial #100000000 $display("late");
endmodule
"""


def statements(made, images, csrs):
    """What the bus master does: the id in a CSR, weights that are loaded, then each image, its interrupt, its class and its logits."""
    status, interrupt, pixels, result, weights = (
        ORIGIN + BY_NAME[name].offset for name in ("STATUS", "INTERRUPT", "PIXELS", "RESULT", "WEIGHTS"))
    lines = [f"show({csrs['config']});", f"show({ORIGIN + BY_NAME['CONFIG'].offset});", f"write({csrs['ev_enable']}, 1);",
             f"write({interrupt}, {DONE});"]
    if made.config.loads:
        lines += [f"write({weights}, 32'd{word});" for word in np.frombuffer(made.read("weights.bin"), "<u4")]
    for data in made.pixels(images):
        for word in np.frombuffer(data + bytes(-len(data) % 4), "<u4"):
            lines += [f"until_bit({status}, {BY_NAME['STATUS'].fields[3].mask});", f"write({pixels}, 32'd{word});"]
        lines += ['$display("%0d", irq);', "while (!irq) @(negedge clk);", f"show({csrs['ev_pending']});", f"show({result});"]
        lines += [f"show({ORIGIN + registers.LOGITS + 4 * i});" for i in range(made.config.classes)]
        lines += [f"write({status}, {DONE});", "repeat (3) @(negedge clk);", '$display("%0d", irq);']
    return "\n".join(" " * 8 + line for line in lines)


def soc_of(made):
    """(a SoC without processor, {CSR of the accelerator: address}): `wb` is the port of a bus master, `irq` that of the interrupt."""
    from litex.build.generic_platform import GenericPlatform, Pins, Subsignal
    from litex.soc.integration.soc_core import SoCMini
    from litex.soc.interconnect import wishbone
    from migen import ClockDomain

    from fbnn_hw import litex

    bus = wishbone.Interface(data_width=32, address_width=32, addressing="word")
    pads = [Subsignal(name, Pins(width)) for name, width, _ in bus.layout]
    stream = [("weights", 0, Subsignal("data", Pins(made.config.beat_bits)), Subsignal("valid", Pins(1)), Subsignal("ready", Pins(1))),
              ("restart", 0, Pins(1))] if made.config.weights == "stream" else []
    platform = GenericPlatform("none", [("sys_clk", 0, Pins(1)), ("sys_rst", 0, Pins(1)), ("irq", 0, Pins(1)), ("wb", 0, *pads), *stream])
    soc = SoCMini(platform, int(1e6))
    soc.irq.enable()
    soc.clock_domains.cd_sys = ClockDomain()
    accelerator = litex.add(soc, made.folder, origin=ORIGIN)
    soc.comb += [soc.cd_sys.clk.eq(platform.request("sys_clk")), soc.cd_sys.rst.eq(platform.request("sys_rst")),
                 platform.request("irq").eq(accelerator.ev.irq), *bus.connect_to_pads(platform.request("wb"), mode="slave")]
    if stream:
        weights = platform.request("weights")
        soc.comb += [accelerator.weights.data.eq(weights.data), accelerator.weights.valid.eq(weights.valid),
                     weights.ready.eq(accelerator.weights.ready), platform.request("restart").eq(accelerator.restart)]
    soc.bus.add_master("test", bus)
    soc.finalize()
    region = soc.csr.regions["fbnn"]
    assert "fbnn" in soc.irq.locs
    return soc, {csr.name: region.origin + 4 * number for number, csr in enumerate(region.obj)}


@pytest.mark.skipif(not shutil.which("iverilog"), reason="no iverilog (Debian: apt-get install iverilog)")
@pytest.mark.parametrize("target, options", [("generic", {}), ("ecp5-25f", {}), ("ice40", {}), ("generic", {"weights": "ram"})],
                         ids=["generic", "ecp5-25f", "ice40", "ram"])
def test_a_soc_of_litex_classifies(target, options, tmp_path, monkeypatch):
    """Weights in a memory, as a stream, and loaded over the bus; the interrupt comes with the result and goes with it."""
    pytest.importorskip("litex", reason="no litex (pip install 'fbnn-hw[litex]')")
    made = design.generate(strategies.smallest(), target, out=tmp_path, wrapper="wishbone", **options)
    images = strategies.images(7, 2, made.config.size)
    soc, csrs = soc_of(made)
    monkeypatch.chdir(tmp_path)
    soc.platform.get_verilog(soc.get_fragment(), name="soc").write("soc.v")
    sources = [source for source, *_ in soc.platform.sources]
    ports = tap = ""
    if made.config.weights == "stream":
        beat = made.config.beat_bits // 8
        assert beat == 1
        boot, whole = made.manifest["boot_bytes"], made.manifest["boot_bytes"] + made.manifest["frame_bytes"]
        tap = (f"reg [7:0] weights [0:{whole - 1}]; integer next = 0; wire take, again; initial $readmemh(\"weights.hex\", weights);\n"
               f"always @(posedge clk) if (rst || again) next <= 0; else if (take) next <= next == {whole - 1} ? {boot} : next + 1;")
        ports = ", .weights_data(weights[next]), .weights_valid(!rst), .weights_ready(take), .restart(again)"
        (tmp_path / "weights.hex").write_text("\n".join(f"{byte:02x}" for byte in (made.folder / "weights.bin").read_bytes()))
        sources.append(made.folder / "SB_SPRAM256KA.v")
    elif made.config.way == "memory":
        [hexes] = [source for source in sources if source.endswith(".hex")]
        shutil.copy(hexes, tmp_path)
    (tmp_path / "bench.v").write_text(BENCH % {"body": statements(made, images, csrs), "ports": ports, "tap": tap})
    verilog = [source for source in map(str, sources) if source.endswith(".v")]
    subprocess.run(["iverilog", "-g2012", "-o", "bench", "bench.v", "soc.v", *verilog], check=True)
    done = subprocess.run(["vvp", "bench"], capture_output=True, text=True, check=True)
    said = [int(word) for word in done.stdout.split() if word.isdigit()]
    expected = [int(made.config_id, 16)] * 2
    for row in inference.logits(made.network, images):
        expected += [0, 1, int(row.argmax()), *row.astype(np.uint32).tolist(), 0]
    assert said == expected, done.stdout[-500:] + done.stderr


def test_a_folder_without_registers_is_refused(tmp_path):
    pytest.importorskip("litex", reason="no litex (pip install 'fbnn-hw[litex]')")
    from fbnn_hw import litex

    made = design.generate(strategies.smallest(), "generic", out=tmp_path)
    with pytest.raises(UsageError, match="has no accelerator_wb.v, expected a design made with fbnn-hw generate --wrapper wishbone"):
        litex.Accelerator(None, made.folder)


def test_without_litex_one_line_says_what_to_install():
    program = "import sys; sys.modules['migen'] = None\nfrom fbnn_hw.base.errors import ToolError\ntry:\n    import fbnn_hw.litex\n" \
              "except ToolError as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("migen: not installed, expected for fbnn_hw.litex; ") and done.stdout.endswith("'fbnn-hw[litex]'\n")
