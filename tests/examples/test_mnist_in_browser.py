"""The page that reads digits, in a browser; what it is made of, in node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import mnist
import mnist_in_browser
import numpy as np
import pytest

import tfn
from tests.exporting.in_page import chromium, needs_chromium
from tfn.hw.compile.link import lld

PAGE = Path(__file__).parents[2] / "examples" / "export"
ONE = "140,50;140,230"
pytestmark = pytest.mark.skipif(lld("wasm") is None, reason="there is no linker for WebAssembly")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page with a network that has seen some images."""
    made = tmp_path_factory.mktemp("page")
    for file in PAGE.glob("*.*"):
        shutil.copy(file, made)
    path = made / "build" / "digit.js"
    assert mnist_in_browser.main(["--epochs", "1", "--images", "6400", "--path", str(path)]) == 0
    return made


@needs_chromium
def test_a_drawing_is_read_in_a_browser(folder: Path) -> None:
    with chromium(folder, f"index.html?stroke={ONE}") as page:
        page.wait("document.body.dataset.answer !== undefined")
        assert page.js("document.body.dataset.answer") == "1"
        assert "ms an answer on WebGPU" in page.js("document.getElementById('status').textContent")


@needs_chromium
def test_a_network_is_trained_in_a_page(folder: Path) -> None:
    """A step and a thousand pictures: without a GPU, WebGPU takes a second for each."""
    with chromium(folder, "train.html?steps=1&count=1000") as page:
        page.wait("document.body.dataset.right !== undefined")
        found = page.js("({...document.body.dataset})")
        lines = page.js("document.querySelectorAll('#plot polyline').length")
    assert found["backend"] == "webgpu" and lines == 1
    assert 1.5 < float(found["loss"]) < 4 and float(found["right"]) > 0.15


NODE = """
import { readFileSync } from "node:fs";
import { load } from "./build/digit.js";
import { picture } from "./picture.js";
const digit = await load();
const board = { width: 40, height: 60, data: new Uint8Array(4 * 40 * 60) };
for (let y = 5; y < 55; ++y) for (let x = 30; x < 35; ++x) board.data[4 * (40 * y + x) + 3] = 255;
const drawn = picture(board);
const empty = picture({ width: 3, height: 3, data: new Uint8Array(36) });
const pixels = readFileSync("pixels.bin");
const out = [];
for (let i = 0; i < 20; ++i) {
  const one = { pixels: new Uint8Array(pixels.subarray(784 * i, 784 * (i + 1))) };
  out.push(Array.from((await digit.run(one)).out));
}
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
