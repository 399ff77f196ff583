"""A headless Chromium, spoken to in its DevTools protocol over a pipe: nothing but the browser is needed.

The browser is Debian's package chromium, or what $CHROMIUM names.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome", "msedge")
GET = "no Chromium on PATH; Debian: apt-get install chromium, elsewhere any Chrome, or set CHROMIUM to its path"
SECONDS = 60


def find():
    """Path of the browser or None."""
    return shutil.which(os.environ.get("CHROMIUM", "")) or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A context manager.  `open` a page, then `ask` it and take a `screenshot`; `complaints` holds console errors and requests."""

    def __enter__(self):
        self.profile = tempfile.mkdtemp(prefix="fbnn-browser-")
        into, self.write = os.pipe()
        self.read, out = os.pipe()

        def pipes():  # the browser reads 3 and writes 4
            os.dup2(into, 63)
            os.dup2(out, 64)
            os.dup2(63, 3)
            os.dup2(64, 4)

        self.process = subprocess.Popen(
            [find(), "--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--hide-scrollbars", f"--user-data-dir={self.profile}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=pipes)
        os.close(into)
        os.close(out)
        self.number, self.rest, self.session, self.complaints, self.loaded = 0, b"", None, [], False
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *error):
        os.close(self.write)
        self.process.terminate()
        self.process.wait(10)
        os.close(self.read)
        shutil.rmtree(self.profile, ignore_errors=True)

    def call(self, method, **parameters):
        """A command of the protocol -> its result."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters} | ({"sessionId": self.session} if self.session else {})
        os.write(self.write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self.number:
                assert "error" not in answer, (method, answer)
                return answer["result"]

    def _receive(self):
        until = time.monotonic() + SECONDS
        while b"\0" not in self.rest:
            more = os.read(self.read, 1 << 16)
            assert more and time.monotonic() < until, "the browser ended or is silent"
            self.rest += more
        text, self.rest = self.rest.split(b"\0", 1)
        event = json.loads(text)
        kind, values = event.get("method"), event.get("params", {})
        if kind == "Page.loadEventFired":
            self.loaded = True
        elif kind == "Runtime.exceptionThrown":
            self.complaints.append(values["exceptionDetails"]["text"])
        elif kind == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(values["args"]))
        elif kind == "Log.entryAdded":
            self.complaints.append(values["entry"]["text"])
        elif kind == "Network.requestWillBeSent" and not values["request"]["url"].startswith(("data:", "file:", "about:")):
            self.complaints.append(f"asks for {values['request']['url']}")
        return event

    def open(self, path, width, dark=False, height=900):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.loaded = False
        self.call("Page.navigate", url=Path(path).resolve().as_uri())
        while not self.loaded:
            self._receive()

    def ask(self, expression):
        """The value of a JavaScript expression."""
        found = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def screenshot(self, path):
        """The whole page as PNG."""
        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]))
