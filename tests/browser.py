"""A headless Chromium, driven through its DevTools protocol by a pair of pipes.

Source: chromedevtools.github.io/devtools-protocol.
"""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

PATH = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")
"""The executable; empty if there is none."""

TIMEOUT_SECONDS = 60.0
FLAGS = ("--headless=new", "--no-sandbox", "--hide-scrollbars", "--no-first-run")
NO_GPU = ("--disable-gpu",)
WEBGPU = ("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader")
"""Without a GPU, and with the WebGPU that Chromium itself computes on processors."""


class Browser:
    """One page; a context, whose end ends the browser.

    Attributes:
        errors: exceptions of scripts, and what the console was told as an error.
        requests: the addresses that the page asked for.
    """

    def __init__(
        self, width: int = 1600, height: int = 1000, flags: Sequence[str] = NO_GPU
    ) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._numbers = itertools.count(1)
        self._text = b""
        self._folder = tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True)
        read, self._to = os.pipe()
        self._from, write = os.pipe()
        command = f'exec "$@" 3<&{read} 4>&{write}'
        arguments = [*FLAGS, *flags, f"--window-size={width},{height}", "--remote-debugging-pipe"]
        arguments.append(f"--user-data-dir={self._folder.name}")
        self._process = subprocess.Popen(
            ["bash", "-c", command, "chromium", PATH, *arguments],
            pass_fds=(read, write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(read)
        os.close(write)
        self._session = ""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._folder.cleanup()

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Calls a method of the protocol; events that come before its answer are looked at."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + TIMEOUT_SECONDS
        while b"\0" not in self._text:
            ready, _, _ = select.select([self._from], [], [], max(0.0, end - time.monotonic()))
            assert ready, "Chromium does not answer"
            self._text += os.read(self._from, 1 << 16)
        line, _, self._text = self._text.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(str(params["entry"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        return message

    def open(self, path: Path, hash: str = "") -> None:
        """Opens a file, and waits until its script says that it is ready."""
        self.send("Page.navigate", url=path.absolute().as_uri() + hash)
        self.wait("document.documentElement?.dataset.ready === 'yes'")

    def js(self, text: str) -> Any:
        """The value of an expression; promises are awaited."""
        answer = self.send(
            "Runtime.evaluate", expression=text, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Waits until an expression is true."""
        end = time.monotonic() + TIMEOUT_SECONDS
        while not self.js(condition):
            assert time.monotonic() < end, condition
            time.sleep(0.02)

    def hover(self, selector: str) -> None:
        """Moves the mouse to the middle of the first element of a selector."""
        box = self.js(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center'}); const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
        )
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])

    def click(self, selector: str) -> None:
        """Clicks on the first element of a selector."""
        self.js(f"document.querySelector({json.dumps(selector)}).click()")

    def press(self, buttons: str, text: str) -> None:
        """Clicks on the one of some buttons that has this text."""
        find = f"[...document.querySelectorAll({json.dumps(buttons)})]"
        self.js(f"{find}.find(b => b.textContent === {json.dumps(text)}).click()")

    def screenshot(self, path: Path) -> None:
        """Writes what is seen to a PNG file."""
        path.write_bytes(base64.b64decode(self.send("Page.captureScreenshot")["data"]))
