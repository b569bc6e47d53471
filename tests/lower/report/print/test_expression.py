"""Expression printer: texts, evaluated by Python, give the values of the graph."""

from __future__ import annotations

import pytest

from tests.covering import together
from tfn.dtypes import BOOL, FLOAT32, INT32, INT64
from tfn.lower.report.print.expression import Text, operation
from tfn.trace import build
from tfn.trace.argument import Range
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, walk

A, B, C = (UOp(Op.RANGE, (), Range(n, 50)) for n in range(3))
VALUES = {A: 13, B: 5, C: 3}


def text(u: UOp) -> str:
    texts: dict[UOp, Text] = {}
    for node in walk([u]):
        texts[node] = operation(node, [texts[s] for s in node.src])
    return texts[u].text


@together(
    "u",
    [
        A + B * C,
        (A + B) * C,
        A - (B - C),
        A - B - C,
        A // B // C,
        A // (B * C),
        (A // B) * C,
        A % B * C,
        A * (B % C),
        -A + B,
        -(A + B),
        (A << C) + B,
        A << (C + 1),
        (A + B) & C,
        A & (B | C),
        A & B | C,
        A ^ (B & C),
        ~A & B,
        (A ^ B) ^ C,
        (A & B) + C,
        A + -3,
        A - (B + -3),
        build.where(A < B, A, B),
        build.maximum(A, B) - C,
        build.where(~(A < B), A, B),
        build.where((A < B) & ((B < C) | (C < A)), A, B),
        build.where((A < B) | (B < C), C, A),
        build.where((A < B) & (B < C) & (C < A), A, B),
        build.where(const(4, INT64) < A, A, B),
        build.where(const(14, INT64) <= A, A, B),
    ],
)
def test_python_evaluates_expressions(u: UOp) -> None:
    from_text = eval(  # the text is ours
        text(u),
        {
            "r0": 13,
            "r1": 5,
            "r2": 3,
            "where": lambda c, x, y: x if c else y,
            "max": max,
            "min": min,
        },
    )
    assert from_text == _meaning(u), text(u)


def _meaning(u: UOp) -> int:
    work = {
        Op.ADD: lambda x, y: x + y,
        Op.SUB: lambda x, y: x - y,
        Op.MUL: lambda x, y: x * y,
        Op.FLOORDIV: lambda x, y: x // y,
        Op.MOD: lambda x, y: x % y,
        Op.NEG: lambda x: -x,
        Op.SHL: lambda x, y: x << y,
        Op.AND: lambda x, y: x & y,
        Op.OR: lambda x, y: x | y,
        Op.XOR: lambda x, y: x ^ y,
        Op.LT: lambda x, y: x < y,
        Op.LE: lambda x, y: x <= y,
        Op.MAX: max,
        Op.WHERE: lambda c, x, y: x if c else y,
    }
    values: dict[UOp, int] = {}
    for node in walk([u]):
        sources = [values[s] for s in node.src]
        if node.op is Op.CONST:
            values[node] = int(node.arg.value)
        elif node.op is Op.RANGE:
            values[node] = VALUES[node]
        elif node.op is Op.NOT:
            values[node] = not sources[0] if node.dtype == BOOL else ~sources[0]
        else:
            values[node] = work[node.op](*sources)
    return values[u]


@pytest.mark.parametrize(
    "value, dtype, want",
    [
        (0.1, FLOAT32, "0.1"),
        (-0.0, FLOAT32, "-0.0"),
        (float("inf"), FLOAT32, "inf"),
        (float("nan"), FLOAT32, "nan"),
        (-7, INT32, "-7"),
        (True, BOOL, "True"),
    ],
)
def test_literals_are_short(value: object, dtype: object, want: str) -> None:
    assert text(const(value, dtype)) == want  # type: ignore[arg-type]


def test_casts_name_the_dtype() -> None:
    assert text(build.cast(A, FLOAT32)) == "f32(r0)"
    assert text(build.bitcast(build.cast(A, FLOAT32), INT32)) == "bits_i32(f32(r0))"
