"""Pictures of every stage: golden files for ten programs, and graphs too deep for recursion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.conftest import Golden
from tests.covering import in_turn
from tfn.errors import ArgumentError
from tfn.inspect.show import STAGES, show

TARGET = tfn.Target("x86_64-unknown-linux-gnu", "x86-64-v3", "", 32, 16)


def floats(*shape: int) -> tfn.ShapeDtypeStruct:
    return tfn.ShapeDtypeStruct(shape, "float32")


def sin_mul(x: Any, y: Any) -> Any:
    return tnp.sin(x) * y


def softmax(x: Any) -> Any:
    e = tnp.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def matmul(x: Any, w: Any, b: Any) -> Any:
    return tnp.maximum(x @ w + b, 0.0)


def conv(x: Any, w: Any) -> Any:
    return tfn.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def mlp_gradient(w1: Any, w2: Any, x: Any, y: Any) -> Any:
    def loss(w1: Any, w2: Any) -> Any:
        return ((tnp.maximum(x @ w1, 0.0) @ w2 - y) ** 2).mean()

    return tfn.grad(loss, argnums=(0, 1))(w1, w2)


def rnn(w: Any, u: Any, h: Any, xs: Any) -> Any:
    def cell(h: Any, x: Any) -> Any:
        h = tnp.tanh(h @ w + x @ u)
        return h, h

    return tfn.lax.scan(cell, h, xs)


def newton(a: Any) -> Any:
    return tfn.lax.while_loop(lambda s: abs(s * s - a).max() > 1e-4, lambda s: (s + a / s) / 2, a)


def average(xs: Any, decay: Any) -> Any:
    return tfn.lax.scan(lambda c, x: (c * decay + x, c), decay, xs)


def choice(which: Any, x: Any) -> Any:
    return tfn.lax.switch(which, [lambda x: x, lambda x: x * 2, tnp.sin], x)


def embedding_gradient(table: Any, tokens: Any) -> Any:
    return tfn.grad(lambda t: (t[tokens] ** 2).sum())(table)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "sin-mul": (sin_mul, (floats(3, 10), floats(3, 10))),
    "softmax": (softmax, (floats(4, 9),)),
    "matmul": (matmul, (floats(6, 10), floats(10, 20), floats(20))),
    "conv": (conv, (floats(1, 5, 5, 2), floats(3, 3, 2, 4))),
    "mlp-gradient": (mlp_gradient, (floats(6, 5), floats(5, 2), floats(8, 6), floats(8, 2))),
    "embedding-gradient": (
        embedding_gradient,
        (floats(10, 4), tfn.ShapeDtypeStruct((6,), "int32")),
    ),
    "scan-rnn": (rnn, (floats(4, 4), floats(3, 4), floats(4), floats(5, 3))),
    "while-newton": (newton, (floats(6),)),
    "scan-average": (average, (floats(10, 6), floats(6))),
    "switch": (choice, (tfn.ShapeDtypeStruct((), "int32"), floats(6))),
}

PICTURES = [stage for stage in STAGES if stage != "cycles"]  # it has tests of its own
TEXTS = ("linear", "llvm", "driver")
SHORT = ("matmul", "scan-average")
"""The programs whose instructions a person can read; `tests.replay` compares those of others."""
STABLE = [stage for stage in STAGES if stage not in ("shards", "text", "assembly", "cycles")]
GOLDEN = [(p, stage) for p in PROGRAMS for stage in STABLE if stage not in TEXTS or p in SHORT]


@pytest.mark.parametrize(("program", "stage"), GOLDEN)
def test_golden(program: str, stage: str, golden: Golden) -> None:
    f, args = PROGRAMS[program]
    golden(f"{stage}/{program}.txt", str(show(f, *args, at=stage, target=TARGET)))


def deep(x: Any, w: Any) -> Any:
    """1,600 nodes in a chain, more than frames of Python, with reductions on the way."""
    for i in range(400):
        x = tnp.maximum(x * 1.01, w) - w
        if i % 50 == 0:
            x = tnp.exp(x - x.sum(axis=1, keepdims=True))
    return x


@pytest.mark.parametrize("stage", in_turn(2, PICTURES))
def test_deep_graphs_print_at_every_stage(stage: str) -> None:
    text = show(deep, floats(4, 4), floats(4, 4), at=stage, target=TARGET).text
    assert text
    assert max(map(len, text.splitlines())) < 160


def test_arrays_jitted_functions_and_structures_show_alike() -> None:
    x = np.ones((3, 10), np.float32)
    pictures = {
        show(f, *args, at="ranges", target=TARGET)
        for f in (sin_mul, tfn.jit(sin_mul))
        for args in ((x, x), (tnp.asarray(x), x), (floats(3, 10), floats(3, 10)))
    }
    assert len(pictures) == 1


def test_keywords_reach_the_function() -> None:
    picture = show(lambda x, *, scale: x * scale, floats(3), scale=tfn.ShapeDtypeStruct((), "f4"))
    assert "mul" in str(picture)


def test_a_picture_is_its_text() -> None:
    picture = show(tnp.sin, floats(3))
    assert repr(picture) == str(picture) == picture.text
    assert picture.text == "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"


@pytest.mark.parametrize("stage", PICTURES)
@pytest.mark.parametrize(
    "f, args",
    [
        (lambda x: x, (floats(3),)),  # nothing to compute
        (lambda x: (x, x + 1, x), (floats(0, 3),)),  # nothing to store
        (lambda: tnp.zeros(3), ()),  # no parameters
        (lambda x: x + 1, (floats(),)),  # no loops
        (lambda x: tnp.sort(x), (floats(3, 4),)),  # no ranges
        (lambda x: x.sum(axis=0) @ x.T, (floats(5, 7),)),
        (lambda x: tfn.lax.scan(lambda c, _: (c @ x, None), x, None, length=0), (floats(3, 3),)),
        (
            lambda x: tfn.lax.scan(
                lambda c, s: ((c[1] @ x, c[0]), s[::-1]), (x, x), x, reverse=True
            ),
            (floats(3, 3),),
        ),
        (
            lambda x: tfn.lax.fori_loop(
                0, 3, lambda i, c: (c[0] @ x + i, c[1] @ x), (x, tnp.zeros((3, 3)))
            ),
            (floats(3, 3),),
        ),
        (
            lambda x: tfn.lax.fori_loop(
                0,
                3,
                lambda i, c: tfn.lax.fori_loop(
                    0, 4, lambda j, d: tfn.lax.cond(i < j, lambda d: d @ d, lambda d: d + i, d), c
                ),
                x,
            ),
            (floats(3, 3),),
        ),  # loops and branches in a loop
        (
            lambda x: tfn.lax.while_loop(
                lambda c: c[0] < 9, lambda c: (c[0] + 1, c[1] * x), (0, x)
            ),
            (floats(3),),
        ),
    ],
)
def test_odd_programs_print_at_every_stage(stage: str, f: Any, args: Any) -> None:
    show(f, *args, at=stage, target=TARGET)


def test_identical_kernels_are_shown_once() -> None:
    def twice(x: Any, w: Any) -> Any:
        return (x @ w) @ w

    text = show(twice, floats(4, 4), floats(4, 4), at="ranges", target=TARGET).text
    assert "the same as kernel 0" in text
    assert text.count("+=") == 1


def test_no_such_stage() -> None:
    with pytest.raises(ArgumentError, match="stages are jaxpr, shards, kernels"):
        show(tnp.sin, 1.0, at="hlo")
