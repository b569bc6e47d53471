"""Sums of products of bytes: exact instructions of unsigned bytes by signed ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import z3

import tfn
from tests.covering import covering
from tests.lower.check_passes import check_passes
from tfn.hw.cpu.target import TARGETS
from tfn.lower import pipeline
from tfn.lower.target.target import Target

V2, V3, V4 = (TARGETS[f"x86-64-v{n}"] for n in (2, 3, 4))
WITH_VNNI = replace(V4, features=f"{V4.features},+avx512vnni")
BYTES = np.arange(256, dtype="u1")
Fields = Callable[[Any], Any]

FIELDS: dict[str, Fields] = {
    "low nibble": lambda p: p & 15,
    "high nibble": lambda p: p >> 4,
    "signed nibble": lambda p: (p & 15).astype("int8") - 8,
    "2 bits": lambda p: (p >> 2) & 3,
    "signed 3 bits": lambda p: (p & 7).astype("int8") - 4,
    "5 bits": lambda p: (p & 15) | ((p >> 4) & 1) << 4,
    "signed 6 bits": lambda p: (p & 63).astype("int8") - 32,
    "7 bits": lambda p: p & 127,
    "signed 7 bits": lambda p: (p & 127).astype("int8") - 64,
    "unsigned byte": lambda p: p,
    "signed byte": lambda p: p.view("int8"),
}
EXACT_IN_PAIRS = [name for name in FIELDS if "byte" not in name]


def by_blocks(field: Fields) -> Callable[[Any, Any, Any], Any]:
    def f(p: Any, x: Any, d: Any) -> Any:
        sums = (field(p).astype("int32") * x.astype("int32")).sum(-1)
        return (sums.astype("float32") * d).sum(-1)

    return f


def text_of(f: Any, target: Target, *arrays: np.ndarray) -> str:
    (kernel,) = pipeline.lower(tfn.make_jaxpr(f)(*arrays), target).kernels
    return kernel.text


def arrays(rows: int, blocks: int, length: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    p = rng.integers(0, 256, (rows, blocks, length)).astype("u1")
    x = rng.integers(-128, 128, (blocks, length)).astype("i1")
    return p, x, rng.uniform(0.1, 1, (rows, blocks)).astype("f4")


@pytest.mark.parametrize("name", FIELDS)
def test_every_field_times_every_signed_byte_has_its_exact_value(name: str) -> None:
    # Row r has byte r everywhere, block b byte b; scales take one block of each row.
    p = np.broadcast_to(BYTES[:, None, None], (256, 256, 32)).copy()
    x = np.broadcast_to(BYTES.view("i1")[:, None], (256, 32)).copy()
    field = np.asarray(FIELDS[name](BYTES)).astype("i8")
    exact = 32.0 * field[:, None] * BYTES.view("i1").astype("i8")
    compiled = tfn.jit(by_blocks(FIELDS[name]))
    rows = np.arange(256)
    for k in range(256):
        d = np.zeros((256, 256), "f4")
        d[rows, (rows + k) % 256] = 1
        np.testing.assert_array_equal(compiled(p, x, d), exact[rows, (rows + k) % 256])


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("target", [V2, V3, V4], ids=["v2", "v3", "v4"])
def test_fields_are_multiplied_as_bytes_where_pairs_do_not_saturate(
    name: str, target: Target
) -> None:
    text = text_of(by_blocks(FIELDS[name]), target, *arrays(64, 8, 64))
    assert ("pmadd.ub" in text or "pmaddubs" in text) == ("byte" not in name)


@pytest.mark.parametrize("name", FIELDS)
def test_fours_of_bytes_are_multiplied_whatever_their_range(name: str) -> None:
    assert "vpdpbusd" in text_of(by_blocks(FIELDS[name]), WITH_VNNI, *arrays(64, 8, 64))


@covering("name, target, half", list(FIELDS), [V2, V3, V4, WITH_VNNI], [16, 32, 64])
def test_instructions_have_the_values_of_the_sums(name: str, target: Target, half: int) -> None:
    p, x, d = arrays(4, 8, half)
    x[0], p[0, 1], x[1] = -128, 255, 127
    check_passes(tfn.make_jaxpr(by_blocks(FIELDS[name]))(p, x, d), (p, x, d), target)


def test_z3_proves_that_a_product_is_one_of_moved_bytes_less_what_they_are_moved_by() -> None:
    a, low, b = (z3.BitVec(name, 16) for name in ("a", "low", "b"))
    solver = z3.Solver()
    solver.add(a * b != (a - low) * b - (-low) * b)
    assert solver.check() == z3.unsat


def test_z3_proves_that_pairs_within_the_bound_do_not_saturate() -> None:
    high = z3.Int("high")
    a, b = z3.Ints("a0 a1"), z3.Ints("b0 b1")
    total = a[0] * b[0] + a[1] * b[1]
    solver = z3.Solver()
    solver.add(2 * high * 128 <= 32767, *(z3.And(u >= 0, u <= high) for u in a))
    solver.add(*(z3.And(v >= -128, v <= 127) for v in b))
    solver.add(z3.Or(total > 32767, total < -32768))
    assert solver.check() == z3.unsat
