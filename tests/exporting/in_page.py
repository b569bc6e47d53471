"""Runs exported pages: in Chromium, whose WebGPU computes on processors, and in node."""

from __future__ import annotations

import base64
import functools
import http.server
import json
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import browser
from tfn.exporting.export import Exported
from tfn.exporting.signature import Field
from tfn.hw.compile.link import lld

Value = np.ndarray[Any, Any]

needs_chromium = pytest.mark.skipif(
    not browser.PATH, reason="pages on WebGPU are NOT TESTED: there is no Chromium"
)
needs_node = pytest.mark.skipif(
    lld("wasm") is None or not shutil.which("node"),
    reason="pages on WebAssembly are NOT TESTED: node or a linker is missing",
)

RUN = """
async (load, options, calls) => {
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
  const text = (x) => {
    let out = "";
    const all = new Uint8Array(x.buffer, x.byteOffset, x.byteLength);
    for (const byte of all) out += String.fromCharCode(byte);
    return btoa(out);
  };
  const f = await load(options), results = [];
  for (const [inputs, names] of calls) {
    const given = Object.fromEntries(Object.entries(inputs).map(([name, [type, data]]) =>
      [name, new globalThis[type](bytes(data))]));
    try {
      const out = await f.run(given, names ?? undefined);
      results.push(Object.fromEntries(Object.entries(out).map(([name, x]) => [name, text(x)])));
    } catch (error) {
      results.push(error.message);
    }
  }
  f.destroy();
  return { backend: f.backend, reason: f.reason, results };
}
"""
"""Runs a function several times; bytes are text in base64."""

Call = tuple[Mapping[str, Value], Sequence[str] | None]


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a folder."""
    handler = functools.partial(Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@contextmanager
def chromium(folder: Path, name: str = "index.html") -> Iterator[browser.Browser]:
    """A page of a folder, in a browser with WebGPU; no script may fail there."""
    with served(folder) as address, browser.Browser(flags=browser.WEBGPU) as found:
        found.send("Page.navigate", url=f"{address}/{name}")
        found.wait("location.protocol === 'http:' && document.readyState === 'complete'")
        yield found
        assert not found.errors


def typed(x: Value) -> tuple[str, str]:
    """An array as JavaScript has it: the type, and its bytes."""
    from tfn.exporting.page import array_type

    return array_type(x.dtype), base64.b64encode(np.ascontiguousarray(x).tobytes()).decode()


def called(
    page: browser.Browser | Path, made: Exported, calls: Sequence[Call], **options: Any
) -> tuple[list[dict[str, Value] | str], str]:
    """The results of calls, or their errors, and why it was not WebGPU.

    Args:
        page: of Chromium; or a folder, for node.
        made: an exported page.
        calls: inputs and names of outputs.
        options: of `load`.
    """
    module = next(f"./{file.name}" for file in made.files if file.suffix == ".js")
    sent = [({name: typed(x) for name, x in inputs.items()}, names) for inputs, names in calls]
    rest = f"{json.dumps(options)}, {json.dumps(sent)})"
    if isinstance(page, Path):
        script = f"console.log(JSON.stringify(await ({RUN})(load, {rest}));"
        script = f'import {{ load }} from "{module}";\n{script}'
        (page / "run.mjs").write_text(script)
        ran = subprocess.run(["node", "run.mjs"], cwd=page, capture_output=True, text=True)
        assert not ran.returncode, ran.stderr
        found = json.loads(ran.stdout)
        assert found["backend"] == "wasm"
    else:
        found = page.js(f"(async () => ({RUN})((await import('{module}')).load, {rest})()")
        assert found["backend"] == options.get("backend", "webgpu"), found["reason"]
    fields = {field.name: field for field in made.signature.outputs}
    results = [
        out if isinstance(out, str) else {k: _array(v, fields[k]) for k, v in out.items()}
        for out in found["results"]
    ]
    return results, found["reason"]


def _array(text: str, field: Field) -> Value:
    return np.frombuffer(base64.b64decode(text), field.dtype).reshape(field.shape)
