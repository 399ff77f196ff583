"""The engine's parts, for both simulators: name -> (component, check of engine_checks.py, its arguments, its options in each run)."""

from dataclasses import replace

from fbnn_hw.machine.config import AcceleratorConfig
from fbnn_hw.machine.step import Step
from fbnn_hw.machine.transfers import Transfer
from fbnn_hw.rtl.array import MacArray
from fbnn_hw.rtl.drain import Drain
from fbnn_hw.rtl.loader import Loader
from fbnn_hw.rtl.mover import WeightMover
from fbnn_hw.rtl.sequencer import Sequencer
from fbnn_hw.rtl.window import ListedAddress, ListedAlign, WindowAddress, WindowAlign
from sim import engine_checks as checks


def step(kind="conv", **changes):
    """A step of one block, one read and one tile, but for `changes`."""
    values = {"layer": kind, "source": 0, "word_stride": 1, "block_stride": 1, "row_stride": 1, "words": 1, "repeat": 1, "taps": 1,
              "rows": 1, "columns": 1, "target": 0, "target_block_stride": 0, "target_row_stride": 0, "tiles": 1, "tile_slot": 0,
              "valid": 4, "tile_words": 1}
    return Step(kind, **{**values, **changes})


def config(pixels=4, lanes=8, outputs=4, program=(), **changes):
    values = {"encoder": "tycc", "levels": 2, "size": 4, "encoder_bits": 4, "classes": 10, "accumulator_bits": 8, "feature_words": 64,
              "technology": "generic", "popcount": "lut4", "weights": "memory", "weight_words": 16}
    return AcceleratorConfig(pixels, lanes, outputs, program=tuple(program) or (step(),), **{**values, **changes})


def conv(columns, rows, channels, outputs, lanes, target, tile_slot=0, pool=False, **changes):
    """A step that writes `channels` channels of a map of rows x columns blocks, from lane tile_slot * outputs of its first word on."""
    tiles = -(-channels // outputs)
    words = -(-(tile_slot * outputs + channels) // lanes)
    across = -(-columns // 2) if pool else columns
    return step(layer="pooled" if pool else "conv", columns=columns, rows=rows, tiles=tiles, valid=channels - (tiles - 1) * outputs,
                tile_slot=tile_slot, target=target, target_block_stride=words, target_row_stride=words * across, pool=pool, **changes)


def vector(channels, outputs, target, **changes):
    tiles = -(-channels // outputs)
    return step(layer="dense", vector=True, tiles=tiles, valid=channels - (tiles - 1) * outputs, target=target, **changes)


def drains(pixels, lanes, outputs):
    """Maps that fill words, end in a word's middle, begin there, are pooled, are vectors, are pooled globally."""
    c, l, o = pixels // 2, lanes, outputs
    return config(pixels, lanes, outputs, feature_words=60, program=[
        conv(2, 2, 2 * l, o, l, 3), conv(3, 2, l + 1, o, l, 5), conv(2, 4, 3, o, l, 1), conv(2, 1, l - o, o, l, 7, tile_slot=1),
        conv(4, 4, l + o + 1, o, l, 2, pool=True), conv(2, 3, 2 * o - 1, o, l, 9, pool=True), conv(1, 2, o, o, l, 9, pool=True),
        *([conv(1, 1, l, o, l, 11, pool=True)] if c == 2 else []),
        vector(2 * l + 1, o, 20), vector(o, o, 21, tile_slot=l // o - 1), vector(l, o, 30, tile_slot=l // o - 1),
        step("lgap", target=40, tiles=3, target_row_stride=5, gap=True, depthwise=True), step("lgap", target=50, tiles=3, gap=True),
        step("lgap", target=53, tiles=2, depthwise=True)])


def moves(transfers, tiles, depth, base=0, pixels=4, lanes=4, outputs=8, gap=0):
    """transfers: (words, share of 16), or (words, 16, steps) for late rows, `gap` rows below the resident ones.
    tiles: (tiles, words of a tile)."""
    transfers = tuple(Transfer(*t) for t in transfers)
    rows = sum(t.words - t.streamed for t in transfers) * outputs // pixels
    late = sum(t.words for t in transfers if t.after) * outputs // pixels
    return config(pixels, lanes, outputs, [step(tiles=count, tile_words=words) for count, words in tiles], weights="stream",
                  weight_words=depth, transfers=transfers, resident_base=base, resident_rows=rows - late,
                  late_base=max(0, base - gap - late), late_rows=late)


MOVES = {
    "mixed": moves([(9, 5), (3, 0), (4, 16), (7, 1), (1, 15)], [(3, 3), (1, 1), (1, 0), (2, 7)], 8, base=5),
    "stream": moves([(13, 0)], [(2, 6), (1, 1)], 8),
    "resident": moves([(5, 16), (6, 16)], [(1, 8), (3, 1)], 8, base=64 - 22),
    "rows": moves([(10, 7), (4, 9)], [(2, 5), (1, 4)], 8, outputs=16),
    "late": moves([(6, 5), (9, 0), (3, 16, 2), (8, 8), (4, 16, 3), (6, 16), (1, 16, 3), (2, 8)], [(3, 5), (2, 4), (1, 8)], 8,
                  base=21, gap=3),
    "all late": moves([(10, 0), (3, 16, 2), (4, 12)], [(2, 5), (1, 4)], 8, base=20),
    "single": moves([(11, 9)], [(11, 1)], 4, base=1, pixels=8, outputs=8),
}
MOVES["registers"] = replace(MOVES["mixed"], memory_registers=2)
MOVES["beats"] = replace(moves([(6, 5), (9, 0), (3, 16, 2), (8, 8), (4, 16, 3), (6, 16), (1, 16, 3), (2, 8)], [(3, 5), (2, 4), (1, 8)], 8,
                               base=21, gap=3, lanes=8), beat_bits=16, burst=8)

PROGRAM = [
    step(columns=3, rows=2, words=2, taps=9, block_stride=2, row_stride=6, source=3, tiles=2, tile_words=18),
    step(columns=2, rows=2, words=1, taps=9, repeat=2, pool=True, block_stride=1, row_stride=2, source=60, tile_words=18, target=9,
         target_block_stride=2, target_row_stride=4, tile_slot=1, valid=3),
    step("lgap", source=8, word_stride=3, words=3, columns=8, tiles=2, tile_words=2, gap=True, depthwise=True, target=7,
         target_row_stride=2, block_stride=0, row_stride=0),
    step("lgap", source=8, words=2, columns=8, tile_words=0, gap=True, block_stride=0, row_stride=0),
    step("lgap", source=8, words=1, columns=8, tile_words=1, depthwise=True, block_stride=0, row_stride=0),
    step(vector=True, words=3, repeat=2, source=30, tiles=3, valid=1, tile_words=6),
    step(vector=True, logits=True, words=2, source=33, tiles=2, valid=2, tile_words=2)]
BIASED = [
    step(columns=2, rows=1, words=1, taps=9, bias=True, tiles=2, tile_words=10),
    step(vector=True, tiles=3, words=1, bias=True, tile_words=2),
    step(vector=True, logits=True, words=2, tiles=1, valid=3, bias=True, tile_words=3), step(words=2, tile_words=2)]
BEGUN = [replace(each, bias=True, tile_words=each.words * each.taps + 2) for each in BIASED] + [
    step("lgap", source=8, words=1, columns=8, tile_words=1, depthwise=True, block_stride=0, row_stride=0)]
PROGRAMS = {
    "memory": config(program=[*PROGRAM[1:3], *PROGRAM[5:]], weight_words=128),
    "stream": config(program=PROGRAM, outputs=8, weights="stream", weight_words=32),
    "biased": config(program=BIASED, weights="stream", weight_words=16),
    "start_reads": config(program=BEGUN, weights="stream", weight_words=16, start_reads=True),
    "start_reads_wide": config(4, 64, 4, BEGUN, weight_words=40, start_reads=True),
    "registers": config(program=[*BIASED, *PROGRAM[2:3]], weights="stream", weight_words=16, memory_registers=2),
    "one": config(program=[step()]),
}

MOVER_RUNS = [{}, {"idle": 0.5, "blocked": 0.5}, {"blocked": 0.8, "wait": 0.5}, {"idle": 0.8, "wait": 0.3}]

ENGINE = {}
for _shape in ((2, 4, 2, 8, True), (1, 2, 3, 6, True), (2, 8, 2, 7, False), (1, 16, 3, 8, False), (2, 64, 5, 11, True),
               (5, 64, 1, 11, False)):
    ENGINE["array_{}x{}x{}".format(*_shape)] = MacArray(*_shape), checks.array, _shape, [{}, {"idle": 0.4}]
for _shape in ((2, 16, 2, 8), (1, 4, 3, 4), (2, 64, 2, 8)):
    ENGINE["array_start_reads_{}x{}x{}".format(*_shape)] = (
        MacArray(*_shape, True, start_reads=True), checks.array, (*_shape, True, True), [{}, {"idle": 0.4}])
_config = config(4, 4, start_reads=True)
ENGINE["window_align_blank"] = WindowAlign(_config), checks.window_align, (_config,), [{}]
ENGINE["listed_align_blank"] = ListedAlign(_config), checks.listed_align, (_config,), [{}]
for _pixels in (4, 8, 16):
    _config = config(_pixels, 4)
    ENGINE[f"window_address_{_pixels}"] = WindowAddress(_config), checks.window_address, (_config,), [{}]
    ENGINE[f"window_align_{_pixels}"] = WindowAlign(_config), checks.window_align, (_config,), [{}]
    ENGINE[f"listed_address_{_pixels}"] = ListedAddress(_config), checks.listed_address, (_config,), [{}]
    ENGINE[f"listed_align_{_pixels}"] = ListedAlign(_config), checks.listed_align, (_config,), [{}]
for _shape in ((4, 8, 4), (8, 16, 4), (4, 4, 4)):
    _config = drains(*_shape)
    ENGINE["drain_{}x{}x{}".format(*_shape)] = Drain(_config), checks.drain, (_config,), [{}, {"idle": 0.4}]
for _pixels, _lanes, _encoder, _levels, _size in ((4, 4, "tycc", 2, 4), (8, 16, "trgb", 3, 8)):
    _config = config(_pixels, _lanes, encoder=_encoder, levels=_levels, size=_size)
    ENGINE[f"loader_{_pixels}x{_lanes}"] = Loader(_config), checks.loader, (_config,), [{}, {"idle": 0.4, "wait": 0.4}]
for _name, _config in MOVES.items():
    ENGINE[f"mover_{_name}"] = WeightMover(_config), checks.mover, (_config,), MOVER_RUNS if _name == "mixed" else MOVER_RUNS[:2]
for _name, _config in PROGRAMS.items():
    ENGINE[f"sequencer_{_name}"] = Sequencer(_config), checks.sequencer, (_config,), [{}, {"hold": 0.3, "wait": 0.6}]
