import json
import subprocess
import sys
from pathlib import Path


def test_train_step_prints_shares():
    script = Path(__file__).parents[2] / "docs" / "benchmarks" / "train_step.py"
    done = subprocess.run([sys.executable, script, "--model", "0.5mb", "--batch", "8", "--steps", "1"], capture_output=True, text=True)
    found = json.loads(done.stdout)
    assert done.returncode == 0 and set(found["shares"]) == {"convolution", "encode", "augment", "optimizer"}
    assert all(0 < share < 1 for share in found["shares"].values()) and found["shares"]["convolution"] > 0.3
