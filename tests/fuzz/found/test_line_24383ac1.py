"""Found by the fuzzer, check line.

Broken: Disagreement: oracle and float64: NaN or infinities at other places at 1 of 1: np.float64(nan) for np.float64(-7.166165370323233e-44) at []
"""

# ruff: noqa
# fmt: off

from numpy import inf, nan

from tests.fuzz.checks import check
from tests.fuzz.programs import Input, Line, Program

PROGRAM = Program(
    {
        'x': Input(dtype='float32', shape=(), kind='given', seed=0, data=1.401298464324817e-45),
    },
    (
        Line(names=('v8',), source='def g7(p5):\n    v6 = xp.power(xp.abs(p5), p5)\n    return v6\nv8 = tfn.jvp(g7, (x,), (x * 0.5,))[1]', exact=False, by_numpy=False, coarsest='float32'),
    ),
    ('v8',),
    False,
)
"""
def f(x):
    def g7(p5):
        v6 = xp.power(xp.abs(p5), p5)
        return v6
    v8 = tfn.jvp(g7, (x,), (x * 0.5,))[1]
    return (v8,)
"""


def test_line_24383ac1() -> None:
    check("line", PROGRAM)
