"""The bitstream of an iCE40 as Verilog: the module `chip`, which simulate/board/chip.v puts behind a serial line with a flash, and
simulate/device/chip.v among the parts of a device.

Its ports are the pins by the project's names, each level as it is meant where a board inverts it, and what comes out of the PLL.
"""

import re

from ..base.errors import ToolError, UsageError
from ..machine.device import BUTTONS, DATA_PINS, NUMBER_LEDS
from .unpacked import RAM_PINS, Cell, Chip

LINES = 4
DSP_PINS = {"A": 16, "B": 16, "C": 16, "D": 16, "O": 32}
DSP_BITS = ("CLK", "CE", "IRSTTOP", "IRSTBOT", "ORSTTOP", "ORSTBOT", "AHOLD", "BHOLD", "CHOLD", "DHOLD", "OHOLDTOP", "OHOLDBOT",
            "ADDSUBTOP", "ADDSUBBOT", "OLOADTOP", "OLOADBOT", "CI")
SPRAM_PINS = {"ADDRESS": 14, "DATAIN": 16, "MASKWREN": 4, "DATAOUT": 16}
SPRAM_BITS = "CLOCK", "WREN", "CHIPSELECT", "STANDBY", "SLEEP", "POWEROFF"
HEADER = """module chip (
    input wire pll_a, input wire pll_b, input wire locked, input wire rx, output wire tx, output wire ready, output wire fault,
    output wire flash_select, output wire flash_clock, input wire [3:0] flash_in, output wire [3:0] flash_out,
    output wire [3:0] flash_enable{more}
);
"""
OUTPUTS = {"tx": "1'b1", "ready": "1'b1", "fault": "1'b0", "flash_select": "1'b1", "flash_clock": "1'b0"}
"""{output: its level where the chip has no such pin}."""
AROUND = (*(f"camera_{name}" for name in ("pclk", "href", "vsync", "siod")), *(f"camera_data{i}" for i in range(DATA_PINS)),
          *(f"panel_{button}" for button in BUTTONS))
"""Inputs of a device's chip."""
DRIVEN = ("camera_xclk", "camera_sioc_low", "camera_siod_low", *(f"panel_number{i}" for i in range(NUMBER_LEDS)), "panel_flag")
"""Outputs of a device's chip; _low: whether it pulls the wire to ground."""


class Disassembly:
    """Makes the Verilog of a `Chip`.

    pins: {port: name of the pin}.  package: of the chip.  low: LEDs and buttons whose level the board inverts.  Raises UsageError where a
    cell is used as no design of the project uses it.
    """

    def __init__(self, chip: Chip, package: str, pins: dict[str, str], low: tuple[str, ...] = ()) -> None:
        self.chip, self.low, self.text, self.registers = chip, low, [], set()
        self.device = any(port in pins for port in AROUND)
        places = {pin: (x, y, f"io{z}") for pin, x, y, z in chip.config.pinloc_db(package)}
        self.port_at = {places[pin]: port for port, pin in pins.items() if pin in places}
        self.outputs = OUTPUTS | dict.fromkeys(DRIVEN if self.device else (), "1'b0")
        self.lines = [("1'b0", "1'b0")] * LINES
        for place, cell in sorted(chip.cells.items()):
            {"ICESTORM_LC": self._logic, "ICESTORM_RAM": self._ram, "ICESTORM_SPRAM": self._spram, "ICESTORM_DSP": self._dsp,
             "SB_IO": self._pad, "ICESTORM_PLL": self._pll}[cell.kind](place, cell)
        for number, net in chip.globals.items():
            pad = chip.config.padin_pio_db()[number]
            letter = next((letter for letter in "AB" if pad in self._outputs_of_pll(letter)), None)
            self._assign(net, f"pll_{letter.lower()}" if letter else "1'b0")

    def verilog(self) -> str:
        """The text of the module."""
        used = sorted({net for cell in self.chip.cells.values() for net in cell.pins.values()} | set(self.chip.globals.values()))
        nets = [f"reg n{net} = 0;" if net in self.registers else f"wire n{net};" for net in used]
        ends = [f"assign {port} = {self._meant(port)}{value};" for port, value in self.outputs.items()]
        more = [f"input wire {port}" for port in AROUND] + [f"output wire {port}" for port in DRIVEN]
        header = HEADER.format(more="".join(f",\n    {port}" for port in more * self.device))
        ends += [f"assign flash_out[{i}] = {value}, flash_enable[{i}] = {enable};" for i, (value, enable) in enumerate(self.lines)]
        return "\n".join(["`timescale 1ns / 1ps", header + "\n".join(nets), *self.text, *ends, "endmodule", ""])

    def _meant(self, port):
        """What comes before a level, so that it is as it is meant."""
        return "!" * (port.removeprefix("panel_") in self.low)

    def _outputs_of_pll(self, letter):
        return [self.chip.box.pllinfo_db[name][f"PLLOUT_{letter}"] for name in self.chip.config.pll_list()
                if (*self.chip.box.pllinfo_db[name]["LOC"], "pll") in self.chip.cells]

    def _assign(self, net, value):
        if net is not None:
            self.text.append(f"assign n{net} = {value};")

    def _wire(self, cell, pin, default="1'b0"):
        return f"n{cell.pins[pin]}" if pin in cell.pins else default

    def _bus(self, cell, pin, width):
        return "{" + ", ".join(self._wire(cell, f"{pin}_{i}") for i in reversed(range(width))) + "}"

    def _outputs(self, cell, place, pin, width):
        """A vector for a bus of outputs, of which some bits go nowhere."""
        name = f"{pin.lower()}_{place[0]}_{place[1]}_{place[2]}"
        self.text.append(f"wire [{width - 1}:0] {name};")
        for i in range(width):
            self._assign(cell.pins.get(f"{pin}_{i}"), f"{name}[{i}]")
        return name

    def _logic(self, place, cell):
        settings, inputs = cell.settings, [self._wire(cell, f"I{i}") for i in range(4)]
        lut = _expression(settings["LUT_INIT"], inputs)
        if "COUT" in cell.pins:
            a, b, carry = *inputs[1:3], self._wire(cell, "CIN", f"1'b{settings.get('CIN', '0')}")
            self._assign(cell.pins["COUT"], f"({a} & {b}) | (({a} | {b}) & {carry})")
        out = cell.pins.get("O")
        if out is None:
            return
        if settings["DFF_ENABLE"] == "0":
            self._assign(out, lut)
            return
        self.registers.add(out)
        edge = "neg" if settings["NEG_CLK"] == "1" else "pos"
        reset, enable, clock = self._wire(cell, "SR"), self._wire(cell, "CEN", "1'b1"), self._wire(cell, "CLK")
        level = f"1'b{settings['SET_NORESET']}"
        at_once = settings["ASYNC_SR"] == "1"
        when = f"{edge}edge {clock}" + f", posedge {reset}" * at_once
        do = (f"if ({reset}) n{out} <= {level}; else if ({enable}) n{out} <= {lut};" if at_once else
              f"if ({enable}) n{out} <= {lut};" if reset == "1'b0" else f"if ({enable}) n{out} <= {reset} ? {level} : {lut};")
        self.text.append(f"always @({when}) {do}")

    def _ram(self, place, cell):
        settings = cell.settings
        kind = "NR" * int(settings["NEG_CLK_R"]) + "NW" * int(settings["NEG_CLK_W"])
        parameters = [f".{mode}({int(settings[mode], 2)})" for mode in ("READ_MODE", "WRITE_MODE")]
        parameters += [f".{name}(256'b{bits})" for name, bits in settings.items() if name.startswith("INIT")]
        data = self._outputs(cell, place, "RDATA", 16)
        ports = []
        for pin, width in RAM_PINS.items():
            value = self._bus(cell, pin, width) if width else self._wire(cell, pin, f"1'b{int(pin.endswith('CLKE'))}")
            value = data if pin == "RDATA" else value
            negative = pin == "RCLK" and settings["NEG_CLK_R"] == "1" or pin == "WCLK" and settings["NEG_CLK_W"] == "1"
            ports.append(f".{pin}{'N' * negative}({value})")
        self.text.append(f"SB_RAM40_4K{kind} #({', '.join(parameters)}) ram_{place[0]}_{place[1]} ({', '.join(ports)});")

    def _spram(self, place, cell):
        out = self._outputs(cell, place, "DATAOUT", 16)
        ports = [f".{pin}({out if pin == 'DATAOUT' else self._bus(cell, pin, width)})" for pin, width in SPRAM_PINS.items()]
        ports += [f".{pin}({self._wire(cell, pin)})" for pin in SPRAM_BITS]
        self.text.append(f"SB_SPRAM256KA {place[2]}_{place[0]} ({', '.join(ports)});")

    def _dsp(self, place, cell):
        parameters = ", ".join(f".{name}({len(bits)}'b{bits})" for name, bits in sorted(cell.settings.items()))
        out = self._outputs(cell, place, "O", 32)
        ports = [f".{pin}({out if pin == 'O' else self._bus(cell, pin, width)})" for pin, width in DSP_PINS.items()]
        ports += [f".{pin}({self._wire(cell, pin, '1' + chr(39) + 'b' + str(int(pin == 'CE')))})" for pin in DSP_BITS]
        self.text.append(f"SB_MAC16 #({parameters}) mac_{place[0]}_{place[1]} ({', '.join(ports)});")

    def _pll(self, place, cell):
        self._assign(cell.pins.get("LOCK"), "locked")
        for letter in "AB":
            self._assign(cell.pins.get(f"PLLOUT_{letter}"), f"pll_{letter.lower()}")

    def _pad(self, place, cell):
        port, kind = self.port_at.get(place), cell.settings["PIN_TYPE"]
        line = re.fullmatch(r"flash_io(\d)", port or "")
        pin = "rx" if port == "rx" else f"flash_in[{line[1]}]" if line else "pll_a" if port == "clock" else "1'b0"
        pin = f"{self._meant(port)}{port}" if self.device and port in AROUND else pin
        rise, fall = ("neg", "pos") if cell.settings["NEG_TRIGGER"] == "1" else ("pos", "neg")
        enabled = f"if ({wire}) " if (wire := self._wire(cell, "CLOCK_ENABLE", "1'b1")) != "1'b1" else ""

        def register(name, edge, clock, value):
            self.text.append(f"reg {name} = 0; always @({edge}edge {self._wire(cell, clock)}) {enabled}{name} <= {value};")
            return name

        name = f"pad_{place[0]}_{place[1]}_{place[2]}"
        if "D_IN_0" in cell.pins:
            if kind[-2] == "1":
                raise UsageError(f"{port or name}: an input with a latch, expected a design of fbnn-hw")
            self._assign(cell.pins["D_IN_0"], pin if kind[-1] == "1" else register(f"{name}_in", rise, "INPUT_CLK", pin))
        if "D_IN_1" in cell.pins:
            self._assign(cell.pins["D_IN_1"], register(f"{name}_in1", fall, "INPUT_CLK", pin))
        if kind[:2] == "00":
            return
        first, second = self._wire(cell, "D_OUT_0"), self._wire(cell, "D_OUT_1")
        clock = self._wire(cell, "OUTPUT_CLK")
        if kind[2:4] == "00":  # of both edges: one register, since the choice between two by the clock would show both for no time
            when, out = f"posedge {clock}, negedge {clock}", f"{name}_out"
            level = clock if rise == "pos" else f"!{clock}"
            self.text.append(f"reg {out} = 0; always @({when}) {enabled}{out} <= {level} ? {first} : {second};")
        else:
            out = {"10": first, "01": None, "11": None}[kind[2:4]] or register(
                f"{name}_out", rise, "OUTPUT_CLK", "!" * (kind[2:4] == "11") + first)
        enable = self._wire(cell, "OUTPUT_ENABLE", "1'b1")
        enable = {"01": "1'b1", "10": enable}.get(kind[:2]) or register(f"{name}_enable", rise, "OUTPUT_CLK", enable)
        if line:
            self.lines[int(line[1])] = out, enable
        elif port in self.outputs:
            self.outputs[port] = out
        elif f"{port}_low" in self.outputs:
            self.outputs[f"{port}_low"] = f"({enable} & !{out})"


def _expression(function, inputs):
    """Verilog of a LUT.  function: as nextpnr has it, the bit of the highest address first.  inputs: wires, of address bit 0 first."""
    if len(set(function)) == 1:
        return f"1'b{function[0]}"
    high, low = function[:len(function) // 2], function[len(function) // 2:]
    *others, wire = inputs
    if high == low or wire == "1'b0":
        return _expression(low, others)
    if len(function) == 2:
        return wire if high == "1" else f"!{wire}"
    return f"({wire} ? {_expression(high, others)} : {_expression(low, others)})"


def frequency(chip: Chip, reference_hz: float) -> float:
    """The clock of the design in Hz that a chip's PLL makes of the oscillator's."""
    plls: list[Cell] = [cell for cell in chip.cells.values() if cell.kind == "ICESTORM_PLL"]
    if len(plls) != 1 or plls[0].settings["FEEDBACK_PATH"] != "001":
        raise ToolError("the bitstream: has no PLL with simple feedback, expected a design of fbnn-hw")
    value = {name: int(bits, 2) for name, bits in plls[0].settings.items()}
    halves = value["PLLTYPE"] in (0b110, 0b111) and value["PLLOUT_SELECT_B"] == 0b01
    return reference_hz * (value["DIVF"] + 1) / (value["DIVR"] + 1) / 2 ** value["DIVQ"] / (1 + halves)
