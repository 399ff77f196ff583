"""Memories of an ECP5 as the block RAMs that a build makes of them, in the place of the modules of memories.v.

yosys takes more rows of blocks, each of which needs multiplexers, and not their output registers.  `Target.rows_of` chooses the rows.
The Verilog that `generate` writes has neither weights nor cells of a vendor.
Ref: Lattice FPGA-TN-02204, ECP5 memory usage guide.
"""

import re

from . import target as find_target
from . import used_bits

FILE = "blocks.v"
CELL_WORDS, CELL_BITS, PITCH, INITVALS = 1024, 18, 20, 64
"""Words and bits of a DP16KD at its widest, the bits that a word takes in an INITVAL, and their number."""
LINES = {18: 4, 9: 3, 4: 2, 2: 1, 1: 0}
"""{width: address lines below those of a word}."""
SHARE, BRANCH = 4, 8
"""Blocks that take their address from one copy; such copies that take it from one copy before them."""
CHOSEN = 64
"""Bits of a word that one copy of the row's number chooses."""
REGISTERED = {
    "weights": re.compile(r"fbnn_weight_memory #\([^;]*\.REGISTERS\(32'd4\)"),
    "bank": re.compile(r"fbnn(?:_two_port)?_bank #\([^;]*\.REGISTERS\(32'd2\)")}
"""What the Verilog of a design says where its memories have the registers of those here: a weight memory four, a bank two."""
_COPY = """(* keep_hierarchy *)
module \\fbnn.copy_{name} (input wire clk, input wire [{last}:0] source, output reg [{last}:0] copy);
    always @(posedge clk) copy <= source;
endmodule
"""
"""A register that yosys does not merge with equal ones, see `rtl.fanout.Copy`."""


def of_design(config, target, accelerator, image):
    """{FILE: text} for an `AcceleratorConfig` where the build makes memories itself, else {}.

    accelerator: text of accelerator.v.  image: that of weights.hex, or None.
    """
    rows, text = find_target(target).rows_of(config), ""
    rows = {name: each for name, each in rows.items() if REGISTERED[name].search(accelerator)}
    if "weights" in rows:
        text += weight_memory(rows["weights"], [int(word, 16) for word in image.split()], config.word_bits)
    if "bank" in rows:
        text += bank(rows["bank"], config.feature_words, config.lanes, config.outputs, config.loads_beside)
    if "bank" in rows and "module fbnn_ring" in accelerator and config.weight_words <= CELL_WORDS // 2:
        text += ring(config.weight_words, config.row_bits)
    return {FILE: text} if text else {}


def weight_memory(rows, words, width):
    """Text of a module `fbnn_weight_memory`: a tree of copies in two stages before the blocks, their own registers, and one behind them.

    rows: (words, bits) of the blocks of each row, from address 0 on.  words: the contents, integers of `width` bits.
    """
    bits = max(1, (len(words) - 1).bit_length())
    parts, base = [], 0

    def copy(name, source):
        parts.append(f"    wire [{bits - 1}:0] {name};\n    \\fbnn.copy_address {name}_copy (clk, {source}, {name});\n")
        return name

    for number, (depth, each) in enumerate(rows):
        parts.append(f"    wire [{width - 1}:0] row{number};\n")
        for place, low in enumerate(range(0, width, each)):
            if place % (SHARE * BRANCH) == 0:
                branch = copy(f"branch{number}_{place // SHARE // BRANCH}", "address")
            if place % SHARE == 0:
                address = copy(f"address{number}_{place // SHARE}", branch)
            block = [f"row{number}[{low + i}]" for i in range(min(each, width - low))]
            parts.append(_block(f"row{number}_{low}", each, _lines(each, address, bits), block, {},
                                _contents(words[base:base + depth], low, each, width)))
        base += depth
    last = max(0, len(rows) - 2)
    copies = _COPY.format(name="address", last=bits - 1) + _COPY.format(name="choice", last=last)
    return (f"{copies}module fbnn_weight_memory #(parameter WIDTH = {width}, DEPTH = {len(words)}, ADDRESS = {bits}, IMAGE = \"\", "
            "REGISTERS = 4) (\n    input wire clk, input wire [ADDRESS - 1:0] address, output wire [WIDTH - 1:0] data\n);\n"
            f"{''.join(parts)}{_choice(rows, width)}{_behind('data')}endmodule\n")


def bank(rows, depth, width, granularity, two_ports=False):
    """Text of a module `fbnn_bank` with the register of the blocks and one behind them.

    two_ports: text of a `fbnn_two_port_bank`, which writes at port A of the blocks and reads at port B.
    """
    bits = max(1, (depth - 1).bit_length())
    parts, base = [], 0
    write_address = "write_address" if two_ports else "address"
    for number, (words, each) in enumerate(rows):
        used = used_bits(each, granularity)
        parts.append(f"    wire [{width - 1}:0] row{number};\n    wire write{number} = write_enable && {write_address} >= {base} && "
                     f"{write_address} < {base + words};\n")
        for low in range(0, width, used):
            places = [low + i for i in range(used)]
            wired = [i + i // 8 if each >= 9 else i for i in range(used)]  # of 9 bits a byte, 8
            block: list[str | None] = [None] * each
            data = ["1'b0"] * each
            for line, place in zip(wired, places):
                block[line], data[line] = f"row{number}[{place}]", f"write_data[{place}]"
            lines = _lines(each, write_address, bits)
            if each == CELL_BITS:
                lines[:2] = ["1'b1", "1'b1"]  # both bytes
            pins = {"WEA": f"write{number} && write_mask[{low // granularity}]", **{f"DIA{i}": value for i, value in enumerate(data)}}
            if two_ports:
                pins |= {"CLKB": "clk", "CEB": "1'b1", "OCEB": "1'b1", **{f"DOB{i}": bit for i, bit in enumerate(block) if bit},
                         **{f"ADB{i}": line for i, line in enumerate(_lines(each, "address", bits))}}
                block = []
            parts.append(_block(f"row{number}_{low}", each, lines, block, pins, [0] * CELL_WORDS))
        base += words
    asked = ""
    if len(rows) > 1:
        when = "" if two_ports else "if (!write_enable) "
        asked = (f"    reg [{len(rows) - 2}:0] asked, read;\n    always @(posedge clk) begin {when}asked <= {_later(rows)}; "
                 "read <= asked; end\n")
    choice = f"{asked}    wire [WIDTH - 1:0] chosen = {_chosen(rows, 'read')};\n{_behind('read_data')}"
    name, more = ("fbnn_two_port_bank", " input wire [ADDRESS - 1:0] write_address,") if two_ports else ("fbnn_bank", "")
    return (f"module {name} #(parameter WIDTH = {width}, DEPTH = {depth}, ADDRESS = {bits}, GRANULARITY = {granularity}, "
            f"REGISTERS = 2) (\n    input wire clk, input wire [ADDRESS - 1:0] address,{more} input wire write_enable,\n"
            f"    input wire [WIDTH / GRANULARITY - 1:0] write_mask, input wire [WIDTH - 1:0] write_data,\n"
            f"    output wire [WIDTH - 1:0] read_data\n);\n{''.join(parts)}{choice}endmodule\n")


def ring(depth, width):
    """Text of a module `fbnn_ring` of at most 512 words: blocks of 36 bits, written at port A and read at port B, with their register."""
    bits = max(1, (depth - 1).bit_length())
    parts = []
    for low in range(0, width, 2 * CELL_BITS):
        places = range(low, min(width, low + 2 * CELL_BITS))
        pins = {f"DI{'AB'[i // CELL_BITS]}{i % CELL_BITS}": f"write_data[{place}]" for i, place in enumerate(places)}
        pins |= {f"DO{'AB'[i // CELL_BITS]}{i % CELL_BITS}": f"data[{place}]" for i, place in enumerate(places)}
        pins |= {f"ADA{i}": "write_enable" for i in range(4)}  # of the bytes
        pins |= {f"AD{port}{5 + i}": f"{name}[{i}]" for port, name in (("A", "write_address"), ("B", "address")) for i in range(bits)}
        pins |= {"WEA": "1'b1", "CLKB": "clk", "CEB": "1'b1", "OCEB": "1'b1"}
        parts.append(_block(f"word_{low}", 2 * CELL_BITS, ["1'b0"] * 14, [], pins, [0] * CELL_WORDS))
    return (f"module fbnn_ring #(parameter WIDTH = {width}, DEPTH = {depth}, ADDRESS = {bits}) (\n"
            f"    input wire clk, input wire write_enable, input wire [ADDRESS - 1:0] write_address, input wire [WIDTH - 1:0] write_data,\n"
            f"    input wire [ADDRESS - 1:0] address, output wire [WIDTH - 1:0] data\n);\n{''.join(parts)}endmodule\n")


def _later(rows):
    """Expression: for each row but the first, whether the address lies in it or behind it."""
    bounds = [sum(depth for depth, _ in rows[:number]) for number in range(1, len(rows))]
    return f"{{{', '.join(f'address >= {bound}' for bound in reversed(bounds))}}}"


def _chosen(rows, later, part=""):
    """Expression: the word, or a part of it, of the last row whose bit of `later` is 1."""
    chosen = f"row0{part}"
    for number in range(1, len(rows)):
        chosen = f"{later}[{number - 1}] ? row{number}{part} : ({chosen})"
    return chosen


def _behind(name):
    """An output that is `chosen` of the cycle before."""
    return f"    reg [WIDTH - 1:0] later;\n    always @(posedge clk) later <= chosen;\n    assign {name} = later;\n"


def _choice(rows, width):
    """`chosen`, the word of the row that was read, part by part."""
    if len(rows) == 1:
        return "    wire [WIDTH - 1:0] chosen = row0;\n"
    last = len(rows) - 2
    parts = [f"    wire [WIDTH - 1:0] chosen;\n    reg [{last}:0] came, asked, read;\n"
             f"    always @(posedge clk) begin came <= {_later(rows)}; asked <= came; read <= asked; end\n"]
    for part, low in enumerate(range(0, width, CHOSEN)):
        high = min(width, low + CHOSEN) - 1
        parts.append(f"    wire [{last}:0] choice{part};\n    \\fbnn.copy_choice choice{part}_copy (clk, read, choice{part});\n"
                     f"    assign chosen[{high}:{low}] = {_chosen(rows, f'choice{part}', f'[{high}:{low}]')};\n")
    return "".join(parts)


def _lines(width, address, bits):
    """Values of the 14 address lines of a block of words of `width` bits."""
    below = LINES[width]
    return [f"{address}[{i - below}]" if 0 <= i - below < bits else "1'b0" for i in range(14)]


def _contents(words, low, bits, width):
    """The words of a block's cells, which hold the bits low..low + bits - 1 of `words`."""
    cells = [0] * CELL_WORDS
    across = 1 if bits >= 9 else 8 // bits  # words in half a cell's word, of whose 9 bits they use 8
    mask = (1 << min(bits, width - low)) - 1
    for number, word in enumerate(words):
        half, place = divmod(number, across)
        cell, place = (number, 0) if bits == CELL_BITS else (half // 2, half % 2 * 9 + place * bits)
        cells[cell] |= (word >> low & mask) << place
    return cells


def _block(name, width, lines, outputs, pins, cells):
    """One DP16KD, which uses its port A, or what `pins` says.  outputs: names of the bits of a word, None where one is not used."""
    each = CELL_WORDS // INITVALS
    values = [f".INITVAL_{n:02X}({each * PITCH}'h{sum(word << PITCH * i for i, word in enumerate(cells[n * each:(n + 1) * each])):x})"
              for n in range(INITVALS)]
    zeros = ("WEA", "RSTA", "CSA0", "CSA1", "CSA2", "CEB", "OCEB", "CLKB", "WEB", "RSTB", "CSB0", "CSB1", "CSB2")
    pins = {"CLKA": "clk", "CEA": "1'b1", "OCEA": "1'b1", **dict.fromkeys(zeros, "1'b0"),
            **{f"ADA{i}": line for i, line in enumerate(lines)}, **{f"ADB{i}": "1'b0" for i in range(14)},
            **{f"DOA{i}": bit for i, bit in enumerate(outputs) if bit}, **pins}
    fixed = {"DATA_WIDTH_A": width, "DATA_WIDTH_B": width, "REGMODE_A": '"OUTREG"', "REGMODE_B": '"OUTREG"', "RESETMODE": '"SYNC"',
             "ASYNC_RESET_RELEASE": '"SYNC"', "CSDECODE_A": '"0b000"', "CSDECODE_B": '"0b000"', "WRITEMODE_A": '"NORMAL"',
             "WRITEMODE_B": '"NORMAL"', "CLKAMUX": '"CLKA"', "CLKBMUX": '"CLKB"', "GSR": '"DISABLED"'}
    return (f"    DP16KD #({', '.join(f'.{key}({value})' for key, value in fixed.items())}, {', '.join(values)}) block_{name} "
            f"({', '.join(f'.{pin}({value})' for pin, value in pins.items())});\n")
