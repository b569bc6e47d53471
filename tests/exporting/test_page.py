"""Functions exported as pages, on Chromium's WebGPU and as WebAssembly in node."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as jnp
from tests.browser import WEBGPU, Browser
from tests.covering import in_turn
from tests.exporting.in_page import called, chromium, needs_chromium, needs_node
from tfn import lax, nn
from tfn.errors import ArgumentError, DTypeError, ExportError
from tfn.exporting.export import Exported
from tfn.scipy import special


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("pages")
    (made / "index.html").write_text('<!doctype html><link rel="icon" href="data:,">')
    return made


@pytest.fixture(scope="module")
def page(folder: Path) -> Iterator[Browser]:
    with chromium(folder) as found:
        yield found


def rows(seed: int, *shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return (3 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


W = {"a": rows(0, 60, 33), "b": rows(1, 33), "half": rows(2, 33).astype(np.float16)}


def network(x: Any) -> Any:
    """Captured arrays of two dtypes, a product, a reduction."""
    return nn.softmax(jnp.maximum(x @ W["a"] + W["b"], 0) * W["half"].astype(np.float32))


def loops(x: Any, n: Any) -> Any:
    """Loops that count, that ask, and a branch."""
    x = lax.fori_loop(0, 200, lambda i, x: x.at[i % 7].multiply(0.5) + 1, x)
    x, _ = lax.while_loop(lambda c: c[1] < n, lambda c: (jnp.tanh(c[0] * 1.5), c[1] + 1), (x, 0))
    return lax.switch(n % 3, [jnp.cumsum, lambda x: x @ jnp.ones((7, 7)), lambda x: -x], x)


def scanned(x: Any) -> Any:
    """A loop over rows whose kernels move through memory."""
    step = lambda c, row: (jnp.cumsum(c + row) / 9, (c * row)[::-1])
    return lax.scan(step, jnp.zeros(16), jnp.repeat(x, 60, 0))


def narrow(x: Any, flags: Any) -> Any:
    """Elements that share words, and empty arrays."""
    y = jnp.where(flags, x, -x)
    return y, flags[::-1], (y > 3), y.astype(jnp.bfloat16) / 3, y[:0], x, x + 1


def functions(x: Any, y: Any) -> Any:
    """Those whose usual formulas have numbers of 64 bits, which browsers lack."""
    z = jnp.abs(x)
    return jnp.sin(x * 1e20), jnp.cos(x), jnp.tan(x), z**y, special.erfc(x), x % y


def many(*xs: Any) -> Any:
    """A kernel of more arrays than a browser binds."""
    total = xs[0]
    for i, x in enumerate(xs[1:]):
        total = jnp.where(total > i, total + x, total * x)
    return total


FUNCTIONS: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (network, (rows(3, 5, 60),)),
    (loops, (rows(4, 7), np.int32(4))),
    (scanned, (rows(5, 3, 16),)),
    (narrow, (rows(6, 7).astype(np.int8), rows(7, 7) > 0)),
    (functions, (rows(8, 300), rows(9, 300))),
    (many, tuple(rows(i, 12) for i in range(14))),
]


def check(where: Browser | Path, made: Exported, f: Callable[..., Any], args: Any) -> None:
    """Compare the second of two calls with what is computed here."""
    inputs = {field.name: np.asarray(x) for field, x in zip(made.signature.inputs, args)}
    names = [field.name for field in made.signature.outputs]
    (_, got), _ = called(where, made, [({k: x * 0 for k, x in inputs.items()}, []), (inputs, None)])
    assert isinstance(got, dict), got
    for name, want in zip(names, tfn.tree.leaves(tfn.jit(f)(*args)), strict=True):
        want = np.asarray(want)
        assert got[name].dtype == want.dtype and got[name].shape == want.shape
        np.testing.assert_allclose(
            got[name].astype(float), want.astype(float), 2e-5, 1e-6, err_msg=name
        )


@cache
def exported(folder: Path, number: int) -> Exported:
    f, args = FUNCTIONS[number]
    return tfn.export(f, *args, path=folder / f"{f.__name__}.js")


@needs_chromium
@pytest.mark.parametrize(
    "number", in_turn(3, range(len(FUNCTIONS))), ids=lambda number: FUNCTIONS[number][0].__name__
)
def test_results_on_webgpu_are_those_of_the_cpu(number: int, page: Browser, folder: Path) -> None:
    check(page, exported(folder, number), *FUNCTIONS[number])


@needs_node
def test_results_on_webassembly_are_those_of_the_cpu(folder: Path) -> None:
    for number, (f, args) in enumerate(FUNCTIONS):
        check(folder, exported(folder, number), f, args)


@needs_node
@pytest.mark.parametrize("target", ["wasm32", "wasm32-mvp"])
def test_webassembly_has_a_loader_beside_it(target: str, tmp_path: Path) -> None:
    """Arrays that are embedded or captured are within; engines without vectors have a target."""
    x = rows(3, 5, 60)
    tfn.export(lambda x: x + 1, x, path=tmp_path / "network.js")  # another has the name
    a = rows(4, 33, 2)

    def f(a: Any, x: Any) -> Any:
        return network(x) @ a

    made = tfn.export(f, a, x, path=tmp_path / f"{target}.wasm", name="network", target=target)
    names = [f"{target}.wasm", "network.h", f"{target}.wasm.js", f"{target}.wasm.d.ts"]
    assert [file.name for file in made.files] == names
    check(tmp_path, made, f, (a, x))
    made = tfn.export(f, a, x, path=tmp_path / "f.wasm", target=target, embed="a")
    assert [file.name for file in made.files] == ["f.wasm", "f.h", "f.js", "f.d.ts"]
    x = x[::-1].copy()
    (got,), reason = called(tmp_path, made, [({"x": x}, None)])
    assert isinstance(got, dict)
    np.testing.assert_allclose(got["out"], f(a, x), 2e-5, 1e-6)
    assert "WebAssembly alone" in reason
    assert (b"simd128" in made.files[0].read_bytes()) == (target == "wasm32")
    assert "/** float32[5, 60]: x */\n  x: Float32Array;" in made.files[3].read_text()


def training(state: Any, x: Any) -> Any:
    """A step whose states change places, one of them as it was."""
    loss = (x * state["w"]).sum()
    return loss, {"w": state["v"], "v": state["w"] - 0.1 * x, "kept": state["kept"]}


@needs_chromium
@needs_node
def test_states_are_carried_from_run_to_run(page: Browser, folder: Path) -> None:
    state = {"w": rows(0, 40), "v": rows(1, 40), "kept": rows(2, 3)}
    step = tfn.jit(training, donate_argnums=0)
    made = tfn.export(step, state, rows(3, 40), path=folder / "training.js")
    xs = [rows(10 + i, 40) for i in range(4)]
    first = {f"state_{k}": v for k, v in state.items()} | {"x": xs[0]}
    calls = [(first, ["out_0"]), *(({"x": x}, ["out_0"]) for x in xs[1:-1]), ({"x": xs[-1]}, None)]
    want = []
    for x in xs:
        loss, state = training(state, x)
        want.append(loss)
    for where in (page, folder):
        out, _ = called(where, made, calls, carry={"out[1]": "state"})
        np.testing.assert_allclose([float(o["out_0"]) for o in out], want, 1e-4)
        for k, v in state.items():
            np.testing.assert_allclose(out[-1][f"out_1_{k}"], v, 1e-5)
        (_, again), _ = called(where, made, calls[:2])
        assert again == "training needs state_kept, state_v, state_w"


REFUSED = [
    ({}, None, "add needs x, y"),
    ({"x": rows(0, 4)}, None, "add needs y"),
    ({"x": rows(0, 5)}, None, "x must be a Float32Array of 4 elements"),
    ({"x": rows(0, 4).astype(np.int32)}, None, "not Int32Array of 4"),
    ({"z": rows(0, 4)}, None, "add has no input z"),
    ({"x": rows(0, 4), "y": rows(1, 4)}, ["out_2"], "add has no output out_2"),
]


def add(x: Any, y: Any) -> Any:
    return x + y, W["b"][:4] * x


@needs_chromium
@needs_node
def test_wrong_calls_are_refused_and_later_ones_run(page: Browser, folder: Path) -> None:
    x, y = rows(0, 4), rows(1, 4)
    made = tfn.export(add, x, y, path=folder / "add.js")
    names = {"add.wasm", "add.js", "add.d.ts", "add.safetensors"}
    assert {file.name for file in made.files} == names
    calls = [*((inputs, names) for inputs, names, _ in REFUSED), ({"x": x, "y": y}, ["out_0"])]
    for where in (page, folder):
        (*errors, last), _ = called(where, made, calls)
        for error, (*_, message) in zip(errors, REFUSED, strict=True):
            assert message in str(error)
        assert list(last) == ["out_0"]
        np.testing.assert_allclose(last["out_0"], x + y)


@needs_chromium
def test_what_cannot_be_loaded_says_why(page: Browser, folder: Path) -> None:
    x = rows(0, 4)
    tfn.export(add, x, x, path=folder / "sum.js")
    tfn.export(lambda x: W["a"][0, :4] * x, x, path=folder / "other.js")
    load = "import('./sum.js').then(({load}) => load(%s)).then(() => 'loaded', (e) => e.message)"
    for options, message in (
        ("{weights: './other.safetensors'}", "not the file that was exported"),
        ("{weights: new Uint8Array(3)}", "not the file that was exported"),
        ("{carry: {'out[3]': 'x'}}", "there is no output out[3]"),
        ("{carry: {'out[0]': 'z'}}", "cannot be carried to z"),
        ("{backend: 'wasm', wasm: './sum.js'}", "WebAssembly"),
    ):
        assert message in page.js(load % options)
    assert "404" in page.js(load % "{weights: 'none.safetensors'}")
    page.errors.clear()  # of the console, on the missing file


@needs_chromium
def test_a_lost_gpu_is_an_error_of_the_next_run(page: Browser, folder: Path) -> None:
    tfn.export(add, rows(0, 4), rows(1, 4), path=folder / "lost.js")
    said = page.js("""(async () => {
      const f = await (await import('./lost.js')).load();
      const x = new Float32Array(4);
      await f.run({x, y: x});
      f.device.destroy();
      return f.run({}).then(() => "ran", (e) => e.message);
    })()""")
    assert said.startswith("the GPU was lost")


@needs_chromium
def test_progress_is_told_and_webassembly_is_there_without_a_gpu(
    page: Browser, folder: Path
) -> None:
    tfn.export(add, rows(0, 4), rows(1, 4), path=folder / "progress.js")
    found = page.js("""(async () => {
      const { load } = await import('./progress.js'), told = [];
      const none = { value: async () => null, configurable: true };
      Object.defineProperty(navigator.gpu, "requestAdapter", none);
      const f = await load({ progress: (...numbers) => told.push(numbers) });
      delete navigator.gpu.requestAdapter;
      return [f.backend, f.reason, told];
    })()""")
    size = (folder / "progress.safetensors").stat().st_size
    assert found == ["wasm", "there is no WebGPU here", [[size, size]]]


def test_a_page_of_numbers_that_browsers_lack_is_refused(tmp_path: Path) -> None:
    x = np.ones(4, np.float64)
    with pytest.raises(DTypeError, match="no numbers of 64 bits"):
        tfn.export(lambda x: x + 1, x, path=tmp_path / "wide.js")
    with pytest.raises(ExportError, match="no folder to write to"):
        tfn.export(lambda x: x + W["b"], W["b"], path=tmp_path / "none" / "add.js")
    with pytest.raises(ArgumentError, match="js cannot be made for x86_64"):
        tfn.export(add, x, x, path=tmp_path / "add.js", target="x86-64")


SAYS = "document.getElementById('%s').textContent"
FILL = "document.querySelector('textarea').value = '%s'; document.querySelector('button').click()"


@needs_chromium
def test_a_page_in_one_file_asks_for_no_other(tmp_path: Path) -> None:
    made = tfn.export(network, rows(3, 5, 60), path=tmp_path / "network.html")
    assert [file.name for file in made.files] == ["network.html"] == os.listdir(tmp_path)
    want = np.asarray(tfn.jit(network)(np.full((5, 60), 0.5, np.float32)))
    address = made.files[0].as_uri()
    with Browser(flags=WEBGPU) as page:
        for options, device in (("", "WebGPU"), ("?backend=wasm", "WebAssembly")):
            page.send("Page.navigate", url=address + options)
            page.wait(f"location.search === '{options}' && document.body?.dataset.ready === ''")
            assert page.js(SAYS % "status") == f"ready on {device}"
            page.js(FILL % "1 2")
            page.wait(f"{SAYS % 'status'}.includes('300 numbers, not 2')")
            page.js(FILL % "0.5")
            page.wait(SAYS % "outputs")
            head, numbers = page.js(SAYS % "outputs").split("\n")
            assert head == "out: float32[5,33]"
            np.testing.assert_allclose([*map(float, numbers.split(","))], want.ravel(), 1e-4)
        assert page.js("load({backend: 'wasm'}).then((f) => f.backend)") == "wasm"
        assert not page.errors
        files = {url for url in page.requests if not url.startswith("data:")}
        assert files == {address, f"{address}?backend=wasm"}


def ordered(x: Any) -> Any:
    return jnp.sort(x)


@needs_chromium
def test_sorts_ask_for_the_memory_of_a_group(page: Browser, folder: Path) -> None:
    x = rows(0, 100).astype(np.int8)
    made = tfn.export(ordered, x, path=folder / "ordered.js")
    ((found,), _) = called(page, made, [({"x": x}, None)])
    assert isinstance(found, dict)
    np.testing.assert_array_equal(found["out"], np.sort(x))


def test_types_name_the_arrays(tmp_path: Path) -> None:
    tfn.export(narrow, *FUNCTIONS[3][1], path=tmp_path / "narrow.js")
    text = (tmp_path / "narrow.d.ts").read_text()
    assert "/** bool[7]: flags */\n  flags: Uint8Array;" in text
    assert "/** bfloat16[7]: out[3] */\n  out_3: Uint16Array;" in text
