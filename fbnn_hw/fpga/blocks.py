"""Memories of an ECP5 as the block RAMs that a build makes of them, in the place of the modules of memories.v.

yosys takes more rows of blocks, each of which needs multiplexers, and not their output registers.  `Target.rows_of` chooses the rows.
The Verilog that `generate` writes has neither weights nor cells of a vendor.
Ref: Lattice FPGA-TN-02204, ECP5 memory usage guide.
"""

from ..targets import target as find_target
from ..targets import used_bits

FILE = "blocks.v"
CELL_WORDS, CELL_BITS, PITCH, INITVALS = 1024, 18, 20, 64
"""Words and bits of a DP16KD at its widest, the bits that a word takes in an INITVAL, and their number."""
LINES = {18: 4, 9: 3, 4: 2, 2: 1, 1: 0}
"""{width: address lines below those of a word}."""
SHARE = 8
"""Blocks that take their address from one copy, and whose bits one copy of the row's number chooses."""
_COPY = """(* keep_hierarchy *)
module \\fbnn.copy_{name} (input wire clk, input wire [{last}:0] source, output reg [{last}:0] copy);
    always @(posedge clk) copy <= source;
endmodule
"""
"""A register that yosys does not merge with equal ones, see `rtl.array.Copy`."""


def of_design(config, target, accelerator, image):
    """{FILE: text} for an `AcceleratorConfig` where the build makes memories itself, else {}.

    accelerator: text of accelerator.v.  image: that of weights.hex, or None.
    """
    rows = find_target(target).rows_of(config)
    if not rows or ".REGISTERS(" not in accelerator:  # designs of earlier versions have their registers outside of the memories
        return {}
    text = ""
    if "weights" in rows:
        text += weight_memory(rows["weights"], [int(word, 16) for word in image.split()], config.word_bits)
    if "bank" in rows:
        text += bank(rows["bank"], config.feature_words, config.lanes, config.outputs)
    return {FILE: text}


def weight_memory(rows, words, width):
    """Text of a module `fbnn_weight_memory` with two registers: one before the blocks, of which they have copies, and their own.

    rows: (words, bits) of the blocks of each row, from address 0 on.  words: the contents, integers of `width` bits.
    """
    bits = max(1, (len(words) - 1).bit_length())
    parts, base = [], 0
    for number, (depth, each) in enumerate(rows):
        parts.append(f"    wire [{width - 1}:0] row{number};\n")
        for place, low in enumerate(range(0, width, each)):
            if place % SHARE == 0:
                address = f"address{number}_{place // SHARE}"
                parts.append(f"    wire [{bits - 1}:0] {address};\n    \\fbnn.copy_address {address}_copy (clk, address, {address});\n")
            block = [f"row{number}[{low + i}]" for i in range(min(each, width - low))]
            parts.append(_block(f"row{number}_{low}", each, _lines(each, address, bits), block, {},
                                _contents(words[base:base + depth], low, each, width)))
        base += depth
    last = max(0, len(rows) - 2)
    copies = _COPY.format(name="address", last=bits - 1) + _COPY.format(name="choice", last=last)
    return (f"{copies}module fbnn_weight_memory #(parameter WIDTH = {width}, DEPTH = {len(words)}, ADDRESS = {bits}, IMAGE = \"\", "
            f"REGISTERS = 2) (\n    input wire clk, input wire [ADDRESS - 1:0] address, output wire [WIDTH - 1:0] data\n);\n"
            f"{''.join(parts)}{_choice(rows, width)}endmodule\n")


def bank(rows, depth, width, granularity):
    """Text of a module `fbnn_bank` with one register, that of the blocks."""
    bits = max(1, (depth - 1).bit_length())
    parts, base = [], 0
    for number, (words, each) in enumerate(rows):
        used = used_bits(each, granularity)
        parts.append(f"    wire [{width - 1}:0] row{number};\n    wire write{number} = write_enable && address >= {base} && address < "
                     f"{base + words};\n")
        for low in range(0, width, used):
            places = [low + i for i in range(used)]
            wired = [i + i // 8 if each >= 9 else i for i in range(used)]  # of 9 bits a byte, 8
            block = [None] * each
            data = ["1'b0"] * each
            for line, place in zip(wired, places):
                block[line], data[line] = f"row{number}[{place}]", f"write_data[{place}]"
            lines = _lines(each, "address", bits)
            if each == CELL_BITS:
                lines[:2] = ["1'b1", "1'b1"]  # both bytes
            pins = {"WEA": f"write{number} && write_mask[{low // granularity}]", **{f"DIA{i}": value for i, value in enumerate(data)}}
            parts.append(_block(f"row{number}_{low}", each, lines, block, pins, [0] * CELL_WORDS))
        base += words
    asked = ""
    if len(rows) > 1:
        asked = (f"    reg [{len(rows) - 2}:0] asked, read;\n    always @(posedge clk) begin if (!write_enable) asked <= {_later(rows)}; "
                 "read <= asked; end\n")
    choice = f"{asked}    assign read_data = {_chosen(rows, 'read')};\n"
    return (f"module fbnn_bank #(parameter WIDTH = {width}, DEPTH = {depth}, ADDRESS = {bits}, GRANULARITY = {granularity}, REGISTERS = 1) "
            f"(\n    input wire clk, input wire [ADDRESS - 1:0] address, input wire write_enable,\n"
            f"    input wire [WIDTH / GRANULARITY - 1:0] write_mask, input wire [WIDTH - 1:0] write_data,\n"
            f"    output wire [WIDTH - 1:0] read_data\n);\n{''.join(parts)}{choice}endmodule\n")


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


def _choice(rows, width):
    """The word of the row that was read, part by part."""
    if len(rows) == 1:
        return "    assign data = row0;\n"
    last = len(rows) - 2
    parts = [f"    reg [{last}:0] asked, read;\n    always @(posedge clk) begin asked <= {_later(rows)}; read <= asked; end\n"]
    for part, low in enumerate(range(0, width, SHARE * 8)):
        high = min(width, low + SHARE * 8) - 1
        parts.append(f"    wire [{last}:0] choice{part};\n    \\fbnn.copy_choice choice{part}_copy (clk, read, choice{part});\n"
                     f"    assign data[{high}:{low}] = {_chosen(rows, f'choice{part}', f'[{high}:{low}]')};\n")
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
    """One DP16KD, which uses its port A.  outputs: names of the bits of a word, None where one is not used."""
    each = CELL_WORDS // INITVALS
    values = [f".INITVAL_{n:02X}({each * PITCH}'h{sum(word << PITCH * i for i, word in enumerate(cells[n * each:(n + 1) * each])):x})"
              for n in range(INITVALS)]
    zeros = ("WEA", "RSTA", "CSA0", "CSA1", "CSA2", "CEB", "OCEB", "CLKB", "WEB", "RSTB", "CSB0", "CSB1", "CSB2")
    pins = {"CLKA": "clk", "CEA": "1'b1", "OCEA": "1'b1", **dict.fromkeys(zeros, "1'b0"), **pins,
            **{f"ADA{i}": line for i, line in enumerate(lines)}, **{f"DOA{i}": bit for i, bit in enumerate(outputs) if bit}}
    fixed = {"DATA_WIDTH_A": width, "DATA_WIDTH_B": width, "REGMODE_A": '"OUTREG"', "REGMODE_B": '"OUTREG"', "RESETMODE": '"SYNC"',
             "ASYNC_RESET_RELEASE": '"SYNC"', "CSDECODE_A": '"0b000"', "CSDECODE_B": '"0b000"', "WRITEMODE_A": '"NORMAL"',
             "WRITEMODE_B": '"NORMAL"', "CLKAMUX": '"CLKA"', "CLKBMUX": '"CLKB"', "GSR": '"DISABLED"'}
    return (f"    DP16KD #({', '.join(f'.{key}({value})' for key, value in fixed.items())}, {', '.join(values)}) block_{name} "
            f"({', '.join(f'.{pin}({value})' for pin, value in pins.items())});\n")
