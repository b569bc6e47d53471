"""Programs for the least code and memory: values, memory, code, no library."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import in_turn
from tests.exporting.building import (
    COMPILERS,
    in_c,
    needs_cc,
    needs_riscv32,
    on_bare_metal,
    same_bits,
)
from tfn import lax, nn, random
from tfn.nn import quantize

SCALE = quantize.Quantization(tnp.float32(1 / 16), tnp.int32(-7))
WIDE = quantize.Quantization(tnp.float32(1 / 4), tnp.int32(3))


def layer(seed: int, inputs: int, outputs: int, size: int, steps: int, groups: int = 1) -> Any:
    """A convolution of int8 values with random weights."""
    key = random.key(seed)
    floats = nn.Conv2d.init(
        key, inputs, outputs, size, strides=steps, padding="SAME", groups=groups
    )
    return quantize.Conv.of(floats, SCALE, SCALE, relu=seed % 2 == 0)


def separable() -> Callable[..., Any]:
    """A small network as detectors of images have them: depthwise, pointwise, strides, residual."""
    first, deep, point = layer(0, 3, 8, 3, 2), layer(1, 8, 8, 3, 1, 8), layer(2, 8, 8, 1, 1)
    last = layer(3, 8, 6, 3, 2)

    def network(x: Any) -> Any:
        x = first(x)
        return last(lax.max(x, point(deep(x))))

    return network


def image(*shape: int) -> Any:
    """Random values of int8."""
    return np.random.default_rng(0).integers(-128, 128, shape).astype(np.int8)


integers = np.random.default_rng(1).integers(-999, 999, (5, 7)).astype(np.int32)
PROGRAMS: dict[str, tuple[Callable[..., Any], Any]] = {
    "division": (lambda x: (x // 7, x % 5, x // -3), integers),
    "sums": (lambda x: (x.sum(0), x.max(1), x.cumsum(1)), integers),
    "gather": (lambda x: x[tnp.array([4, 0, 2]), ::2], integers),
    "views": (lambda x: tnp.pad(x.T[::-1], 1).reshape(-1, 3), integers),
    "order": (lambda x: tnp.sort(x, axis=1), integers),
    "loop": (lambda x: lax.fori_loop(0, 4, lambda i, c: c + x * i, x), integers),
    "long": (lambda x: x.astype("int64") * 3_000_000_000 + x, integers),
    "indices as values": (lambda x: tnp.arange(7, dtype="int64") * 5_000_000_000 + x, integers),
}


def program(name: str) -> tuple[Callable[..., Any], Any]:
    """One of `PROGRAMS`, or the network, which is not made where tests are only collected."""
    return (separable(), image(1, 17, 15, 3)) if name == "network" else PROGRAMS[name]


@needs_riscv32
@pytest.mark.parametrize("name", in_turn(2, ["network", *(n for n in PROGRAMS if n != "order")]))
def test_integers_on_a_bare_machine_of_32_bits(name: str, tmp_path: Path) -> None:
    """Without a library, the bits are those of this machine."""
    function, x = program(name)
    want = tfn.tree.leaves(tfn.jit(function)(x))
    for got, w in zip(on_bare_metal(function, x, folder=tmp_path), want, strict=True):
        same_bits(got, w, name)


@needs_cc
@pytest.mark.parametrize("name", in_turn(3, ["network", *PROGRAMS]))
def test_small_programs_run_clean_here(name: str, tmp_path: Path) -> None:
    """Under sanitizers, as any exported code."""
    function, x = program(name)
    flags = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    options: dict[str, Any] = {"compiler": COMPILERS[:1], "flags": flags, "optimize": "size"}
    want = tfn.tree.leaves(tfn.jit(function)(x))
    for got, w in zip(in_c(function, x, folder=tmp_path, **options), want, strict=True):
        same_bits(got, w, name)


@needs_cc
def test_floats_agree(tmp_path: Path) -> None:
    """Sums of floats may be added in another order, and no more."""
    w = np.random.default_rng(2).normal(size=(9, 4)).astype(np.float32)

    def network(x: Any) -> Any:
        return tnp.tanh(x @ w).sum(0), nn.softmax(x)

    x = np.random.default_rng(3).normal(size=(6, 9)).astype(np.float32)
    got = in_c(network, x, folder=tmp_path, compiler=COMPILERS[:1], optimize="size")
    for g, want in zip(got, network(x), strict=True):
        np.testing.assert_allclose(g, want, rtol=2e-6, atol=2e-6)


def test_memory_is_that_of_an_operand_and_its_result(tmp_path: Path) -> None:
    """No padded copy, no sums of 32 bits: 8 channels of 24 by 24, then 16 of them."""
    first, deep, point = layer(0, 3, 8, 3, 2), layer(1, 8, 8, 3, 1, 8), layer(2, 8, 16, 1, 1)
    network = lambda x: layer(4, 16, 4, 3, 2)(point(deep(first(x))))
    x = tfn.ShapeDtypeStruct((1, 48, 48, 3), "int8")
    made = tfn.export(network, x, path=tmp_path / "made.c", target="cortex-m4")
    assert made.signature.arena_bytes == 24 * 24 * (8 + 16)


def test_kernels_for_speed_and_for_size_are_kept_apart(tmp_path: Path) -> None:
    """Neither is found in the cache in place of the other, whichever was first."""
    x = np.arange(300, dtype=np.float32)
    function = lambda x: x * 3.0 + x[::-1]
    want = tfn.jit(function)(x)  # kernels for speed are in the cache
    sizes = {}
    for optimize in ("speed", "size", "speed"):
        made = tfn.export(function, x, path=tmp_path / "made.o", optimize=optimize)
        sizes.setdefault(optimize, set()).add(made.files[0].stat().st_size)
        library = tfn.export(function, x, path=tmp_path / "made.so", optimize=optimize).files[0]
        same_bits(tfn.load(library)(x), want, optimize)
    assert len(sizes["speed"]) == len(sizes["size"]) == 1
    assert min(sizes["speed"]) > max(sizes["size"])


def test_code_does_not_grow_with_the_image(tmp_path: Path) -> None:
    """Loops stay loops: the text of a network on images of 16 and of 128 has as many lines."""
    lines = []
    for n in (16, 128):
        x = tfn.ShapeDtypeStruct((1, n, n, 3), "int8")
        tfn.export(separable(), x, path=tmp_path / "made.c", target="cortex-m0+")
        text = (tmp_path / "made.c").read_text()
        lines.append(text.count("\n"))
        assert "u64 i" not in text and "math.h" not in text
    assert abs(lines[1] - lines[0]) <= 12  # conditions of a border more or less
