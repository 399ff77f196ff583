"""Seconds that a person waits for the page that teaches, in a headless Chromium whose camera shows a moving pattern.

    python docs/benchmarks/page_times.py             docs/teach.html, opened as a file
    python docs/benchmarks/page_times.py ADDRESS     a page that is served, at the address that `fbnn-hw studio` prints
    python docs/benchmarks/page_times.py --added     what page and server add to the time of a board and its line
    python docs/benchmarks/page_times.py --picture   writes docs/img/teach.png: the page after its first run

Each line is the median of --runs openings.  The first run is what the page's three steps say: twenty pictures of an empty table are taught
as "nothing", then ten of a mug.  In place of the camera is a canvas that shows them.  A lesson is of the ten pictures that the page brings
along, from *Teach* to its outcome.  With --added the served page has the interpreted board in the place
of a board, whose own seconds are taken off.  Needs playwright and Chromium, as the tests of the page do.
"""

import argparse
import io
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

sys.path.insert(0, str(Path(__file__).parents[2]))

FILE = Path(__file__).parents[1] / "teach.html"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
CAMERA = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream"]
FAKE = """(() => {
  const canvas = document.createElement("canvas"), pen = canvas.getContext("2d"), pictures = [];
  let scene = 0, at = 0;
  canvas.width = canvas.height = 480;
  const draw = () => {
    at++;
    pen.fillStyle = `rgb(${150 + 9 * Math.sin(at / 7)}, ${150 + 5 * Math.cos(at / 3)}, 140)`;
    pen.fillRect(0, 0, 480, 480);
    pen.fillStyle = "#8a6d4b";
    pen.fillRect(0, 300 + 9 * Math.sin(at / 5), 480, 300);
    const picture = pictures[at % pictures.length];
    if (scene && picture) pen.drawImage(picture, 0, 0, 480, 480);
  };
  setInterval(draw, 100);
  window.show = (what) => {
    scene = what;
    for (const {data} of pictures.length ? [] : studio.facts.examples.filter(({kind}) => kind === "teach")) {
      pictures.push(Object.assign(new Image(), {src: data}));
    }
  };
  if (navigator.mediaDevices) navigator.mediaDevices.getUserMedia = async () => {
    draw();
    return canvas.captureStream(10);
  };
})();"""
"""In place of the camera: an empty table in changing light; after show(1) the ten pictures of a mug, one after the other."""
COUNT = """() => {
  const classify = studio.board.classify.bind(studio.board);
  window.answers = window.ms = 0;
  studio.board.classify = async (image) => {
    const begun = performance.now(), answer = await classify(image);
    window.answers++;
    window.ms += performance.now() - begun;
    return answer;
  };
}"""
WATCH_S, PORT = 5, 8766
COLOURS = 128
PICTURE = Path(__file__).parents[1] / "img" / "teach.png"


def until(page, condition):
    while not page.evaluate(condition):
        time.sleep(0.01)


def served(seconds):
    """Serve the page of a small design before the interpreted board, whose seconds at work are added to `seconds`; returns its address."""
    import uvicorn

    from fbnn_hw import design
    from fbnn_hw.board.interpreted import InterpretedBoard
    from fbnn_hw.ir.models import CIFAR10, vgg
    from fbnn_hw.studio import page, server
    from tests import strategies

    class Timed(InterpretedBoard):
        def _carried_out(self, opcode, payload):
            begun = time.monotonic()
            try:
                return super()._carried_out(opcode, payload)
            finally:
                seconds.append(time.monotonic() - begun)

    network = strategies.fill(vgg("small", CIFAR10, width=1 / 16, latent=64, hidden=16), 1)
    with tempfile.TemporaryDirectory() as folder:
        small = design.generate(network, "ice40", out=folder, learn=True, max_classes=12, exemplars=60)
        board = Timed(small)
        text = page.write(small, server={"name": "the interpreted board", "patience": 20})
    studio = server.Studio(text, contextmanager(lambda: iter([board])), PORT)
    program = uvicorn.Server(studio.config())
    threading.Thread(target=program.run, daemon=True).start()
    while not program.started:
        time.sleep(0.02)
    return studio.address


def added(browser):
    """{what: ms} of one opening of a page before the interpreted board."""
    seconds = []
    page = opened(browser, served(seconds))
    page.click("#camera")
    until(page, "studio.board.state && !studio.board.busy && answers > 0")
    before, ms, at = page.evaluate("answers"), page.evaluate("ms"), len(seconds)
    time.sleep(WATCH_S)
    count, ms, inside = page.evaluate("answers") - before, page.evaluate("ms") - ms, 1000 * sum(seconds[at:])
    return {"added to a picture by page and server, ms": (ms - inside) / count}


def opened(browser, address):
    """The page, its first steps skipped, with its answers counted."""
    context = browser.new_context(viewport={"width": 1280, "height": 1400})
    context.set_default_timeout(120_000)
    page = context.new_page()
    page.goto(address)
    if page.locator("#hint").is_visible():
        page.click("#hint-end")
    page.evaluate(COUNT)
    return page


def hold(page, count):
    page.locator("#hold").hover()
    page.mouse.down()
    until(page, f"studio.tray.length >= {count}")
    page.mouse.up()


def first_run(browser, address, picture=None):
    """Seconds from opening a page that begins empty to its first own class recognised.  picture: file for a picture of the page then."""
    context = browser.new_context(viewport={"width": 1366, "height": 657})
    context.add_init_script(FAKE)
    begun, page = time.monotonic(), context.new_page()
    page.goto(address)
    page.click("#camera")
    for scene, name, count in (0, "nothing", 20), (1, "mug", 10):
        until(page, "!document.getElementById('video').hidden && studio.board.state")
        page.evaluate(f"show({scene})")
        page.fill("#name", name)
        hold(page, count)
        page.click("#teach-now")
        until(page, f"document.querySelector('#outcome strong')?.textContent === 'It has learned {name}.'")
    until(page, "document.getElementById('verdict').textContent === 'mug'")
    seconds = time.monotonic() - begun
    if picture:
        page.click("#hint-end")
        page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
        until(page, "document.getElementById('verdict').textContent === 'mug'")
        Image.open(io.BytesIO(page.screenshot())).convert("RGB").quantize(COLOURS).save(picture, optimize=True)
    context.close()
    return seconds


def times(browser, address):
    """{what: seconds or pictures a second} of one opening of the page."""
    found = {"from opening to the first own class recognised, s": first_run(browser, address)}
    begun = time.monotonic()
    page = opened(browser, address)
    page.click("#camera")
    until(page, "!document.getElementById('video').hidden")
    before = page.evaluate("answers")
    until(page, f"answers > {before}")
    found["from opening to the first camera picture classified, s"] = time.monotonic() - begun
    until(page, "studio.board.state && !studio.board.busy && !studio.board.resting")
    before, since = page.evaluate("answers"), time.monotonic()
    time.sleep(WATCH_S)
    found["camera pictures a second"] = (page.evaluate("answers") - before) / (time.monotonic() - since)
    page.click("#camera")
    page.fill("#name", "mug")
    page.click("#lesson-example")
    until(page, "studio.tray.length === 10")
    since = time.monotonic()
    page.click("#teach-now")
    until(page, "document.querySelector('#outcome strong') !== null")
    found["a lesson of ten pictures, s"] = time.monotonic() - since
    page.click("#undo")
    until(page, "!studio.board.names.includes('mug') && studio.board.state && !studio.board.busy && !studio.board.resting")
    page.context.close()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", nargs="?", default=FILE.as_uri())
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--added", action="store_true")
    parser.add_argument("--picture", action="store_true")
    args = parser.parse_args()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=[*CAMERA, *(["--no-sandbox"] if os.geteuid() == 0 else [])])
        if args.picture:
            print(f"{PICTURE.name}: after {first_run(browser, args.address, PICTURE):.1f} s")
            return
        runs = [added(browser)] if args.added else [times(browser, args.address) for _ in range(args.runs)]
        browser.close()
    for what in runs[0]:
        print(f"{what:56} {statistics.median(run[what] for run in runs):6.2f}")


if __name__ == "__main__":
    main()
