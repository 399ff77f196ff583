"""The choices of `generate`, checked in one place."""

import re
from dataclasses import dataclass, fields, replace
from typing import Any

from ..base.errors import UsageError, nearest, show, whole
from ..compile.plan import check_latent
from ..ir.network import LATENT, Network, Topology
from ..machine.device import CAMERAS, DISPLAYS
from ..machine.learner import Learn
from ..reference.camera import SIZE
from ..reference.learning import Head, LearnConfig
from ..reference.learning.config import ADDING, ADDING_DEFAULTS, NEAREST_MEAN, TWO_BITS, TWO_BITS_WIDTH
from ..targets import WAYS, Target
from ..targets import target as find_target

LEARNERS = "replay", *ADDING
"""How a design may learn."""
INPUTS = "rgb", "levels"
"""What an accelerator takes of a pixel: its bytes, or the levels that its network makes of them."""
STARTS = "model", "empty"
"""The classes that a learner begins with."""
WRAPPERS = ("axi-stream", "wishbone", "axi-lite", "wishbone-dma", "axi-lite-dma")
"""What can stand around an accelerator; design.integration writes them."""
TOP = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,49}")
VERILOG = frozenset(
    """always and assign automatic begin buf bufif0 bufif1 case casex casez cell cmos config deassign default defparam design disable
    edge else end endcase endconfig endfunction endgenerate endmodule endprimitive endspecify endtable endtask event for force forever
    fork function generate genvar highz0 highz1 if ifnone incdir include initial inout input instance integer join large liblist
    library localparam macromodule medium module nand negedge nmos nor noshowcancelled not notif0 notif1 or output parameter pmos
    posedge primitive pull0 pull1 pulldown pullup rcmos real realtime reg release repeat rnmos rpmos rtran rtranif0 rtranif1 scalared
    showcancelled signed small specify specparam strong0 strong1 supply0 supply1 table task time tran tranif0 tranif1 tri tri0 tri1
    triand trior trireg unsigned use vectored wait wand weak0 weak1 while wire wor xnor xor
    alias always_comb always_ff always_latch assert assume before bind bins binsof bit break byte chandle class clocking const constraint
    context continue cover covergroup coverpoint cross dist do endclass endclocking endgroup endinterface endpackage endprogram
    endproperty endsequence enum expect export extends extern final first_match foreach forkjoin iff ignore_bins illegal_bins import
    inside int interface intersect join_any join_none local logic longint matches modport new null package packed priority program
    property protected pure rand randc randcase randsequence ref return sequence shortint shortreal solve static string struct super
    tagged this throughout timeprecision timeunit type typedef union unique var virtual void wait_order wildcard with within""".split())
"""Words of Verilog-2005 and SystemVerilog-2005 that no module can have as a name."""
TAKEN, BEGUN = ("testbench", "sim", "bench"), ("accelerator", "fbnn_", "SB_")
"""Modules and files of a folder beside the top: their names, and how those of others begin."""
MORE_CLASSES, EMPTY_CLASSES = 6, 16
"""Classes that a learner has room for beyond those of its network, and from none, where nothing else is asked for."""


@dataclass(frozen=True)
class Options:
    """How a network becomes a design: keywords of `generate`, and flags of `fbnn-hw generate`.

    Parameters
    ----------
    learn : bool or str
        True or "replay": the chip learns with replay, from the classes of the network on.
        "prototypes": the chip begins with no class, and keeps for each class the signs of the sums
        of its latents, without exemplars.  "nearest-mean": the same with two bits of each mean.
        "means": with two bits of each sum, as designs of earlier versions have it.
    max_classes : int, optional
        Room for classes; by default 6 more than the network has.
    exemplars : int, optional
        Slots of the replay buffer; by default the most that leave frames as fast, or nearly.
    counter_bits : int, optional
        Width of the learner's counters; by default 8, with "prototypes" and "means" 4.
    unknown : bool
        With "nearest-mean": the chip answers "unknown" to an image that is far from every class.
    forget : bool
        With `learn`: classes can be forgotten one by one.
    keep : bool
        With `learn`: what the chip learns is kept in the board's flash, and loaded after power-up.
    start : str, optional
        With `learn`: "model", from the classes of the network on, or "empty", with no class; by default "model" with replay.
    pixels, lanes, outputs : int, optional
        Size of the array; by default the fastest that fits of those that the target lists.
    wrapper : str, optional
        "axi-stream" adds a module with AXI4-Stream ports around the accelerator; "wishbone" and "axi-lite" one with registers on a bus
        of 32 bits, and a driver in C; with "-dma" behind it images come by AXI4-Stream.
    top : str, optional
        The name of a module: one more file of Verilog has it as its top, and the names of all other modules begin with it.
    duty_cycle : bool
        Between frames the clock stops, and flash and banks rest (iCE40UP5K alone).
    weights : str, optional
        Where the weights are: "chip", "flash", "flash-2x" (a flash at twice the clock of the design), "sdram" or "ram" (on the chip,
        loaded after each reset through a port or by registers); by default on the chip where they fit, else in a flash.
    input : str
        What the accelerator takes of each pixel: "rgb", or the "levels" that the network makes of it,
        which are fewer bits.
    camera : str, optional
        "ov7670" or "hm01b0": on a board images come from this sensor, and buttons teach.  The array has at most 2,048 MAC/cycle, where
        `pixels`, `lanes` and `outputs` do not set it.
    display : str, optional
        "ssd1306": with `camera`, a display on the sensor's two wires shows the class, the score and what happens.

    Raises
    ------
    UsageError
        A value is none of these, or two of them exclude each other.
    """

    learn: bool | str | None = False
    max_classes: int | None = None
    exemplars: int | None = None
    counter_bits: int | None = None
    unknown: bool = False
    forget: bool = False
    keep: bool = False
    start: str | None = None
    pixels: int | None = None
    lanes: int | None = None
    outputs: int | None = None
    wrapper: str | None = None
    top: str | None = None
    duty_cycle: bool = False
    weights: str | None = None
    input: str = "rgb"
    camera: str | None = None
    display: str | None = None

    def __post_init__(self) -> None:
        for name in ("max_classes", "exemplars", "counter_bits", "pixels", "lanes", "outputs"):
            value = getattr(self, name)
            if value is not None and not whole(value, 1):
                raise UsageError(f"--{name.replace('_', '-')} {value!r}: expected a whole number from 1")
        for name, legal in (("weights", (None, *WAYS.values())), ("input", INPUTS), ("learn", (False, True, None, *LEARNERS)),
                            ("wrapper", (None, *WRAPPERS)), ("start", (None, *STARTS)), ("camera", (None, *CAMERAS)),
                            ("display", (None, *DISPLAYS))):
            if (value := getattr(self, name)) not in legal:
                words = [word for word in legal if isinstance(word, str)]
                raise UsageError(f"--{name} {value}: expected {' or '.join(words)}{nearest(str(value), words)}")
        if not self.learn and (self.max_classes or self.exemplars or self.counter_bits or self.forget or self.keep or self.start):
            raise UsageError("--max-classes, --exemplars, --counter-bits, --forget, --keep, --start: only with --learn")
        if self.keep and (self.wrapper or self.duty_cycle):
            raise UsageError("--keep: expected without --wrapper and --duty-cycle, which leave the flash to nobody else")
        if self.unknown and self.learn != NEAREST_MEAN:
            raise UsageError(f"--unknown: only with --learn {NEAREST_MEAN}")
        if self.learn in ADDING and self.start == "model":
            raise UsageError(f"--start model: expected empty with --learn {self.learn}, which begins with no class")
        if self.learn in ADDING and self.exemplars:
            raise UsageError(f"--exemplars {self.exemplars}: expected none with --learn {self.learn}, which keeps no samples")
        if self.learn in TWO_BITS and self.counter_bits and self.counter_bits < TWO_BITS_WIDTH:
            raise UsageError(f"--counter-bits {self.counter_bits}: expected at least {TWO_BITS_WIDTH} with --learn {self.learn}")
        if self.top is not None and (not TOP.fullmatch(self.top) or self.top in (*VERILOG, *TAKEN) or self.top.startswith(BEGUN)):
            raise UsageError(f"--top {self.top}: expected a name of letters, digits and _ that begins with a letter, is no word of Verilog "
                             f"or SystemVerilog, is none of {', '.join(TAKEN)} and does not begin with {', '.join(BEGUN)}")
        if self.camera and (self.input == "levels" or self.duty_cycle):
            raise UsageError(f"--camera {self.camera}: gives bytes without end, expected neither --input levels nor --duty-cycle")
        if self.display and not self.camera:
            raise UsageError(f"--display {self.display}: hangs on the wires of a sensor, expected --camera {' or '.join(CAMERAS)}")
        if self.wrapper and self.duty_cycle:
            raise UsageError(f"--wrapper {self.wrapper}: expected without --duty-cycle, whose clock and standby belong to what drives them")

    @classmethod
    def names(cls) -> list[str]:
        return [field.name for field in fields(cls)]

    def part(self, target: str | Target, topology: Topology) -> Target:
        """The target, with an encoder that takes what the accelerator gets."""
        part = target if isinstance(target, Target) else find_target(target)
        if self.duty_cycle and part.technology != "ice40-spram":
            name = part.part if part.lut4 else f"--target {part.name}"
            raise UsageError(f"--duty-cycle: {name} has no memory with a standby, expected --target ice40")
        if self.input == "rgb":
            return part
        if (first := topology.ops[0]).kind == "bits8":
            raise UsageError(f"--input levels: layer {first.name} reads bytes, expected a thermometer or binarize; use --input rgb")
        return replace(part, encoder_bits=None)

    @property
    def way(self) -> str | None:
        """The way to have weights, a key of `targets.WAYS`."""
        return next((way for way, name in WAYS.items() if name == self.weights), None)

    def learner(self, topology: Topology) -> Learn | None:
        """The head and the configuration of its learner, whose slots are 0 where the planner chooses them."""
        if not self.learn:
            return None
        empty = self.start == "empty" or not topology.classes
        classes = self.max_classes or (EMPTY_CLASSES if empty else len(topology.classes) + MORE_CLASSES)
        if self.learn in ADDING:
            options: dict[str, Any] = ADDING_DEFAULTS[self.learn] | ({"counter_bits": self.counter_bits} if self.counter_bits else {})
            learner = Head.of_latent(topology), LearnConfig(
                classes, rule=self.learn, unknown=self.unknown, forget=self.forget, **options)
            check_latent(topology)
        else:
            width = self.counter_bits or 8
            # Lessons are short.  Shipped weights must outlast the first samples of a new class, and a new row needs a quick start.
            # Measured in docs/results/learner.md.
            learner = Head.of_latent(topology) if empty else Head.of(topology), LearnConfig(
                classes, self.exemplars or 0, width, confidence=min(32, (1 << width - 1) - 1), prototype=16, forget=self.forget)
        replace(learner[1], slots=learner[1].slots or 1).verify()
        return learner

    def network(self, network: Network) -> Network:
        """What the accelerator computes of a network: all of it, or up to the latent where its learner begins with no class."""
        if not isinstance(network, Network):
            raise UsageError(f"network {show(network)}: expected what fbnn_hw.load(name) returns")
        if not self.learn and not network.topology.classes:
            raise UsageError(f"model {network.topology.name}: has no class, expected --learn, which teaches it some")
        if self.camera and network.topology.image_size != SIZE:
            raise UsageError(f"--camera {self.camera}: gives images of {SIZE} x {SIZE}, {network.topology.name} takes "
                             f"{network.topology.image_size} x {network.topology.image_size}")
        if self.learn:
            Head.of_latent(network.topology)  # refuses a network without a latent
        if self.learn in ADDING:
            return network.extractor(LATENT)
        return network.extractor(LATENT, classes=False) if self.learn and self.start == "empty" else network
