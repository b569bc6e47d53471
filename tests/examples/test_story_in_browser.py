"""The page that tells stories, by a tiny model of random numbers, in a browser."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import llama
import llama_files
import pytest
import story_in_browser

from tests.exporting.in_page import chromium, needs_chromium
from tfn.hw.compile.link import lld

PAGE = Path(__file__).parents[2] / "examples" / "export" / "story.html"
pytestmark = pytest.mark.skipif(lld("wasm") is None, reason="there is no linker for WebAssembly")


@needs_chromium
def test_the_likeliest_tokens_are_those_of_python(tmp_path: Path) -> None:
    read = llama_files.babbler()
    (tmp_path / "build").mkdir()
    story_in_browser.write(read, tmp_path / "build" / "story.js", room=12)
    shutil.copy(PAGE, tmp_path)
    model = llama.assemble(*read[:3])
    greedy = argparse.Namespace(seed=0, temperature=0.0, top_p=1.0)
    want = list(llama.story(model, read.tokenizer.encode("Bé"), 12, greedy))
    for backend in ("webgpu", "wasm"):
        with chromium(tmp_path, f"story.html?backend={backend}") as page:
            page.wait("document.body.dataset.ready !== undefined")
            page.js("form.prompt.value = 'Bé'; form.temperature.value = 0")
            page.js("form.querySelector('button').click()")
            page.wait("document.body.dataset.told !== undefined")
            assert page.js("document.body.dataset.told") == ",".join(map(str, want))
            assert page.js("story.textContent").startswith("Bé")
            page.js("form.temperature.value = 1; form.querySelector('button').click()")
            page.wait("document.body.dataset.told !== undefined")
            assert page.js("document.body.dataset.told") != ",".join(map(str, want))
