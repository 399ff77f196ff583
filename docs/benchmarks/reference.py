"""Speed of the numpy reference on 3mb with random weights: images/s of wall time, and images per second of CPU time.

    python docs/benchmarks/reference.py [images] [BLAS threads]

On a machine that does something else, CPU time with one thread is the figure to trust: threads of BLAS wait for each other.
"""

import os
import sys
import time

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 64
if len(sys.argv) > 2:
    os.environ["OPENBLAS_NUM_THREADS"] = sys.argv[2]  # numpy's BLAS reads it once

import numpy as np  # noqa: E402

from fbnn_hw.ir import models  # noqa: E402
from fbnn_hw.ir.network import Network  # noqa: E402
from fbnn_hw.reference import inference  # noqa: E402

rng = np.random.default_rng(0)
topology = models.build("3mb")
network = Network(topology, {name: rng.integers(0, 2, shape, dtype=np.uint8) for name, shape in topology.weight_shapes().items()})
images = rng.integers(0, 256, (COUNT, 3, 32, 32), dtype=np.uint8)
inference.logits(network, images[:2])
wall, cpu = time.perf_counter(), time.process_time()
inference.logits(network, images)
wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
print(f"{COUNT} images, {topology.macs() / 1e6:.1f} MMAC each: {COUNT / wall:.1f} images/s, {COUNT / cpu:.1f} images per CPU second, "
      f"BLAS threads {os.environ.get('OPENBLAS_NUM_THREADS', 'as many as cores')}, load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
