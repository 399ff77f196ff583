"""The page in Chromium: before a board that is the reference, and as one file with its gates."""

import json
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from fbnn_hw import cli
from fbnn_hw import design as designs
from fbnn_hw.board import lesson
from fbnn_hw.board.interpreted import InterpretedBoard
from fbnn_hw.board.taught import Taught
from fbnn_hw.data.images import read
from fbnn_hw.ir.network import LATENT
from fbnn_hw.machine import protocol
from fbnn_hw.machine.protocol import Fault, Opcode, Space
from fbnn_hw.reference import inference
from fbnn_hw.simulate import wasm
from fbnn_hw.simulate.wasm import Gates
from fbnn_hw.studio import page as pages
from tests import kinds, strategies
from tests.rtl.test_accelerator import GAP, POOL, conv, dense, topology
from tests.studio.boards import UnreliableBoard

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "benchmarks"))

import page_times  # noqa: E402
import teach_page  # noqa: E402

FILE = ROOT / "docs" / "teach.html"
HOSTILE = "<img src=x onerror=alert(1)>\"'&amp;"


def opened(context, address):
    """The page, its first steps skipped."""
    page = context.new_page()
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.on_dialog = lambda dialog: page.errors.append(dialog.message)
    page.on("dialog", page.on_dialog)
    page.goto(address)
    if page.locator("#hint").is_visible():
        page.click("#hint-end")
    return page


SAID = "[...document.querySelectorAll('#trouble-text, .message:not([hidden])')].map((one) => one.textContent).join(' ')"
"""In the page: the messages that are shown."""


def until(page, condition, seconds=240):
    """Wait until an expression is true in the page, whose Content-Security-Policy lets nothing be evaluated from inside."""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"{condition}: {page.evaluate(SAID)} {page.errors}"
        time.sleep(0.05)


def answered(page):
    until(page, "document.getElementById('verdict').textContent !== '–'")


def rested(page):
    """Wait until nothing is done for the board."""
    until(page, "studio.board.state && !studio.board.busy && !studio.board.resting")


def taught_file(page):
    return bytes(page.evaluate("Array.from(studio.board.file())"))


def focus(page):
    """What has the keyboard: its id, or its label, or what it is."""
    return page.evaluate("(({id, ariaLabel, dataset, tagName}) => id || ariaLabel || dataset.key || tagName)(document.activeElement)")


def drop(page, selector, path):
    """Let a file or folder fall upon an element, as a hand with a mouse does."""
    browser, box = page.context.new_cdp_session(page), page.locator(selector).bounding_box()
    for step in ("dragEnter", "dragOver", "drop"):
        browser.send("Input.dispatchDragEvent", {
            "type": step, "x": box["x"] + 40, "y": box["y"] + 30, "data": {"items": [], "files": [str(path)], "dragOperationsMask": 1}})


def learned(page, name):
    """Wait for the outcome of a lesson, which is taught though the class may be close to another."""
    until(page, f"document.querySelector('#outcome strong')?.textContent.includes({json.dumps(name)})")
    if (button := page.get_by_text("Teach it all the same")).is_visible():
        button.click()
    until(page, "/^It (has learned|knows more of) /.test(document.querySelector('#outcome strong')?.textContent)")


def teach_mug(page, name="mug"):
    """Teach the ten pictures that the page brings along; returns them, uint8 (10, 3, S, S).

    A click on a button that the page disables at that moment is lost, so the page has to be at rest.
    """
    rested(page)
    page.fill("#name", name)
    page.click("#lesson-example")
    until(page, "studio.tray.length === 10")
    if page.locator("#rest").is_visible():
        page.uncheck("#rest")
    images = np.array(page.evaluate("studio.tray.map(({image}) => Array.from(image))"), np.uint8)
    page.click("#teach-now")
    learned(page, name)
    size = page.evaluate("studio.facts.size")
    images = images.reshape(-1, size, size, 3).transpose(0, 3, 1, 2)
    assert np.array_equal(images, np.concatenate([read(path, size, resize=True) for path in sorted(pages.PICTURES.glob("mug/*.jpg"))]))
    return images


def lesson_of_the_reference(learner, network, review, images, index):
    """What `lesson.teach` does, on the reference alone.  review: (labels, latents) of exemplars stored before, or None."""
    if review:
        labels, latents = review
        learner.store(latents, labels)
    latents = inference.layers(network, images)[LATENT].reshape(len(images), -1)
    for _ in range(1 if learner.config.adds else lesson.MOST):
        learner.learn(latents, [index] * len(images))
        if (learner.classify(latents) == index).sum() >= lesson.ENOUGH * len(images):
            break


@pytest.fixture
def board(small, served):
    board = UnreliableBoard(small)

    def line():
        yield board

    board.address = served(pages.write(small, server={"name": "a board", "patience": 20}), line).address
    return board


def test_a_lesson_of_the_page_is_that_of_the_reference(context, board, small):
    """Taught, taken back, saved, opened; a name that is markup is text."""
    page = opened(context, board.address)
    answered(page)
    rested(page)
    before = taught_file(page)
    images = teach_mug(page)
    learner = small.learner()
    lesson_of_the_reference(learner, small.network, lesson.review_exemplars(small), images, 10)
    rows = [row.inner_text().split() for row in page.locator("#outcome tr:has(td)").all()]
    assert [row[0] for row in rows] == list(small.classes) and {row[2] for row in rows} == {"of"}  # every class, changed or not
    after = taught_file(page)
    assert after == Taught((*small.classes, "mug"), learner.snapshot()).pack()
    assert board.snapshot() == learner.snapshot()
    page.click("#undo")
    until(page, "studio.board.known === 10")
    rested(page)
    assert taught_file(page) == before
    with page.expect_download() as download:
        page.click("#save")
    assert Path(download.value.path()).read_bytes() == before
    page.set_input_files("#open", {"name": "x.snapshot", "mimeType": "application/octet-stream", "buffer": after})
    until(page, "studio.board.known === 11")
    rested(page)
    assert board.snapshot() == learner.snapshot()
    teach_mug(page, HOSTILE)
    assert page.locator(".cards strong").last.text_content() == HOSTILE and page.locator("main img[src=x]").count() == 0
    page.click("#reset")
    page.click("#sure-yes")
    until(page, "studio.board.known === 10")
    rested(page)
    assert taught_file(page) == before and not page.errors


def socket_before(board):
    """The port of this machine at which a program reaches a `UnreliableBoard`, as it reaches a serial port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            with suppress(OSError), listener.accept()[0] as line:
                while data := line.recv(1 << 16):
                    board.write(data, 1)
                    line.sendall(board.read(60))

    threading.Thread(target=serve, daemon=True).start()
    return f"socket://127.0.0.1:{listener.getsockname()[1]}"


def test_what_the_page_saves_the_command_takes_and_the_page_takes_it_back(context, board, small, tmp_path):
    """Taught by the page, taken up and taught further by `fbnn-hw learn` on another board, opened by the page: not a byte is lost."""
    page = opened(context, board.address)
    answered(page)
    rested(page)
    teach_mug(page)
    rested(page)
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(tmp_path / "page.snapshot")
    other = UnreliableBoard(small)
    command = ["learn", "--port", socket_before(other), "--baud", "3000000", "--design", str(small.folder)]
    taken = ["--restore", str(tmp_path / "page.snapshot"), "--discard", "--snapshot", str(tmp_path / "command.snapshot")]
    assert cli.main([*command, *taken]) == 0
    assert (tmp_path / "command.snapshot").read_bytes() == (tmp_path / "page.snapshot").read_bytes() == taught_file(page)
    assert other.snapshot() == board.snapshot()
    picture = str(pages.PICTURES / "mug" / "01.jpg")
    assert cli.main([*command, "--label", "key", "--resize", picture, "--snapshot", str(tmp_path / "command.snapshot")]) == 0
    page.set_input_files("#open", tmp_path / "command.snapshot")
    until(page, "studio.board.known === 12")
    rested(page)
    assert page.evaluate("studio.board.names") == [*small.classes, "mug", "key"]
    assert taught_file(page) == (tmp_path / "command.snapshot").read_bytes() and board.snapshot() == other.snapshot()
    assert not page.errors


def new_line(page, board):
    """Give a page a line to a board that has lost its power; the page of another tab has let it go."""
    board.power()
    page.click("#trouble-retry")
    until(page, "studio.board.client !== null")
    rested(page)


def let_go(page):
    page.evaluate("studio.board.line.close(); studio.board.lost('closed')")
    until(page, "!document.getElementById('trouble-retry').hidden")


def settled(page):
    """Wait until what a tab has taught is in the entry of all tabs alone."""
    until(page, r"Object.keys(localStorage).every((key) => !/^fbnn-hw \w+ \d+ /.test(key))")


def taught_names(page):
    return page.evaluate("studio.board.names.slice(10)")


def test_what_one_tab_taught_another_does_not_replace(context, board, tmp_path):
    """The other tab says so before its own lesson, and gives it as a file."""
    first = opened(context, board.address)
    answered(first)
    rested(first)
    let_go(first)
    board.power()
    second = opened(context, board.address)
    answered(second)
    rested(second)
    assert not first.locator("#kept").is_visible() and not second.locator("#kept").is_visible()  # nobody has taught yet
    teach_mug(second, "cup")
    rested(second)
    until(first, "!document.getElementById('kept').hidden")
    assert "Another tab has taught this chip" in first.locator("#kept-text").inner_text()
    let_go(second)
    new_line(first, board)
    teach_mug(first, "mug")
    rested(first)
    assert first.locator("#kept").is_visible() and not second.locator("#kept").is_visible()
    first.once("dialog", lambda dialog: dialog.dismiss())
    with first.expect_download() as download:
        first.click("#kept-save")
    download.value.save_as(tmp_path / "mug.snapshot")
    assert Taught.read(tmp_path / "mug.snapshot").names[10:] == ("mug",)
    first.close(run_before_unload=True)
    board.power()
    third = opened(context, board.address)
    answered(third)
    rested(third)
    assert taught_names(third) == ["cup"] and not third.locator("#kept").is_visible()
    third.set_input_files("#open", tmp_path / "mug.snapshot")
    until(third, "studio.board.names[10] === 'mug'")
    assert not first.errors + second.errors + third.errors


def test_two_tabs_that_write_in_the_same_moment(context, board, tmp_path):
    """Each has read the entry before the other one wrote it: the one that is overwritten says so, and the next tab has its lesson too."""
    first = opened(context, board.address)
    answered(first)
    rested(first)
    let_go(first)
    board.power()
    second = opened(context, board.address)
    answered(second)
    rested(second)
    first.evaluate("""() => {  // hears nothing of the other tab, and reads what was there before
        const then = {...localStorage}, read = Storage.prototype.getItem;
        Storage.prototype.getItem = function (key) { return window.late ? read.call(this, key) : then[key] ?? null; };
        window.addEventListener("storage", (event) => window.late || event.stopImmediatePropagation(), {capture: true});
    }""")
    first.evaluate("const {store} = studio; store.replaced = () => window.late && Object.getPrototypeOf(store).replaced.call(store)")
    second.evaluate("studio.store.replaced = studio.store.settle = () => {}")  # and the other one not yet of this one
    teach_mug(second, "cup")
    rested(second)
    let_go(second)
    new_line(first, board)
    teach_mug(first, "mug")
    rested(first)
    first.evaluate("window.late = true")
    second.evaluate("delete studio.store.replaced; delete studio.store.settle; studio.store.settle()")
    assert "Another tab has taught this chip" in second.locator("#kept-text").inner_text()
    second.evaluate("studio.store.saved = true")
    first.evaluate("""for (const key of Object.keys(localStorage).filter((key) => key.split(" ").length === 4)) {
        localStorage.setItem(key, JSON.stringify({...JSON.parse(localStorage.getItem(key)), at: 0}));
    }""")
    first.close()
    second.close()
    board.power()
    third = opened(context, board.address)
    answered(third)
    rested(third)
    assert taught_names(third) == ["mug"] and third.locator("#beside").is_visible()
    with third.expect_download() as download:
        third.click("#beside-save")
    download.value.save_as(tmp_path / "cup.snapshot")
    assert Taught.read(tmp_path / "cup.snapshot").names[10:] == ("cup",) and third.locator("#beside").is_hidden()
    settled(third)
    assert not first.errors + second.errors + third.errors


FORBIDDEN = "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('no', 'SecurityError'); }})"
FULL = """Storage.prototype.setItem = function () { throw new DOMException('full', 'QuotaExceededError'); }"""


@pytest.mark.parametrize("script, words", [(FORBIDDEN, "its storage is forbidden"), (FULL, "its storage is full")])
def test_a_browser_that_keeps_nothing_is_said_before_a_lesson(script, words, context, board, tmp_path):
    context.add_init_script(script)
    page = opened(context, board.address)
    answered(page)
    rested(page)
    assert words in page.locator("#kept-text").inner_text() and page.locator("#kept").is_visible()
    page.remove_listener("dialog", page.on_dialog)
    asked = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    teach_mug(page)
    rested(page)
    with page.expect_download() as download:
        page.click("#kept-save")
    download.value.save_as(tmp_path / "mug.snapshot")
    assert Taught.read(tmp_path / "mug.snapshot").names[10:] == ("mug",)
    page.click("#undo")
    until(page, "studio.board.known === 10")
    teach_mug(page, "cup")
    rested(page)
    page.reload()  # what is in no file is asked about
    assert asked == ["beforeunload"]


def test_storage_that_fills_up_keeps_the_state_without_its_pictures(context, board):
    page = opened(context, board.address)
    answered(page)
    rested(page)
    page.evaluate("""for (const size of [2 ** 20, 2 ** 12]) {
        try {
            for (let n = 0; ; n++) localStorage.setItem(`${size} ${n}`, 'x'.repeat(size));
        } catch { /* full */ }
    }
    for (let n = 0; n < 8; n++) localStorage.removeItem(`${2 ** 12} ${n}`);""")
    teach_mug(page)
    rested(page)
    kept = page.evaluate("Object.entries(localStorage).find(([key]) => /^fbnn-hw \\w+ \\d+$/.test(key))[1]")
    assert not json.loads(kept)["thumbnails"] and not page.locator("#kept").is_visible()
    page.reload()
    answered(page)
    rested(page)
    assert taught_names(page) == ["mug"] and not page.errors


def test_what_cannot_be_read_again_stays(context, board):
    page = opened(context, board.address)
    answered(page)
    rested(page)
    teach_mug(page)
    rested(page)
    settled(page)
    page.evaluate("""for (const key of Object.keys(localStorage).filter((key) => key !== 'fbnn-hw tour')) {
        const kept = JSON.parse(localStorage.getItem(key));
        localStorage.setItem(key, JSON.stringify({...kept, file: 'A' + kept.file.slice(1)}));
    }""")
    before = page.evaluate("JSON.stringify(localStorage)")
    let_go(page)
    board.power()
    again = opened(context, board.address)
    answered(again)
    rested(again)
    assert "cannot be read by this page" in again.locator("#kept-text").inner_text()
    teach_mug(again, "cup")
    rested(again)
    assert again.evaluate("JSON.stringify(localStorage)") == before and not again.errors


def test_fewer_names_than_classes(context, board, small, tmp_path):
    """A legal file whose one name is that of a later class: program and page give the others names of their own, and can save it again."""
    page = opened(context, board.address)
    answered(page)
    rested(page)
    (tmp_path / "few.snapshot").write_bytes(Taught(("automobile",), small.learner().snapshot()).pack())
    other = InterpretedBoard(small)
    assert cli.main(["learn", "--port", socket_before(other), "--baud", "3000000", "--design", str(small.folder), "--discard",
                     "--restore", str(tmp_path / "few.snapshot"), "--snapshot", str(tmp_path / "again.snapshot")]) == 0
    page.set_input_files("#open", tmp_path / "few.snapshot")
    until(page, "studio.board.names[0] === 'automobile'")
    rested(page)
    assert taught_file(page) == (tmp_path / "again.snapshot").read_bytes()
    assert page.evaluate("studio.board.names") == ["automobile", "class 1", *small.classes[2:]]
    assert not page.errors


def test_one_name_in_two_spellings(context, board):
    page = opened(context, board.address)
    answered(page)
    teach_mug(page, "caf\u00e9")
    rested(page)
    page.fill("#name", "cafe\u0301")
    assert page.locator("#name-help").inner_text() == "It knows this class; the lesson goes on with it."
    page.click("#lesson-example")
    page.click("#teach-now")
    until(page, "studio.board.past.length === 2")
    rested(page)
    assert page.evaluate("studio.board.names.slice(10)") == ["caf\u00e9"] and not page.errors


def test_a_board_that_goes_and_comes_back(context, board, small):
    page = opened(context, board.address)
    answered(page)
    rested(page)
    teach_mug(page)
    rested(page)
    taught = board.snapshot()
    second = opened(context, board.address)
    until(second, "document.getElementById('trouble-text').textContent.includes('another page has the board')")
    second.close()
    board.unplugged = True
    until(page, "document.getElementById('trouble-text').textContent.includes('plug the board in again')")
    board.power()  # it has forgotten all
    board.unplugged = False
    page.click("#trouble-retry")
    until(page, "document.getElementById('trouble').hidden")
    rested(page)
    until(page, "studio.board.known === 11")
    page.evaluate("studio.board.classify(new Uint8Array(studio.facts.size ** 2 * 3))")
    assert board.snapshot() == taught and not page.errors


def test_bad_input_is_a_sentence(context, board):
    page = opened(context, board.address)
    answered(page)
    for name, files, words in (
            ("#files", [{"name": "x.png", "mimeType": "image/png", "buffer": b"no picture"}], "x.png is no picture"),
            ("#lesson-files", [{"name": f"{n}.png", "mimeType": "image/png", "buffer": b"x"} for n in range(300)], "Only the first 200"),
            ("#open", {"name": "x.snapshot", "mimeType": "a/b", "buffer": b"FBNN"}, "damaged or another one")):
        page.set_input_files(name, files)
        until(page, f"{SAID}.includes({json.dumps(words)})")
    picture = str(pages.PICTURES / "mug" / "01.jpg")
    for count in (1, 2):  # the same file twice
        page.set_input_files("#lesson-files", picture)
        until(page, f"studio.tray.length === {count}")
    assert page.locator("#name-help").text_content() == "Type a name for the class, such as mug."
    page.fill("#name", "mug")
    page.click("#freeze")
    until(page, "studio.board.frozen && !studio.board.busy")
    assert page.locator("#name-help").text_content().startswith("The chip is frozen") and page.locator("#teach-now").is_disabled()
    page.set_input_files("#lesson-files", [picture] * 100)
    until(page, f"{SAID}.includes('Only 58 of the pictures were taken')")
    page.click("#camera")
    until(page, "!document.getElementById('video').hidden")
    page.evaluate("void document.getElementById('video').srcObject.getTracks()[0].dispatchEvent(new Event('ended'))")
    until(page, f"{SAID}.includes('The camera went away')")
    page.fill("#name", " mug")
    assert page.locator("#name-help").text_content().startswith("The name begins or ends with a blank")
    page.evaluate("void (navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('x', 'NotAllowedError')))")
    page.click("#camera")
    until(page, f"{SAID}.includes('The camera was refused')")
    assert not page.errors


def test_a_board_that_is_busy_for_the_page_before_is_asked_again(context, board):
    """A page that is opened again in the middle of a picture does not wait as long as a slow board may take: here 40 s."""
    board.deaf = 1
    page = opened(context, board.address)
    until(page, "studio.board.client !== null", 25)
    answered(page)


def test_what_is_asked_of_the_board_does_not_wait_for_pictures(context, board):
    """With the camera on, no picture goes to the board between the requests that read its state; one shown meanwhile is asked about."""
    page = opened(context, board.address)
    answered(page)
    rested(page)
    page.click("#camera")
    until(page, "!document.getElementById('video').hidden")
    page.evaluate("document.getElementById('verdict').textContent = '–'")
    answered(page)
    page.evaluate("""() => {
      const {board} = studio, classify = board.classify.bind(board);
      window.amid = 0;
      board.classify = (image) => {
        window.amid += Boolean(board.busy);
        return classify(image);
      };
    }""")
    for _ in range(3):
        page.evaluate("void studio.board.change('reading', (client) => studio.board.read(client))")
        rested(page)
    page.evaluate("void studio.board.change('waiting', () => new Promise((done) => { window.go = done; }))")
    page.set_input_files("#files", str(pages.PICTURES / "mug" / "01.jpg"))
    until(page, "document.getElementById('video').hidden")
    page.evaluate("document.getElementById('verdict').textContent = '–'")
    page.evaluate("go()")
    answered(page)
    assert page.evaluate("amid") == 0 and not page.errors


def test_a_camera_that_is_turned_on_before_the_board_answers_stays_on(context, board):
    page = context.new_page()
    page.add_init_script("""const play = HTMLMediaElement.prototype.play;
        const gate = new Promise((done) => { window.go = done; });
        HTMLMediaElement.prototype.play = async function () {
          await gate;
          if (!this.srcObject) throw new DOMException("interrupted", "AbortError");
          return play.call(this);
        };""")
    board.unplugged = True
    page.goto(board.address)
    page.click("#hint-end")
    until(page, "!document.getElementById('trouble').hidden")
    page.click("#camera")
    until(page, "document.getElementById('video').srcObject !== null")
    board.unplugged = False
    page.click("#trouble-retry")
    until(page, "studio.board.client !== null")
    rested(page)
    page.evaluate("go()")
    until(page, "!document.getElementById('video').hidden", 20)
    answered(page)
    assert page.locator("#trouble").is_hidden()


def test_the_keyboard_goes_on_where_it_was(context, board):
    """After a lesson at what it gave, after a picture that was taken out at the next, after a question at what it was about."""
    page = opened(context, board.address)
    answered(page)
    rested(page)
    teach_mug(page)
    rested(page)
    assert focus(page) == "outcome"
    page.click("#lesson-example")
    until(page, "studio.tray.length === 10")
    page.locator(".thumb button").first.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("studio.tray.length") == 9 and focus(page) == "Take picture 2 out"
    page.get_by_label("Forget the stored pictures of mug").focus()
    page.keyboard.press("Enter")
    until(page, "document.getElementById('sure').open")
    assert focus(page) == "sure-no"
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    until(page, "!studio.board.state.labels.includes(10)")
    rested(page)
    assert focus(page) == "card of mug" and not page.errors


def test_the_bundle_has_every_module_once():
    text, device = pages.bundle(pages.PAGE), pages.bundle(pages.DEVICE)
    assert not re.search(r"^(import|export)\b", text, re.MULTILINE)
    names = re.findall(r"^(?:const|let|class|function|async function) (\w+)", text, re.MULTILINE)
    assert len(names) > 60 and len(set(names)) == len(names)
    there = {path.name for path in pages.WEB.glob("*.mjs")} - {"gates.mjs", "gates_worker.mjs", pages.DEVICE}
    modules = [re.findall(r"^// ---- (\w+\.mjs)$", each, re.MULTILINE) for each in (text, device)]
    assert sorted(modules[0]) == sorted(there) and set(modules[1]) <= there | {pages.DEVICE} and len(set(modules[1])) == len(modules[1])


@pytest.mark.skipif(not FILE.exists(), reason="no docs/teach.html")
def test_the_file_fetches_nothing():
    text = FILE.read_text()
    assert len(text) < 1_500_000 and "default-src 'none'" in text
    assert not re.search(r'(src|href)="(https?:)?//', text) and "fetch(" not in text and "XMLHttpRequest" not in text


@pytest.fixture(scope="module")
def design(tmp_path_factory):
    """The design of docs/teach.html."""
    return teach_page.made(tmp_path_factory.mktemp("teach"))


PORTS = """
  class Port {
    constructor(name) { Object.assign(this, {name, opened: 0, forgotten: false}); }
    async open() {
      if (this.readable) throw new DOMException("it is open", "InvalidStateError");
      this.opened++;
      this.readable = new ReadableStream();
      this.writable = new WritableStream({write() { throw new Error("nobody listens"); }});
    }
    async close() { this.readable = this.writable = null; }
    async forget() { this.forgotten = true; }
  }
  window.ports = [];
  Object.defineProperty(navigator, "serial", {value: {
    async getPorts() { return window.ports.filter((port) => !port.forgotten); },
    async requestPort() { return window.ports[window.ports.push(new Port(window.ports.length)) - 1]; }}});
"""
"""Ports of Web Serial at which nobody answers; each choice gives another one."""


def test_a_port_at_which_no_board_answers_is_given_back(context, small, tmp_path):
    """The browser asks for a port again, and takes neither the wrong one nor one that the page still holds."""
    (tmp_path / "board.html").write_text(pages.write(small), encoding="utf-8")
    page = context.new_page()
    page.add_init_script(PORTS)
    page.goto((tmp_path / "board.html").as_uri())  # without gates the serial port is the first of its lines
    for choice in (1, 2):
        until(page, f"window.ports.length === {choice} && {SAID}.includes('plug it in again')")
        until(page, f"window.ports[{choice - 1}].forgotten && !window.ports[{choice - 1}].readable")
        page.click("#trouble-retry")
    until(page, "window.ports.length === 3")


@pytest.mark.skipif(not FILE.exists(), reason="no docs/teach.html")
def test_the_file_is_what_its_command_writes(design):
    """But for the bytes of the compiler."""
    def without_gates(text):
        return re.sub(r'"gates":\{"module":"[^"]*"', '"gates":{', text)

    files = {name: design.read(name) for name in ("weights.hex",)}
    again = pages.write(design, Gates(b"", files))
    assert without_gates(FILE.read_text()) == without_gates(again), "run python docs/benchmarks/teach_page.py"
    guide = teach_page.GUIDE.read_text(encoding="utf-8")
    assert teach_page.sized(guide, FILE.read_text(encoding="utf-8")) == guide, "run python docs/benchmarks/teach_page.py"


@pytest.mark.skipif(not FILE.exists(), reason="no docs/teach.html")
def test_the_file_teaches_by_its_gates(context, design, tmp_path):
    """From a double click to a recognised mug, network off; the same snapshot as the reference, byte for byte; a folder is dropped."""
    context.set_offline(True)
    page = opened(context, FILE.as_uri())
    until(page, "document.getElementById('verdict').textContent === 'I know nothing yet'")
    rested(page)
    images = teach_mug(page)
    learner = design.learner()
    lesson_of_the_reference(learner, design.network, None, images, 0)
    assert taught_file(page) == Taught(("mug",), learner.snapshot()).pack()
    page.click("#examples button >> nth=0")
    until(page, "['mug', 'unknown'].includes(document.getElementById('verdict').textContent)")
    page.click("#undo")
    until(page, "studio.board.known === 0")
    rested(page)
    shutil.copytree(pages.PICTURES / "mug", tmp_path / "things" / "mug")
    (tmp_path / "things" / "notes.txt").write_text("no picture")
    drop(page, "#teach", tmp_path / "things")
    until(page, f"studio.tray.length === 10 && {SAID}.includes('notes.txt is no picture')")
    assert not page.errors


def answers_of_the_gates(messages, page=FILE):
    """What the gates in a page answer to messages, one after the other."""
    told = subprocess.run(["node", str(Path(__file__).parent / "check_gates.mjs"), str(page)], text=True, capture_output=True, timeout=120,
                          input=json.dumps([message.hex() for message in messages]))
    assert told.returncode == 0, told.stderr
    return [bytes.fromhex(text) for text in json.loads(told.stdout)]


def check_answers(design, page):
    """Each request, repeated or refused: the bytes of the reply are those of the reference behind the same protocol."""
    plan, image = design.config.learning, np.random.default_rng(4).integers(0, 256, 3 * design.config.size ** 2, np.uint8).tobytes()
    counters = -(-plan.learn_base * plan.pixels // 16) * 16  # of some first classes, at an address that begins 16 words in a row
    words = protocol.words_bytes([7, 7], max(16, design.config.lanes) // 8)
    limit = protocol.words_bytes([3 * design.learner().head.fan_in], max(16, design.config.lanes) // 8)  # which `other` does not reach
    other = image[::-1]
    new, flags = len(design.classes), range(8 if plan.unknown else 4)
    requests = [
        (Opcode.IDENTIFY, b""), (Opcode.LEARN, protocol.operand(new, 0)), *((Opcode.CLASSIFY | flag, image) for flag in flags),
        (Opcode.LEARN, protocol.operand(new, 0)), None, *[(Opcode.POKE | Space.COUNTS, protocol.operand(new, 1) + limit)] * plan.unknown,
        *((Opcode.CLASSIFY | flag, other) for flag in flags),
        (Opcode.LEARN, protocol.operand(12, 0)), (Opcode.STORE, protocol.operand(3, 0)), (Opcode.STORE, protocol.operand(11, 0)),
        (Opcode.LEARN, protocol.operand(1 << 20, 0)), (Opcode.REHEARSE, protocol.operand(0, 3)),
        *((Opcode.PEEK | space, protocol.operand(first, count)) for space, first, count in (
            (Space.LABELS, 0, 2), (Space.COUNTS, 8, 4), (Space.PRESENTED, 8, 4), (Space.SCALARS, 0, 3), (Space.NOISE, 0, 31),
            (Space.MASK, 0, 63), (Space.PICK, 0, 47), (Space.BANKS, counters, 16))),
        (Opcode.FREEZE, protocol.operand(0, 1)), (Opcode.LEARN, protocol.operand(new, 0)), (Opcode.FREEZE, protocol.operand(0, 0)),
        (Opcode.POKE | Space.LABELS, protocol.operand(0, 2) + words), (Opcode.PEEK | Space.LABELS, protocol.operand(0, 2)),
        (Opcode.CLASSIFY | protocol.LOGITS, image), (Opcode.RESET, protocol.operand(0, 0)),
        (Opcode.PEEK | Space.SCALARS, protocol.operand(0, 3)), (Opcode.LEARN, protocol.operand(2, 0))]
    messages = []
    for number, request in enumerate(requests):
        messages.append(protocol.encode(*request, number) if request else messages[-1])
    board, expected = UnreliableBoard(design), []
    for message in messages:
        board.write(message, 1)
        expected.append(board.read(60))
    assert answers_of_the_gates(messages, page) == expected


@pytest.mark.skipif(not shutil.which("node"), reason="no node")
def test_the_gates_answer_as_a_board_does(design):
    check_answers(design, FILE)


@pytest.mark.skipif(not shutil.which("node"), reason="no node")
@pytest.mark.slow
def test_the_gates_of_a_design_whose_weights_are_streamed(small, tmp_path):
    """Compiled by the command: banks in the model of an SPRAM, weights from a file in the place of the flash."""
    pytest.importorskip("ziglang", reason="pip install 'fbnn-hw[studio]'")
    assert small.config.weights == "stream"
    assert cli.main(["studio", str(small.folder), "--page", str(tmp_path / "page.html")]) == 0
    check_answers(small, tmp_path / "page.html")


@pytest.mark.skipif(not shutil.which("node"), reason="no node")
def test_the_gates_refuse_what_is_no_request():
    good = protocol.encode(Opcode.PEEK, protocol.operand(0, 1), 5)
    wrong = {
        Fault.CRC: good[:-1] + bytes([good[-1] ^ 1]), Fault.OPCODE: protocol.encode(0x77, b"", 5), Fault.TIMEOUT: good[:-1],
        Fault.LENGTH: protocol.encode(Opcode.PEEK, protocol.operand(0, 0), 5)}
    longer = protocol.encode(Opcode.STATUS, b"x", 5), protocol.encode(Opcode.POKE, protocol.operand(0, 2) + b"x", 5)
    expected = [protocol.encode(protocol.ERROR, bytes([fault]), 5) for fault in (*wrong, Fault.LENGTH, Fault.LENGTH)]
    *answers, twice, none = answers_of_the_gates([*wrong.values(), *longer, b"noise" + 2 * protocol.encode(Opcode.IDENTIFY), b""])
    assert answers == expected and twice[:len(twice) // 2] == twice[len(twice) // 2:] and none == b""


def test_a_page_that_begins_with_no_class(context, served, tmp_path):
    """A design of prototypes: the page says that nothing is known, is taught two classes, and takes one back."""
    network = strategies.on_engine(strategies.fill(topology(8, 2, conv(16), POOL, GAP, dense(32, name=LATENT)), 5))
    design = designs.generate(network, "ice40", out=tmp_path, learn="prototypes", max_classes=4, outputs=4)
    board = UnreliableBoard(design)

    def line():
        yield board

    page = opened(context, served(pages.write(design, server={"name": "a board", "patience": 20}), line).address)
    until(page, "document.getElementById('verdict').textContent === 'I know nothing yet'")
    learner = design.learner()
    for number, name in enumerate(("mug", "key")):
        images = teach_mug(page, name)
        latents = inference.layers(network, images)[LATENT].reshape(len(images), -1)
        learner.learn(latents, [number] * len(images))
        rested(page)
        assert board.snapshot() == learner.snapshot()
    page.click("#undo")
    until(page, "studio.board.known === 1")
    rested(page)
    assert not page.errors


@pytest.fixture(scope="module")
def mean(tmp_path_factory):
    """A small `Design` of the page's rule, with random weights: it begins empty, answers "unknown" and forgets."""
    network = strategies.on_engine(strategies.fill(topology(8, 2, conv(16), POOL, GAP, dense(32, name=LATENT)), 5))
    return designs.generate(network, "ice40", out=tmp_path_factory.mktemp("mean"), outputs=4, **teach_page.LEARNER)


def page_of(context, served, design, open_=opened):
    """(board, page) of a design before a board that is the reference."""
    board = UnreliableBoard(design)

    def line():
        yield board

    return board, open_(context, served(pages.write(design, server={"name": "a board", "patience": 20}), line).address)


def pictures_of(seed, tmp_path, count=6):
    """Paths of pictures of 8 x 8 that are alike."""
    from PIL import Image

    source = np.random.default_rng(seed)
    base, paths = source.integers(0, 256, (8, 8, 3)), []
    for number in range(count):
        paths.append(tmp_path / f"{seed}-{number}.png")
        Image.fromarray(np.clip(base + source.integers(-20, 21, base.shape), 0, 255).astype(np.uint8)).save(paths[-1])
    return paths


def teach(page, name, paths):
    rested(page)
    page.fill("#name", name)
    page.set_input_files("#lesson-files", paths)
    until(page, f"studio.tray.length === {len(paths)}")
    page.click("#teach-now")
    learned(page, name)
    rested(page)


def latents_of(design, paths):
    return inference.latents(design.network, np.concatenate([read(path, 8) for path in paths]))


def test_unknown_and_forget(context, served, mean, tmp_path):
    """Each answer is the learner's, "unknown" too; a class is forgotten, all others stay, it comes back, its number is taken again."""
    from PIL import Image

    board, page = page_of(context, served, mean)
    learner, names = mean.learner(), ["a", "b", "c"]
    shown = [pictures_of(seed, tmp_path) for seed in range(8)]
    for number, name in enumerate(names):
        teach(page, name, shown[number])
        learner.learn(latents_of(mean, shown[number]), [number] * 6)
        assert board.snapshot() == learner.snapshot()
    said, plain = set(), [tmp_path / "black.png", tmp_path / "red.png"]
    for path, colour in zip(plain, ("black", "red")):
        Image.new("RGB", (8, 8), colour).save(path)
    for paths in (*shown, plain):
        for path in paths[:2]:
            latent = latents_of(mean, [path])
            nearest = names[int(learner.classify(latent)[0])]
            expected = "unknown" if learner.unknown(latent)[0] else nearest
            page.evaluate("document.getElementById('verdict').textContent = '–'")
            page.set_input_files("#files", path)
            answered(page)
            assert page.locator("#verdict").inner_text() == expected
            why = f"No class fits well enough. The nearest is {nearest}; if it is one, teach more pictures of it."
            assert page.locator("#verdict-why").inner_text() == (why if expected == "unknown" else "")
            assert page.locator("#bars .first").count() == (expected != "unknown")
            said.add(expected)
    assert "unknown" in said and len(said) > 1
    whole = learner.snapshot()
    page.get_by_label("Forget b", exact=True).click()
    page.click("#sure-yes")
    until(page, "studio.board.names[1] === null")
    rested(page)
    learner.forget(1)
    assert board.snapshot() == learner.snapshot()
    assert taught_file(page) == Taught(("a", None, "c"), learner.snapshot()).pack()
    assert page.locator(".cards strong").all_inner_texts() == ["a", "c"]
    page.locator("#outcome").get_by_text("Undo").click()
    until(page, "studio.board.names[1] === 'b'")
    rested(page)
    assert board.snapshot() == whole
    page.get_by_label("Forget b", exact=True).click()
    page.click("#sure-yes")
    until(page, "studio.board.names[1] === null")
    teach(page, "d", shown[5])
    learner.learn(latents_of(mean, shown[5]), [1] * 6)
    assert board.snapshot() == learner.snapshot() and page.evaluate("studio.board.names") == ["a", "d", "c"]
    page.reload()
    until(page, "studio.board.state && studio.board.names.length === 3")
    rested(page)
    assert taught_file(page) == Taught(("a", "d", "c"), learner.snapshot()).pack() and not page.errors


def test_a_class_that_is_close_is_said_before_it_is_taught(context, served, mean, tmp_path):
    """The words of `fbnn-hw learn`'s measure; nothing is learned until the person says so, and other pictures end the question."""
    board, page = page_of(context, served, mean)
    cup, mug = pictures_of(4, tmp_path, 10), pictures_of(4, tmp_path, 20)[10:]
    teach(page, "cup", cup)
    before = board.snapshot()
    learner = mean.learner()
    learner.learn(latents_of(mean, cup), [0] * 10)
    near = lesson.close(learner, ["cup"], 1, latents_of(mean, mug))
    page.fill("#name", "mug")
    page.set_input_files("#lesson-files", mug)
    until(page, "studio.tray.length === 10")
    page.click("#teach-now")
    until(page, "document.querySelector('#outcome strong')?.textContent === 'mug looks much like cup.'")
    assert f"It would take {near.mistaken} of these 10 pictures for cup." in page.locator("#outcome").inner_text()
    page.get_by_text("Not yet").click()
    assert board.snapshot() == before and page.evaluate("studio.tray.length") == 10 and page.locator("#outcome").inner_text() == ""
    page.click("#teach-now")
    until(page, "document.querySelector('#outcome strong')?.textContent === 'mug looks much like cup.'")
    page.locator(".thumb button").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("#outcome").inner_text() == "" and board.snapshot() == before
    page.click("#teach-now")
    until(page, "document.querySelector('#outcome strong')?.textContent === 'mug looks much like cup.'")
    page.get_by_text("Teach it all the same").click()
    until(page, "document.querySelector('#outcome strong')?.textContent === 'It has learned mug.'")
    rested(page)
    learner.learn(latents_of(mean, mug[1:]), [1] * 9)
    assert board.snapshot() == learner.snapshot() and not page.errors


def hold(page, count):
    """Hold the big button until so many pictures are there, as a hand does."""
    page.locator("#hold").hover()
    page.mouse.down()
    until(page, f"studio.tray.length >= {count}")
    page.mouse.up()


def plain(context, address):
    page = context.new_page()
    page.errors = []
    page.on("pageerror", lambda error: page.errors.append(str(error)))
    page.goto(address)
    return page


def step_of(page):
    """(text of the first steps, what they point at); nothing that they say lies over another part of the page."""
    [target] = page.evaluate("[...document.querySelectorAll('.pointed')].map(({id}) => id)")
    box = page.locator("#hint").bounding_box()
    for other in ("#stage", "#camera", "#name", "#hold", "#teach-now", "#verdict"):
        there = page.locator(other).bounding_box()
        apart = (there["x"] >= box["x"] + box["width"] or there["x"] + there["width"] <= box["x"]
                 or there["y"] >= box["y"] + box["height"] or there["y"] + there["height"] <= box["y"])
        assert apart, other
    return page.locator("#hint").inner_text(), target


def first_run(page):
    """From an empty page to the first own class recognised, by what the three steps say."""
    rested(page)
    text, target = step_of(page)
    assert text.startswith("Step 1 of 3.") and target == "camera"
    page.click("#camera")
    until(page, "!document.getElementById('video').hidden && document.getElementById('name').value === 'nothing'")
    text, target = step_of(page)
    assert "hold this button until there are 20 pictures" in text and target == "hold"
    hold(page, 20)
    text, target = step_of(page)
    assert text.startswith("Step 1 of 3.") and target == "teach-now"
    page.click("#teach-now")
    learned(page, "nothing")
    text, target = step_of(page)
    assert text.startswith("Step 2 of 3.") and target == "name"
    page.evaluate("show(1)")
    page.fill("#name", "mug")
    text, target = step_of(page)
    assert text.startswith("Step 2 of 3.") and target == "hold"
    hold(page, 10)
    text, target = step_of(page)
    assert text.startswith("Step 2 of 3.") and target == "teach-now"
    page.click("#teach-now")
    learned(page, "mug")
    text, target = step_of(page)
    assert text.startswith("Step 3 of 3.") and target == "answer"
    until(page, "document.getElementById('verdict').textContent === 'mug'")


SIZES = {"desk": (1366, 657), "phone": (390, 844)}


@pytest.mark.skipif(not FILE.exists(), reason="no docs/teach.html")
@pytest.mark.parametrize("size", SIZES)
def test_the_first_run(size, context):
    """The file with the network off: "nothing" first, then a thing; the steps do not come back; camera, button and answer in one view."""
    width, height = SIZES[size]
    context.add_init_script(page_times.FAKE)
    context.set_offline(True)
    page = plain(context, FILE.as_uri())
    page.set_viewport_size({"width": width, "height": height})
    first_run(page)
    page.evaluate("show(0)")
    until(page, "document.getElementById('verdict').textContent === 'nothing'")
    page.evaluate("scrollTo(0, 0)")
    for part in ("#stage", "#camera", "#hold", "#verdict", "#name"):
        box = page.locator(part).bounding_box()
        assert box["x"] >= 0 and box["y"] >= 0 and box["x"] + box["width"] <= width and box["y"] + box["height"] <= height, part
    page.evaluate("scrollTo(0, 10000)")
    assert (page.locator("#verdict").bounding_box()["y"] >= 0) == (size == "phone")  # it stays in view
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.click("#hint-end")
    page.reload()
    until(page, "studio.board.names.length === 2")
    rested(page)
    assert page.locator("#hint").is_hidden() and page.locator(".pointed").count() == 0 and not page.errors


def test_how_it_works_is_a_view_of_its_own(context, served, mean):
    board, page = page_of(context, served, mean)
    rested(page)
    assert page.locator("#how-view").is_hidden()
    page.click("#to-how")
    until(page, "location.hash === '#how' && document.getElementById('teach-view').hidden")
    assert page.locator("#to-how").is_hidden()
    words = page.locator("#word-list dt").all_inner_texts()
    assert {"Class", "Nothing", "Unknown", "Forget", "Fingerprint"} <= set(words) and "Rehearse" not in words
    assert len(page.locator("#word-list dd").all_inner_texts()) == len(words)
    page.click("#to-teach")
    until(page, "!document.getElementById('teach-view').hidden")
    page.goto(page.url.split("#")[0] + "#how")
    until(page, "document.getElementById('teach-view').hidden")
    page.go_back()
    until(page, "document.getElementById('how-view').hidden")
    assert not page.errors


def test_the_words_of_another_rule(context, board):
    page = opened(context, board.address)
    rested(page)
    page.click("#to-how")
    page.evaluate("document.getElementById('cycles').hidden = true")  # names of layers are the network's own
    words = page.locator("#word-list dt").all_inner_texts()
    assert "Rehearse" in words and not {"Unknown", "Forget"} & set(words)
    for plain_word in ("latent", "kbit", "exemplar", "logit", "product"):
        assert plain_word not in page.locator("main").inner_text().replace("Engineers call it the latent", "")


def test_a_choice_of_camera(context, served, mean):
    context.add_init_script("""
        const media = navigator.mediaDevices ?? {getUserMedia() {}, enumerateDevices() {}};
        const ask = media.getUserMedia.bind(media), list = media.enumerateDevices.bind(media);
        window.asked = [];
        media.getUserMedia = (wish) => {
          window.asked.push(wish.video.deviceId?.exact ?? "");
          return ask({video: true});
        };
        media.enumerateDevices = async () => [...await list(), {kind: "videoinput", deviceId: "second", label: "on a stand"}];""")
    board, page = page_of(context, served, mean)
    rested(page)
    assert page.locator("#which").is_hidden()
    page.click("#camera")
    until(page, "!document.getElementById('which').hidden")
    assert page.locator("#which option").all_inner_texts()[-1] == "on a stand"
    page.select_option("#which", "second")
    until(page, "asked.length === 2")
    assert page.evaluate("asked") == ["", "second"]
    until(page, "document.getElementById('video').srcObject !== null && !document.getElementById('video').hidden")
    assert not page.errors


def test_a_message_stands_beside_what_caused_it(context, board):
    page = opened(context, board.address)
    answered(page)
    rested(page)
    for place, button in (("look", "#files"), ("teach", "#lesson-files"), ("classes", "#open")):
        page.set_input_files(button, {"name": "x.png", "mimeType": "image/png", "buffer": b"no picture"})
        until(page, f"!document.querySelector('#{place} .message').hidden")
        assert page.locator("#trouble").is_hidden()
        page.evaluate("document.querySelectorAll('.message').forEach((one) => { one.hidden = true; })")


def test_a_lesson_rehearses_until_no_class_has_lost_a_tenth(context, served, small):
    """The states and words of the reference; where replays do not help, the class is taught again or the lesson taken back."""
    board, page = page_of(context, served, small)
    answered(page)
    rested(page)
    images = [f"new Uint8Array(studio.facts.size ** 2 * 3).map((_, n) => (n * {step}) % 251)" for step in (7, 11, 13)]
    page.evaluate(f"""() => {{
        window.lessons = [];
        const pictures = [{', '.join(images)}];
        window.run = async (label) => {{
            lessons.push(await studio.board.teach(pictures, label));
            return null;
        }};
    }}""")
    seen = set()
    for label in ("one", "two"):
        page.evaluate(f"run({json.dumps(label)})")
        time.sleep(0.2)
        rested(page)
        told = page.evaluate("""(({rehearsed, effects, label}) => ({rehearsed, label, effects}))(lessons.at(-1))""")
        lost = [one for one in told["effects"] if one["name"] != label and 10 * (one["before"] - one["after"]) > one["exemplars"]]
        assert told["rehearsed"] % 100 == 0 and (not lost or told["rehearsed"] == 1000)
        seen.add(bool(told["rehearsed"]))
    assert True in seen and not page.errors


def test_what_a_lesson_cost_has_its_ways_out_beside_it(context, board, small):
    """With rehearsals off: a class that lost more than a tenth can be taught again, or the lesson taken back."""
    page = opened(context, board.address)
    answered(page)
    rested(page)
    before = board.snapshot()
    teach_mug(page)
    rested(page)
    lost = page.evaluate("""studio.board.lesson.effects.filter(({name, exemplars, before, after}) =>
        name !== "mug" && 10 * (before - after) > exemplars).map(({name}) => name)""")
    assert lost, "the weights of this design make each lesson cost something"
    assert f"It forgot more than a tenth of {', '.join(lost)}." in page.locator(".lost").inner_text()
    page.get_by_text(f"Teach {lost[0]} again").click()
    until(page, f"studio.tray.length > 0 && document.getElementById('name').value === {json.dumps(lost[0])}")
    page.locator(".lost").get_by_text("Undo").click()
    until(page, "studio.board.known === 10")
    rested(page)
    assert board.snapshot() == before or board.snapshot() != small.learner().snapshot()
    assert not page.errors


def test_a_checkpoint_without_classes(context, served, tmp_path):
    """What `teach.pt` will be: the design begins empty, the page brings no examples of classes along, and is taught."""
    network = strategies.on_engine(strategies.fill(topology(8, 2, conv(16), POOL, GAP, dense(32, name=LATENT)), 5))
    empty = network.extractor(LATENT, classes=False)
    assert empty.topology.classes == ()
    design = teach_page.made(tmp_path, empty, pixels=None, lanes=None, outputs=None)
    assert {one["name"] for one in pages.examples(design)} == {"mug"} and design.classes == []
    board, page = page_of(context, served, design)
    until(page, "document.getElementById('verdict').textContent === 'I know nothing yet'")
    images = teach_mug(page)
    rested(page)
    learner = design.learner()
    lesson_of_the_reference(learner, design.network, None, images, 0)
    assert board.snapshot() == learner.snapshot() and not page.errors


def test_a_design_by_a_relative_path(tmp_path, monkeypatch):
    """The compiler has the build's folder as its own."""
    monkeypatch.chdir(tmp_path)
    design, seen = designs.generate(strategies.smallest_learner(), "ice40", out="here", learn=True), []
    monkeypatch.setattr(wasm, "version", lambda package: "any")
    monkeypatch.setattr(wasm, "_compile", lambda sources, folder, module: (seen.extend(sources), module.write_bytes(b"")))
    wasm.build(design)
    assert len(seen) == 3 and all(path.is_absolute() and path.is_file() for path in seen)


def test_files_become_what_the_program_reads(context, board, tmp_path):
    """Each of the twelve kinds, by the button; the two that a browser decodes to other bytes are refused."""
    page, paths = opened(context, board.address), []
    answered(page)
    for name, (data, _) in sorted(kinds.twelve(np.random.default_rng(kinds.seed())).items()):
        paths.append(tmp_path / name)
        paths[-1].write_bytes(data)
    page.set_input_files("#lesson-files", paths)
    until(page, f"{SAID}.endsWith('1 more of the files was refused.')")
    found = page.evaluate("studio.tray.map(({image}) => Array.from(image))")
    size = page.evaluate("studio.facts.size")
    taken = [path for path in paths if path.name not in ("cmyk.jpg", "large.jpg")]
    assert len(found) == len(taken) == 10
    for path, image in zip(taken, found):
        assert np.array_equal(image, read(path, size, resize=True)[0].transpose(1, 2, 0).ravel()), path.name
