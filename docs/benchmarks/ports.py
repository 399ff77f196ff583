"""docs/img/ports.svg: the ports of a small accelerator while two images go through, simulated in Icarus Verilog; each word is an edge.

    python docs/benchmarks/ports.py
"""

import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from fbnn_hw import design
from fbnn_hw.report.svg import Canvas
from tests import strategies

PICTURE = Path(__file__).parents[1] / "img" / "ports.svg"
PORTS = "pixels", "logits", "result"
MONITOR = """`timescale 1ns / 1ps
module monitor;
    reg clk = 0, rst = 1;
    always #5 clk = !clk;
    initial #40 rst = 0;
    wire done;
    testbench bench (.clk(clk), .rst(rst), .images(32'd{images}), .stall(1'b0), .want_latent(1'b0), .ask(2'b0), .request(64'b0),
                     .done(done));
    always @(posedge clk) if (!rst) begin
        $display("%b%b%b%b", bench.pixel_valid && bench.pixel_ready, bench.logit_valid && bench.logit_ready,
                 bench.result_valid && bench.result_ready, bench.dut.busy);
        if (done) $finish;
    end
endmodule
"""
COUNT = 3


def edges(made, work, images=COUNT):
    """{port: numbers of the edges at which a word passes, "busy": those at which it is 1} of images that wait at `pixels`; edge 0 is the
    first after a reset.  made: a Design, of which golden.npz has one image or more."""
    folder = made.folder.absolute()
    (work / "monitor.v").write_text(MONITOR.replace("{images}", str(images)))
    sources = [name for name in ("testbench.v", "accelerator.v", "SB_SPRAM256KA.v") if (folder / name).exists()]
    subprocess.run(["iverilog", "-g2012", "-s", "monitor", f"-I{folder}", "-o", work / "monitor", work / "monitor.v",
                    *(folder / name for name in sources)], check=True)
    (work / "weights.hex").write_bytes(made.read("weights.hex"))
    (work / "images.hex").write_bytes(made.read("golden.hex") * images)
    done = subprocess.run(["vvp", "-N", work / "monitor"], cwd=work, capture_output=True, text=True, check=True)
    rows = [line for line in done.stdout.splitlines() if set(line) <= {"0", "1"} and len(line) == 4]
    return {name: [edge for edge, row in enumerate(rows) if row[i] == "1"] for i, name in enumerate((*PORTS, "busy"))}


def figures(seen, image_bytes):
    """{"latency", "period": numbers of edges} of each image behind the first, as integration.md defines them."""
    last = seen["pixels"][image_bytes - 1::image_bytes]
    return {"latency": [result - pixel for pixel, result in zip(last, seen["result"])][1:],
            "period": [after - before for before, after in zip(seen["result"], seen["result"][1:])]}


def picture(seen, image_bytes):
    """SVG: the edges around the last byte of the second image, around its logits and result, and the times between them."""
    last, result, before = seen["pixels"][2 * image_bytes - 1], seen["result"][1], seen["result"][0]
    first = next(edge for edge in seen["logits"] if edge > last)
    windows = [(before - 4, before + 9), (last - 7, last + 6), (first - 4, result + 10)]
    canvas, step, left, high = Canvas(font_family="sans-serif"), 16, 70, 18
    places, x = {}, left
    for start, stop in windows:
        for edge in range(start, stop):
            places[edge] = x
            x += step
        x += 34
    rows = {"clk": 40, "pixels": 80, "busy": 120, "logits": 160, "result": 200}
    for name, y in rows.items():
        canvas.text(8, y + 14, name, weight="bold")
    for edge, at in places.items():
        canvas.line([(at, 40 + high), (at, 40), (at + step / 2, 40), (at + step / 2, 40 + high), (at + step, 40 + high)], fill="none",
                    stroke="#444")
        for name in (*PORTS, "busy"):
            y, on = rows[name], edge in seen[name]
            if name == "busy":
                level = y if on else y + high
                canvas.line([(at, level), (at + step, level)], fill="none", stroke="#06c", stroke_width=2)
            elif on:
                canvas.rect(at, y, step - 1, high, fill="#cfe3ff", stroke="#06c", hint=f"edge {edge}")
            else:
                canvas.line([(at, y + high / 2), (at + step - 1, y + high / 2)], stroke="#bbb")
    for (_, stop), _ in zip(windows, windows[1:]):
        at = places[stop - 1] + step + 17
        canvas.text(at, 54, "...", anchor="middle")
    for name, begin, end, y in (("latency", last, result, 244), ("period", before, result, 274)):
        for edge in (begin, end):
            canvas.line([(places[edge], 36), (places[edge], y + 6)], stroke="#c30", stroke_dasharray="3 3")
        canvas.line([(places[begin], y), (places[end], y)], stroke="#c30", stroke_width=1.5)
        canvas.text((places[begin] + places[end]) / 2, y - 5, f"{name}: {end - begin} clocks", anchor="middle", fill="#c30")
    return canvas.svg(x, 290)


def main():
    with tempfile.TemporaryDirectory() as work:
        made = design.generate(strategies.smallest(), "generic", out=work)
        seen = edges(made, Path(work))
        PICTURE.write_text(picture(seen, made.config.image_bytes))
        print(figures(seen, made.config.image_bytes), made.estimate["cycles"], made.estimate["load_cycles"])


if __name__ == "__main__":
    main()
