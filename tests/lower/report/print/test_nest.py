"""Nest printer: the pseudo-code, run by Python, computes the same as the nest."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.lower.check_passes import SMALL
from tfn.inspect.show import View
from tfn.lower.loops import heuristics, loop_nest
from tfn.lower.loops.opt_ops import Split
from tfn.lower.report.print.nest import nest, simplified
from tfn.trace import interpreter
from tfn.trace.argument import Place

TYPES = {"f32": np.float32, "i32": np.int32, "i64": np.int64, "bool": np.bool_}


def python(text: str) -> str:
    """The pseudo-code as Python: places and types are dropped."""
    lines = ["pass"]
    for line in text.splitlines():
        line = re.sub(
            r"^( *)(?:parallel|upcast|lane|for) (r\d+) in (.*?):(.*)$",
            r"\1for \2 in range(\3):\4",
            line,
        )
        lines.append(re.sub(r"^( *)(v\d+):\w+ =", r"\1\2 =", line))
    return "\n".join(lines)


PROGRAMS = {
    "elementwise": (lambda x, y: x * y + 1, (5, 7), (5, 7)),
    "softmax": (lambda x: x / (x * x).sum(axis=1, keepdims=True), (5, 9)),
    "product": (lambda x, w: tnp.maximum(x @ w, 0), (5, 7), (7, 11)),
    "padded": (lambda x: tnp.pad(x, ((1, 2), (0, 3))), (4, 5)),
    "joined": (lambda x, y: tnp.concatenate([x.T, y]), (4, 5), (3, 4)),
    "turned": (lambda x: x[::-1, ::2].T, (4, 5)),
    "scalar": (lambda x: (x * x).sum(), (4, 5)),
    "scattered": (lambda x: x.at[tnp.array([2, 0, 2])].add(1.0), (4, 5)),
    "recurrence": (
        lambda xs, c: tfn.lax.scan(lambda s, x: ((s[1], s[0] * c + x), s[0]), (c, c * 2), xs),
        (6, 5),
        (5,),
    ),
    "backwards": (
        lambda xs: tfn.lax.scan(lambda s, x: (s + x, s * x), xs[0], xs[1:], reverse=True),
        (6, 5),
    ),
    "while": (
        lambda x: tfn.lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] * x), (0, x)),
        (5,),
    ),
}


@pytest.mark.parametrize("chosen", [False, True], ids=["ranges", "splits"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_python_runs_the_pseudo_code(program: str, chosen: bool) -> None:
    f, *shapes = PROGRAMS[program]
    args = [tfn.ShapeDtypeStruct(shape, "float32") for shape in shapes]
    rng = np.random.default_rng(0)
    for stage in View(tfn.make_jaxpr(f)(*args), SMALL).stages:
        n = loop_nest.nest(stage.body)
        n = heuristics.choose(n, SMALL) if chosen else n
        buffers = [_filled(rng, u) for u in stage.operands]
        want = [b.copy() for b in buffers]
        interpreter.nest(stage.body, want)
        names = [f"b{i}" for i in range(len(buffers))]
        scope: dict[str, Any] = dict(zip(names, buffers))
        scope |= {**TYPES, "inf": np.inf, "where": lambda c, x, y: x if c else y}
        exec(python(nest(n, names)), scope)  # the text is ours
        for got, expected in zip(buffers[: stage.written], want):
            np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)


def _filled(rng: Any, u: Any) -> Any:
    if u.dtype.kind in "iu":
        return rng.integers(0, 3, u.size).astype(u.dtype)
    return rng.standard_normal(u.size).astype(u.dtype)


def test_loops_of_one_iteration_are_omitted() -> None:
    stage = View(tfn.make_jaxpr(lambda x: x + 1)(tfn.ShapeDtypeStruct((4, 8), "float32")), SMALL)
    n = loop_nest.nest(stage.stages[0].body)
    n = Split(n.loops[1].arg.number, 8, Place.LANE).apply(n)
    assert len(n.loops) == 3
    assert len(simplified(n).loops) == 2
    assert nest(n, ["b", "a"]) == (
        "for r0 in 4:\n  lane r3 in 8:\n    b[r0 * 8 + r3] = a[r0 * 8 + r3] + 1.0"
    )


def test_values_used_twice_are_named() -> None:
    stage = View(
        tfn.make_jaxpr(lambda x: (x + 1) * (x + 1))(tfn.ShapeDtypeStruct((4,), "float32")), SMALL
    ).stages[0]
    text = nest(loop_nest.nest(stage.body), ["b", "a"])
    assert text == "for r0 in 4:\n  v0:f32 = a[r0] + 1.0\n  b[r0] = v0 * v0"
