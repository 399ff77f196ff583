"""Toggles of the nets of a design's gates, counted in its own bench: of each frame, and of each lesson."""

from dataclasses import dataclass
from pathlib import Path

from ..base.errors import MismatchError, ToolError
from ..machine.learner_memory import counter_rows
from ..machine.protocol import Command, Space
from ..reference import inference
from ..targets import asic
from . import netlist, simulation
from .bench import bench

LESSONS = 4
"""How often a design that learns learns an image as its next class.  The first lessons have few exemplars to replay."""
WORD = 32
FILE = "toggles.txt"
COUNTER = """
  generate if (1) begin : counting
  wire [31:0] nets [0:{words} - 1];
  {assigns}
  reg [31:0] last [0:{words} - 1], change, toggles [0:{bits} - 1], ones [0:{bits} - 1], cycles = 0;
  reg learns = 0, ends;
  integer word, place, file;
  initial file = $fopen("{file}", "a");
  always @(posedge clk) begin
    cycles = cycles + 1;
    for (word = 0; word < {words}; word = word + 1) begin
      change = nets[word] ^ last[word];
      if (change != 0) for (place = 0; place < 32; place = place + 1)
        if (change[place]) toggles[32 * word + place] = toggles[32 * word + place] + 1;
      last[word] = nets[word];
    end
    for (place = 0; place < {writes}; place = place + 1) if (nets[place / 32][place % 32]) ones[place] = ones[place] + 1;
    ends = {result} || {command} || learns && !busy;
    if (ends && !rst) begin
      $fwrite(file, "%s %0d", {result} ? "frame" : learns ? "lesson" : "wait", cycles);
      for (place = 0; place < {count}; place = place + 1) $fwrite(file, " %0d", place < {writes} ? ones[place] : toggles[place]);
      $fwrite(file, "\\n");
      $fflush(file);
      learns = {command};
    end
    if (ends || rst) begin
      cycles = 0;
      for (place = 0; place < {bits}; place = place + 1) begin toggles[place] = 0; ones[place] = 0; end
    end
  end
  end endgenerate
endmodule
"""
"""Of module accelerator.  It counts settled values at each rising edge of the clock, so no glitches.  A stretch ends with a result, with
a command to the learner, and when the learner has carried it out."""


@dataclass(frozen=True)
class Stretch:
    """cycles: of one frame or lesson.  toggles: {net of yosys' JSON: changes of its value}.  writes: {memory: cycles that write it}."""

    cycles: int
    toggles: dict
    writes: dict


def counted(made: dict, where: Path) -> tuple[Path, list, list]:
    """Write counted.v, the netlist with counters; returns (its path, memories that are written, nets that are counted)."""
    module = made["modules"][asic.TOP]
    wires = {name: cell["connections"] for name, cell in module["cells"].items()}
    memories = {name: pins["write_enable"] for name, pins in wires.items() if "write_enable" in pins}
    nets = sorted({bit for pins in wires.values() for bits in pins.values() for bit in bits if isinstance(bit, int)}
                  - set(module["ports"]["clk"]["bits"]))
    bits = [bit for enable in memories.values() for bit in enable] + nets
    words = [bits[at:at + WORD] for at in range(0, len(bits), WORD)]
    names = {f"counted_{number}": {"hide_name": 0, "bits": word + ["0"] * (WORD - len(word)), "attributes": {}}
             for number, word in enumerate(words)}
    more = module | {"netnames": module["netnames"] | names}
    path = where / "counted.v"
    asic.write(made | {"modules": made["modules"] | {asic.TOP: more}}, path)
    learns = "command__valid" in module["ports"]
    text = COUNTER.format(
        words=len(words), bits=WORD * len(words), count=len(bits), writes=len(memories), file=FILE,
        assigns="\n  ".join(f"assign nets[{number}] = {name};" for number, name in enumerate(names)),
        result="(result__valid && result__ready)", command="(command__valid && command__ready)" if learns else "1'b0")
    path.write_text(path.read_text().rstrip().removesuffix("endmodule") + text)
    return path, list(memories), nets


def read(path: Path, memories: list, nets: list) -> dict[str, list[Stretch]]:
    """{"frame" or "lesson": its stretches} of what the counters wrote; ToolError where that is not whole."""
    found: dict[str, list[Stretch]] = {"frame": [], "lesson": [], "wait": []}
    for line in path.read_text().splitlines():
        kind, cycles, *counts = line.split()
        if len(counts) != len(memories) + len(nets):
            raise ToolError(f"{path}: is not whole; run the command again")
        values = list(map(int, counts))
        found[kind].append(Stretch(int(cycles), dict(zip(nets, values[len(memories):])), dict(zip(memories, values))))
    return found


def frame(design, images, gates: netlist.Gates, memories: list, nets: list, **options):
    """(`Simulation` of images through gates of `counted`, the `Stretch` of the second image, or None where there is one image)."""
    where = design.folder / "sim_build_netlist" / "run" / FILE
    where.unlink(missing_ok=True)
    result = simulation.simulate(design, images, netlist=gates, **options)
    frames = read(where, memories, nets)["frame"] if result.equal else []
    return result, frames[1] if len(frames) > 1 else None


def lesson(design, image, gates: netlist.Gates, memories: list, nets: list) -> Stretch | None:
    """The last of LESSONS lessons of an image, uint8 RGB (1, 3, S, S), through the gates of `frame`, which were simulated before; None
    where cocotb has no library for Verilator.

    One lesson more follows.  Raises MismatchError where the counters of the class, or the logits of the image, are then not those of the
    reference learner.
    """
    build, plan = design.folder / "sim_build_netlist", design.config.learning
    label = min(len(design.classes), plan.max_classes - 1)
    learner, latent = design.learner(), inference.latents(design.network, image)
    learner.learn(latent.repeat(LESSONS + 1, 0), [label] * (LESSONS + 1))
    rows = counter_rows(plan, label, learner.counters[label], learner.presented[label])
    words = {row * plan.pixels + bank: int(word) for row, banks in rows.items() for bank, word in banks.items()}
    with simulation.alone(design, build):
        built, arguments = simulation._build(design, build, 1, gates, False, simulation.Simulation(1, [], False))
        if not built.by_cocotb:
            return None
        work = build / "run"
        (work / FILE).unlink(missing_ok=True)
        (work / "reads.txt").write_text("".join(f"{Space.BANKS << 1 | address << 4}\n" for address in words))
        simulation._start(design, built, work, image.repeat(2, 0), (False, False), arguments, test="lessons",
                          more={"BENCH_LESSONS": LESSONS, "BENCH_REQUEST": Command.LEARN | label << 3})
        found = map(int, (work / "found.txt").read_text().split())
        logits = bench.read_results(work, plan.lanes, learner.known).logits.ravel()[-learner.known:].tolist()
    wrong = [address for (address, word), got in zip(words.items(), found, strict=True) if word != got]
    if wrong or logits != learner.logits(latent)[0].tolist():
        raise MismatchError(f"{design.folder}: after {LESSONS + 1} lessons the gates differ from the reference learner: "
                            + (f"{len(wrong)} of {len(words)} words of class {label}" if wrong else f"logits {logits}"))
    return read(work / FILE, memories, nets)["lesson"][LESSONS - 1]
