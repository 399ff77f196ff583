"""Bits of an iCE40's bitstream that change what a used cell does, by kind, to be turned one at a time.

    python -m tests.fpga.turned BUILD COUNT SEED   turns bits of the build in a folder build-BOARD; says how many the comparison finds
"""

import json
import random
import re
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

from fbnn_hw.fpga import compared, toolchain, unpacked

PLACES = re.compile(r"B(\d+)\[(\d+)\]")


def candidates(chip, source=lambda net: net):
    """{kind: [(list of rows, row, column)]} of a `Chip`: each entry is a character of a text of its configuration.

    source: where a net comes from, "0" and "1" for constants.
    """
    box, config, found = chip.box, chip.config, defaultdict(list)

    def entries(x, y, kind, name=None):
        for entry in config.tile_db(x, y):
            if entry[1] == kind and (name is None or entry[2:] == [name]):
                for place in map(PLACES.match, entry[0]):
                    yield config.tile(x, y), int(place[1]), int(place[2])

    for (x, y, name), cell in chip.cells.items():
        if cell.kind == "ICESTORM_LC":
            z, tile = int(name[2:]), config.logic_tiles[x, y]
            bits = {number: (tile, 2 * z + number // 10, 36 + number % 10) for number in range(20)}
            inputs = [source(cell.pins[f"I{i}"]) if f"I{i}" in cell.pins else "0" for i in range(4)]
            order = [4, 14, 15, 5, 6, 16, 17, 7, 3, 13, 12, 2, 1, 11, 10, 0]  # of the addresses: icebox.get_lutff_lut_bits
            for address, number in enumerate(order):
                values = [str(address >> i & 1) for i in range(4)]
                # A constant input has its value, two of one source are equal.  Other addresses never come.
                comes = all(value == one for value, one in zip(values, inputs) if one in ("0", "1"))
                if comes and len({*inputs}) == len({*zip(inputs, values)}) and "O" in cell.pins:
                    found["LUT"].append(bits[number])
            found["carry or flip-flop"] += [bits[8], bits[9]]
            if cell.settings["DFF_ENABLE"] == "1":
                found["set or reset"] += [bits[18], bits[19]] if "SR" in cell.pins else []
                found["clock edge"] += entries(x, y, "NegClk")
            if cell.settings["CARRY_ENABLE"] == "1" and "CIN" in cell.settings:
                found["carry in"] += entries(x, y, "CarryInSet")
        elif cell.kind == "ICESTORM_RAM":
            for row, text in enumerate(config.ram_data.get((x, y), ())):
                found["contents"] += [(config.ram_data[x, y], row, column) for column in range(len(text))]
            found["block RAM"] += [*entries(x, y, "RamConfig"), *entries(x, y + 1, "RamConfig"), *entries(x, y, "NegClk"),
                                   *entries(x, y + 1, "NegClk")]
        elif cell.kind == "ICESTORM_SPRAM":
            column, row, bit = box.spram_db[config.device][x, y, int(name[-1])]["SPRAM_EN"]
            found["SPRAM"] += entries(column, row, "IpConfig", bit)
        elif cell.kind == "ICESTORM_DSP":
            for column, row, bit in config.get_dsp_config_db(x, y).values():
                found["multiplier"] += entries(column, row, "IpConfig", bit)
        elif cell.kind == "ICESTORM_PLL":
            for name in config.pll_list():
                for value in box.pllinfo_db[name].values():
                    if str(value[-1]).startswith("PLLCONFIG"):
                        found["PLL"] += entries(*value[:2], "PLL", value[2])
        elif any(pin.startswith("D_") for pin in cell.pins):
            found["pad"] += entries(x, y, f"IOB_{name[-1]}")
            where = next((where for where in config.ieren_db() if where[:3] == (x, y, int(name[-1]))), None)
            for control in ("IE", "REN") if where else ():
                found["pad"] += entries(*where[3:5], "IoCtrl", f"{control}_{where[5]}")
    return dict(found)


def turn(place):
    """Turn a bit; the same call turns it back.  A block RAM's rows are hexadecimal, whose lowest bit is turned."""
    rows, row, column = place
    text = rows[row]
    digit = f"{int(text[column], 16) ^ 1:x}" if len(text) == 64 and {*text} <= {*"0123456789abcdef"} else "10"[int(text[column])]
    rows[row] = text[:column] + digit + text[column + 1:]


def draw(chip, netlist, count, seed):
    """Turn `count` bits one at a time, of kinds in turn; returns [(kind, place)] of those that the comparison does not find."""
    rng, missed = random.Random(seed), []
    places = candidates(chip, compared.Comparison(chip, netlist).source)
    kinds = sorted(places)
    for number in range(count):
        kind = kinds[number % len(kinds)]
        place = rng.choice(places[kind])
        turn(place)
        chip.read()
        if not compared.Comparison(chip, netlist).differences:
            missed.append((kind, place[1:]))
        turn(place)
    chip.read()
    return missed


def main():
    where, count, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    record = json.loads((where / "build.json").read_text())
    netlist = json.loads((where / toolchain.seed_folder(record["seed"]) / toolchain.CELLS).read_text())
    chip = unpacked.unpack(where / record["bitstream"])
    assert not compared.Comparison(chip, netlist).differences
    start = time.monotonic()
    missed = draw(chip, netlist, count, seed)
    print({kind: len(found) for kind, found in candidates(chip).items()})
    print(f"{count - len(missed)} of {count} turned bits found, seed {seed}, {time.monotonic() - start:.0f} s; "
          f"missed {dict(Counter(kind for kind, _ in missed))} {missed[:5]}")


if __name__ == "__main__":
    main()
