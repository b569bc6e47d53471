"""Found by the fuzzer, check line.

Broken: ShapeError: gather needs windows inside the operand
  got: f16[0], i32[0,1], window (1,)
  at: <program>:5
  hint: the last axis of the indices holds a start for each of the first axes
"""

# ruff: noqa
# fmt: off

from numpy import inf, nan

from tests.fuzz.checks import check
from tests.fuzz.programs import Input, Line, Program

PROGRAM = Program(
    {
        'y': Input(dtype='float16', shape=(0,), kind='given', seed=0, data=[]),
    },
    (
        Line(names=('v5',), source='def g4(p1):\n    v2 = p1 < p1\n    v3 = xp.take_along_axis(p1, xp.argsort(p1, axis=0, stable=True), axis=0)\n    return v3\nv5 = tfn.grad(lambda q: xp.sum(g4(q)))(y)', exact=False, by_numpy=False, coarsest='float16'),
    ),
    ('v5',),
    False,
)
"""
def f(y):
    def g4(p1):
        v2 = p1 < p1
        v3 = xp.take_along_axis(p1, xp.argsort(p1, axis=0, stable=True), axis=0)
        return v3
    v5 = tfn.grad(lambda q: xp.sum(g4(q)))(y)
    return (v5,)
"""


def test_line_8b4f73c6() -> None:
    check("line", PROGRAM)
