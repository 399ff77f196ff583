import json
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "docs" / "benchmarks"


def printed(name):
    flags = ["--model", "0.5mb", "--batch", "8", "--steps", "1"]
    return json.loads(subprocess.run([sys.executable, FOLDER / name, *flags], capture_output=True, text=True, check=True).stdout)


@pytest.mark.slow
def test_the_plain_network_is_the_same():
    found = printed("plain_step.py")
    assert found["same_logits"] and set(found["images_per_second"]) == {"ours", "plain", "float"} and found["ours_over_plain"] > 0


@pytest.mark.slow
def test_train_step_prints_shares():
    found = printed("train_step.py")
    assert set(found["shares"]) == {"convolution", "encode", "augment", "optimizer"}
    assert all(0 < share < 1 for share in found["shares"].values())
    # How large a share is depends on what else the machine does; that both directions are counted does not.
    both = [found["operators"][name] for name in ("aten::mkldnn_convolution", "aten::convolution_backward")]
    assert found["shares"]["convolution"] > sum(both) - 0.001
