"""The page that reads digits, in a browser; what it is made of, in node."""

from __future__ import annotations

import functools
import http.server
import json
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import mnist
import mnist_in_browser
import numpy as np
import pytest

import tfn
from tfn.hw.compile.link import lld

PAGE = Path(__file__).parents[2] / "examples" / "export"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("chrome")
ONE = "140,50;140,230"
pytestmark = pytest.mark.skipif(lld("wasm") is None, reason="there is no linker for WebAssembly")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page with a network that has seen some images."""
    made = tmp_path_factory.mktemp("page")
    for file in PAGE.glob("*.*"):
        shutil.copy(file, made)
    path = made / "build" / "digit.wasm"
    assert mnist_in_browser.main(["--epochs", "1", "--images", "6400", "--path", str(path)]) == 0
    return made


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(folder: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{found.server_port}"
        found.shutdown()


@pytest.mark.skipif(not BROWSER, reason="there is no Chromium")
def test_a_drawing_is_read_in_a_browser(server: str) -> None:
    command = [
        str(BROWSER),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--dump-dom",
        "--virtual-time-budget=10000",
        f"{server}/index.html?stroke={ONE}",
    ]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert re.findall(r'data-answer="(\d)"', ran.stdout) == ["1"], ran.stdout[-2000:] + ran.stderr
    assert "MB of WebAssembly" in ran.stdout


NODE = """
import { readFileSync } from "node:fs";
import { load } from "./tfn.js";
import { picture } from "./picture.js";
const digit = await load(readFileSync("build/digit.wasm"));
const board = { width: 40, height: 60, data: new Uint8Array(4 * 40 * 60) };
for (let y = 5; y < 55; ++y) for (let x = 30; x < 35; ++x) board.data[4 * (40 * y + x) + 3] = 255;
const drawn = picture(board);
const empty = picture({ width: 3, height: 3, data: new Uint8Array(36) });
const pixels = readFileSync("pixels.bin");
const out = [...Array(20).keys()].map((i) =>
  Array.from(digit({ pixels: new Uint8Array(pixels.subarray(784 * i, 784 * (i + 1))) }).out));
console.log(JSON.stringify({ drawn: Array.from(drawn), empty: Math.max(...empty), out }));
"""


@pytest.mark.skipif(not shutil.which("node"), reason="node is not installed")
def test_it_answers_in_node_too(folder: Path) -> None:
    pixels = np.asarray(mnist.load("t10k", 20).pixels)
    (folder / "pixels.bin").write_bytes(pixels.tobytes())
    (folder / "run.mjs").write_text(NODE)
    ran = subprocess.run(
        ["node", "run.mjs"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert not ran.returncode, ran.stderr
    found = json.loads(ran.stdout)
    network = mnist_in_browser.trained(1, 6400)
    want = [np.asarray(mnist_in_browser.digit(network, tfn.numpy.asarray(x))) for x in pixels]
    np.testing.assert_allclose(found["out"], want, 1e-4, 1e-6)
    drawn = np.array(found["drawn"]).reshape(28, 28)
    rows, columns = np.nonzero(drawn)
    assert found["empty"] == 0 and drawn.max() == 255
    assert (rows.min(), rows.max()) == (4, 23) and 12 <= columns.min() <= columns.max() <= 15
