"""What the simulations of a top module with delays share: Verilog, a design whose weights are a stream, and the run.

The simulated clock is a multiple of that of the design, so that a fraction of a period is a step of time.
"""

import re
import subprocess
from dataclasses import replace

from fbnn_hw.base import bits
from fbnn_hw.compile.plan import plan
from fbnn_hw.ir.models import CIFAR10, vgg
from fbnn_hw.rtl.board_top import weight_bytes
from fbnn_hw.simulate import virtual
from fbnn_hw.targets import TARGETS
from tests import strategies

LATER = """
`timescale 1ns / 1ps
module later #(parameter N = 1, W = 1) (input wire [W - 1:0] in, output wire [W - 1:0] out);
    wire [W * (N + 2) - 1:0] line;
    reg [W * (N + 1) - 1:0] late = ~0;
    assign line = {late, in}, out = line[W * N +: W];
    always @(posedge board.clk) late <= line[W * (N + 1) - 1:0];
endmodule
"""
"""A wire of N steps."""
ACCELERATOR = """
module accelerator (
    input wire clk, rst, want_latent, input wire [7:0] pixels__payload, input wire pixels__valid, output wire pixels__ready,
    input wire [{beat}:0] weights__payload, input wire weights__valid, output wire weights__ready, output wire [{score}:0] logits__payload,
    output wire logits__valid, input wire logits__ready, output wire [{latent}:0] latent__payload, output wire latent__valid,
    input wire latent__ready, output wire [{result}:0] result__payload, output wire result__valid, input wire result__ready
);
    assign pixels__ready = 0, logits__payload = 0, logits__valid = 0, latent__payload = 0, latent__valid = 0;
    assign result__payload = 0, result__valid = 0;
    reg [9:0] turn = 0;
    always @(posedge clk) turn <= turn + 1;
    assign weights__ready = {ready};
    integer file;
    initial file = $fopen("beats.txt", "w");
    always @(posedge clk) if (!rst && weights__valid && weights__ready && board.active) begin
        $fwrite(file, "%x\\n", weights__payload);
        $fflush(file);
        board.count <= board.count + 1;
    end
endmodule
"""


def width(text, port):
    """Highest bit of a port of the accelerator in the text of top.v."""
    signal = re.search(rf"\.{port}\((\w+)\)", text)[1]
    bits = re.search(rf"wire \[(\d+):0\] {re.escape(signal)};", text)
    return int(bits[1]) if bits else 0


def accelerator(text, beat_bits, ready="1"):
    """Verilog of the stand-in of an accelerator, which writes the beats that it takes into beats.txt.

    text: of top.v.  ready: when it takes one, an expression that may count on `turn`.
    """
    ports = {name: width(text, f"{port}__payload") for name, port in (("score", "logits"), ("latent", "latent"), ("result", "result"))}
    return ACCELERATOR.format(beat=beat_bits - 1, ready=ready, **ports)


def streamed(target, way, **changes):
    """(configuration of a small network whose weights are a stream, the weights, the image in the flash)."""
    network = strategies.fill(vgg("tiny", CIFAR10, width=1 / 16, latent=64, hidden=16), 1)
    config = plan(network, replace(TARGETS[target], **changes), 4, 16, 4, weights=way).config
    data = bytes((37 * i + i // 251) & 255 for i in range(sum(weight_bytes(config))))
    return config, data, bytes.fromhex(config.id) + bytes(4) + data


def beats(config, data, count):
    """The first `count` beats of the weights `data`: all of them, then those of a frame over and over."""
    size = config.beat_bits // 8
    words = [int.from_bytes(data[i:i + size], "little") for i in range(0, len(data), size)]
    again = words[weight_bytes(config)[0] // size:]
    return (words + again * (count // len(again) + 1))[:count]


def run(folder, board, top, image, models, half_ps, limit):
    """Simulate; ([beat that the accelerator took], the log).

    board, top: Verilog.  models: names of Verilog files of `simulate/board`.  half_ps: half a simulated period.  limit: simulated cycles.
    """
    files = {"board.v": board, "top.v": top, "flash.hex": bits.bytes_hex(image), "script": ""}
    for name, text in files.items():
        (folder / name).write_text(text)
    sources = [folder / "board.v", folder / "top.v", *(virtual.BOARD / name for name in models)]
    program = virtual.verilate(sources, folder / "build", level="-O1")
    done = subprocess.run([program, "4", str(half_ps), "script", str(limit)], cwd=folder, capture_output=True, text=True, check=False)
    return [int(line, 16) for line in (folder / "beats.txt").read_text().split()], done.stdout
