import os
import shutil
import socket
import threading
import time
from contextlib import contextmanager

import pytest

from fbnn_hw import design as designs

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CAMERA = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]


@pytest.fixture(scope="session")
def chromium():
    """A headless Chromium with a camera that shows a moving pattern."""
    if not CHROMIUM:
        pytest.skip("no Chromium on PATH; Debian: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=[*CAMERA, *(["--no-sandbox"] if os.geteuid() == 0 else [])])
        yield browser
        browser.close()


@pytest.fixture
def context(chromium):
    """A browser's profile of its own; what a page writes to the console as an error is a failure."""
    context = chromium.new_context(viewport={"width": 1280, "height": 1400})
    context.set_default_timeout(120_000)
    errors = []
    context.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    context.on("weberror", lambda error: errors.append(str(error.error)))
    yield context
    context.close()
    assert not errors


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A small `Design` that learns, with random weights."""
    from fbnn_hw.ir.models import CIFAR10, vgg
    from tests import strategies

    network = strategies.fill(vgg("tiny", CIFAR10, width=1 / 16, latent=64, hidden=16), 1)
    return designs.generate(network, "ice40", out=tmp_path_factory.mktemp("designs"), learn=True, max_classes=12, exemplars=60)


@pytest.fixture
def served():
    """served(page, opened): a running `Studio`."""
    uvicorn = pytest.importorskip("uvicorn", reason="pip install 'fbnn-hw[studio]'")
    from fbnn_hw.studio import server

    running = []

    def serve(page, opened):
        with socket.socket() as place:
            place.bind((server.ADDRESS, 0))
            port = place.getsockname()[1]
        studio = server.Studio(page, contextmanager(opened), port)
        program = uvicorn.Server(studio.config())
        thread = threading.Thread(target=program.run, daemon=True)
        thread.start()
        until = time.monotonic() + 60
        while not program.started and time.monotonic() < until:
            time.sleep(0.02)
        running.append((program, thread))
        return studio

    yield serve
    for program, thread in running:
        program.should_exit = True
        thread.join(10)
