"""Microcontrollers by name: what is written for them, and what is not."""

from __future__ import annotations

import doctest
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
from tests.exporting.boards import BOARDS, GCC, needs_boards, on_board
from tests.exporting.building import COMPILERS, WARNINGS, in_c, needs_cc, same_bits
from tfn import nn, random
from tfn.errors import ArgumentError
from tfn.exporting.microcontrollers import MICROCONTROLLERS
from tfn.nn import quantize


@pytest.mark.parametrize("name", MICROCONTROLLERS)
def test_each_has_c_of_32_bit_indices(name: str, tmp_path: Path) -> None:
    """And what they have no instruction for is computed by others: no header of a library."""
    x = tfn.ShapeDtypeStruct((40, 30), "float32")
    tfn.export(lambda x: tfn.numpy.floor(x).sum(0), x, path=tmp_path / "made.c", target=name)
    text = (tmp_path / "made.c").read_text()
    assert "u64 i" not in text
    assert "u32 i" in text
    assert "math.h" not in text


def test_microcontrollers_get_c(tmp_path: Path) -> None:
    """An object is for those who know the compiler's options of the board."""
    x = tfn.ShapeDtypeStruct((4,), "int8")
    with pytest.raises(ArgumentError, match="microcontrollers get C"):
        tfn.export(lambda x: x, x, path=tmp_path / "made.o", target="cortex-m7")
    with pytest.raises(ArgumentError, match="there is no target 'cortex-m3'") as error:
        tfn.export(lambda x: x, x, path=tmp_path / "made.c", target="cortex-m3")
    assert "wasm32" in error.value.hint and "cortex-m33" in error.value.hint
    with pytest.raises(ArgumentError, match="optimize"):
        tfn.export(lambda x: x, x, path=tmp_path / "made.c", optimize="fast")


@needs_boards
@pytest.mark.parametrize("target", BOARDS)
def test_integers_divide_without_a_library(target: str, tmp_path: Path) -> None:
    """A Cortex-M0+ has no division, nor products and shifts of 64 bits; none divides these."""
    rng = np.random.default_rng(0)
    rows = []
    for dtype in ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        x = rng.integers(low, high, 20, dtype, endpoint=True)
        y = rng.integers(low, high, 20, dtype, endpoint=True) >> rng.integers(0, 7, 20, dtype)
        x[:4], y[:4] = [low, low, high, 7], [low, high, 1, 0]
        rows.append((x, y))

    def divided(rows: list[tuple[tfn.Array, tfn.Array]]) -> list[tuple[tfn.Array, ...]]:
        return [(x // y, x % y, x // 7, x * y, x << (y & 63), x >> (y & 63)) for x, y in rows]

    made = on_board(divided, rows, folder=tmp_path, target=target)
    for got, want in zip(made.outputs, tfn.tree.leaves(tfn.jit(divided)(rows)), strict=True):
        same_bits(got, want)


SCALE = quantize.Quantization(tfn.numpy.float32(1 / 16), tfn.numpy.int32(-7))
LINEAR = [(1, 4), (3, 8), (4, 4), (5, 6), (17, 8), (33, 4), (64, 7)]
CONVOLUTIONS = [
    *((3, 8, 3, 2, 1), (8, 8, 3, 1, 8), (8, 6, 3, 1, 1)),
    *((5, 4, 3, 1, 1), (1, 8, (4, 3), 2, 1), (8, 8, 1, 1, 1)),
]
"""Inputs and outputs; with the window, the stride and the groups."""


def layers(bits: int) -> list[tuple[Any, Any]]:
    """Quantized layers, whose sums have all kinds of lengths and edges, and inputs for them."""
    rng, key = np.random.default_rng(0), iter(random.split(random.key(0), 20))
    found: list[tuple[Any, Any]] = []
    for i, o in LINEAR:
        x = rng.integers(-128, 128, (2, i)).astype("int8")
        layer = nn.Linear.init(next(key), i, o)
        found.append((quantize.Linear.of(layer, SCALE, SCALE, bits=bits), x))
    for i, o, size, stride, groups in CONVOLUTIONS:
        conv = nn.Conv2d.init(next(key), i, o, size, strides=stride, padding="SAME", groups=groups)
        x = rng.integers(-128, 128, (1, 6, 5, i)).astype("int8")
        found.append((quantize.Conv.of(conv, SCALE, SCALE, bits=bits), x))
    return found


LAYERS = {bits: layers(bits) for bits in (4, 8)}


def all_layers(bits: int) -> tuple[Callable[..., list[Any]], list[Any]]:
    """A function of them all, and inputs."""
    found = LAYERS[bits]
    return lambda *xs: [f(x) for (f, _), x in zip(found, xs, strict=True)], [x for _, x in found]


@needs_boards
@pytest.mark.parametrize("bits", LAYERS)
@pytest.mark.parametrize("target", ["cortex-m0+", "cortex-m4", "cortex-m55"])
def test_products_of_bytes_are_exact_with_and_without_instructions_for_them(
    target: str, bits: int, tmp_path: Path
) -> None:
    f, inputs = all_layers(bits)
    made = on_board(f, *inputs, folder=tmp_path, target=target)
    for got, want in zip(made.outputs, tfn.jit(f)(*inputs), strict=True):
        same_bits(got, want)
    assert made.stack_bytes <= made.exported.figures.stack_bytes
    command = [
        GCC,
        *BOARDS[target].flags,
        "-mthumb",
        "-Os",
        "-ffreestanding",
        "-S",
        "made.c",
        "-o",
        "-",
    ]
    assembly = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout
    special = {"cortex-m4": "smlad", "cortex-m55": "vmladava"}.get(target)
    assert special in assembly if special else "smlad" not in assembly


@needs_cc
@pytest.mark.parametrize("bits", LAYERS)
def test_products_of_bytes_have_no_undefined_behaviour(bits: int, tmp_path: Path) -> None:
    f, inputs = all_layers(bits)
    flags = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    options = {"folder": tmp_path, "compiler": COMPILERS[:1], "optimize": "size"}
    found = in_c(f, *inputs, flags=flags, **options)  # type: ignore[arg-type]
    for got, want in zip(found, tfn.jit(f)(*inputs), strict=True):
        same_bits(got, want)
    pedantic = [COMPILERS[0], "-std=c99", "-pedantic", *WARNINGS, "-fsyntax-only", "made.c"]
    subprocess.run(pedantic, cwd=tmp_path, check=True)


def test_weights_lie_as_products_read_them(tmp_path: Path) -> None:
    """And results of a layer are computed four at a time, if there are that many."""
    f, inputs = all_layers(8)
    tfn.export(f, *inputs, path=tmp_path / "f.c", target="cortex-m4")
    text = (tmp_path / "f.c").read_text()
    assert text.count(" = dots_s8(") + text.count(" dots_s8(b") >= 4
    assert "dot_s8(const" in text and "dots_s8(const" in text


@needs_cc
@pytest.mark.parametrize("dtype", ["int8", "uint32", "float32"])
def test_the_largest_of_a_row_is_found_without_a_warning(dtype: str, tmp_path: Path) -> None:
    x = np.array([[3, 9, 2], [1, 1, 0], [0, 4, 4]], dtype)
    options: dict[str, Any] = {"folder": tmp_path, "compiler": COMPILERS[:1], "optimize": "size"}
    f = lambda x: (x.argmax(1), x[0].argmin())
    for got, want in zip(in_c(f, x, **options), tfn.jit(f)(x), strict=True):
        same_bits(got, want)


def test_weights_of_4_bits_take_half_a_byte(tmp_path: Path) -> None:
    """Those of one layer alone, if it is another's kernel that reads others of 8."""
    weights = [np.arange(640).reshape(64, 10) % n - 8 for n in (16, 16, 17)]
    w = [x.astype("int8") for x in weights]
    x = np.zeros((3, 64), "int8")

    def products(x: Any, ws: Any) -> list[Any]:
        return [tfn.lax.dot(x, w, preferred_element_type="int32") for w in ws]

    for chosen, size in (([0], 320), ([0, 1], 640), ([0, 2], 1280)):
        ws = [w[i] for i in chosen]
        made = tfn.export(products, x, ws, path=tmp_path / "f.c", target="cortex-m4", embed=1)
        assert made.figures is not None and made.figures.constant_bytes == size


PAGE = Path(__file__).parents[2] / "docs/howto/microcontroller.md"


@needs_boards
def test_a_board_prints_what_the_page_computes() -> None:
    blocks = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    by_kind = {kind: "\n".join(x for k, x in blocks if k == kind) for kind, _ in blocks}
    snippets = doctest.DocTestParser().get_doctest(by_kind["pycon"], {}, "page", None, 0)
    said: list[str] = []
    failed = doctest.DocTestRunner().run(snippets, out=said.append, clear_globs=False).failed
    assert not failed, "".join(said)
    folder, want = snippets.globs["folder"], snippets.globs["want"]
    (folder / "main.c").write_text(by_kind["c"])
    (folder / "board.ld").write_text(by_kind["ld"])
    commands = ["sh", "-e", "-c", by_kind["sh"]]
    ran = subprocess.run(commands, cwd=folder, capture_output=True, text=True, timeout=60)
    assert not ran.stderr and not ran.returncode, ran.stderr
    assert ran.stdout == "".join(map(str, want)) + "\n" and len(set(want)) == 3
