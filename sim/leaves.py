"""The leaf components simulated with Verilator: name -> (component, check of checks.py, its arguments, its options in each run)."""

from fbnn_hw.rtl.argmax import Argmax
from fbnn_hw.rtl.bitplanes import BitPlanes
from fbnn_hw.rtl.camera.front_end import CameraFrontEnd
from fbnn_hw.rtl.lgap import Lgap
from fbnn_hw.rtl.popcount import XnorPopcount
from fbnn_hw.rtl.spram import SinglePortMemory
from fbnn_hw.rtl.thermometer import ThermometerEncoder
from sim import camera_checks, checks

LEAVES = {}
for _width, _registers in ((5, 1), (16, 1), (20, 2)):
    LEAVES[f"popcount_{_width}"] = (XnorPopcount(_width, _registers), checks.popcount, (_width, _registers), [{}])
for _depth, _width, _granularity, _technology in (
        (16384, 16, 8, "ice40-spram"), (40000, 16, 4, "ice40-spram"), (512, 24, 12, "ice40-spram"), (300, 32, 8, "generic"),
        (300, 24, 4, "wrapper")):
    LEAVES[f"memory_{_depth}x{_width}"] = (
        SinglePortMemory(_depth, _width, _granularity, _technology), checks.memory, (_depth, _width, _granularity), [{}])
for _encoder, _levels, _lanes, _bits in (("tycc", 16, 16, 1), ("tycc", 4, 32, 4), ("trgb", 85, 16, 2)):
    LEAVES[f"thermometer_{_encoder}_{_lanes}"] = (
        ThermometerEncoder(_encoder, _levels, _lanes, _bits), checks.thermometer, (_encoder, _levels, _lanes, _bits),
        [{}, {"idle": 0.5, "wait": 0.5}, {"wait": 0.9}])
for _encoder, _levels, _lanes, _size in (("tycc", 16, 16, 6), ("trgb", 85, 32, 3), ("grey", 2, 16, 4), ("binarize", 1, 16, 3)):
    LEAVES[f"levels_{_encoder}_{_lanes}"] = (
        ThermometerEncoder(_encoder, _levels, _lanes, None), checks.packed_levels, (_encoder, _levels, _lanes),
        [{"size": _size, "images": _images} | _pauses for _images in (1, 4) for _pauses in ({}, {"idle": 0.5, "wait": 0.5})])
for _lanes, _table in ((3, ()), (16, tuple(min(p + (p >> 7), 255) for p in range(256))), (64, tuple(p * 7 % 256 for p in range(256)))):
    LEAVES[f"bit_planes_{_lanes}"] = (BitPlanes(_lanes, _table), checks.bit_planes, (_lanes, _table), [{}, {"idle": 0.5, "wait": 0.5}])
for _shape in ((4, 16, 128, 16, 4), (4, 8, 96, 36, 9)):
    LEAVES[f"lgap_{_shape[0]}x{_shape[1]}"] = (Lgap(*_shape[:4]), checks.lgap, _shape, [{}, {"idle": 0.3}])
LEAVES["argmax"] = (Argmax(13, 37), checks.argmax, (13, 37), [{}, {"idle": 0.3}])
for _name, _sensor in camera_checks.SMALL.items():
    LEAVES[f"camera_{_name}"] = (CameraFrontEnd(_sensor, 5, camera_checks.SIZE), camera_checks.camera_frames, (_sensor,),
                                 [{"period": 3.0}, {"period": 4.7, "jitter": 0.3, "seed": 2}])
