"""Ctrl-C and kill -9 at random moments of the verbs that generate, simulate, build and teach."""

import signal
import time
import uuid

import pytest

from tests.quick import quick

from . import moments

NEEDS = {"studio": "uvicorn", "page": "ziglang", "import": "onnx"}


@pytest.mark.parametrize("name", quick(moments.HARDWARE, "generate", "learn", "flash", "studio", "report", "import", "doctor"))
def test_stopped_at_random_moments(name, world, tmp_path, record_property):
    if name in NEEDS:
        pytest.importorskip(NEEDS[name])
    moments.try_verb(name, world, tmp_path, record_property)


def test_a_command_is_heard_under_nohup(tmp_path):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = moments.start(["doctor"], tmp_path, uuid.uuid4().hex)
    finally:
        signal.signal(signal.SIGHUP, before)
    while process.poll() is None and not moments.heard(process.pid):
        time.sleep(0.002)
    heard = process.poll() is None
    process.kill()
    process.wait()
    assert heard
