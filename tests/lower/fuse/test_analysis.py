"""What is kept for several kernels, and which results share one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.lower.check_passes import HOST
from tests.lower.graphs import agree, jaxpr, matmul, p
from tfn.dtypes import FLOAT64
from tfn.lower.fuse.analysis import MANY_BUFFERS, WORTH_A_LOOP
from tfn.lower.pipeline import lower
from tfn.lower.program import Program
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

X, Y = p(0, 30, 20), p(1, 30, 20)


def program(outputs: Sequence[UOp]) -> Program:
    return lower(jaxpr(outputs), HOST)


def launches(*outputs: UOp) -> int:
    agree(outputs)
    return len(program(outputs).launches)


def test_results_of_the_same_parameters_take_one_pass() -> None:
    sine = build.unary(Op.SIN, X)
    assert launches(X + 1.0, X * 2.0) == 1
    assert launches(X + 1.0, X * 2.0, sine, X - 3.0) == 1
    assert launches(X + Y, X * Y, Y - 1.0) == 1
    assert launches(X + 1.0, Y * 2.0) == 2, "they have nothing in common"


@pytest.mark.parametrize(
    "other",
    (
        build.flip(X, (0,)) * 2.0,
        build.add_up(X, (1,)),
        build.permute(X, (1, 0)) + 1.0,
        matmul(build.permute(X, (1, 0)), X),
        build.cast(X, FLOAT64) * 2.0,
        build.shrink(X, (0, 0), (30, 19)) * 2.0,
    ),
    ids=("flip", "sum", "transpose", "product", "wider", "smaller"),
)
def test_what_is_read_or_written_elsewhere_stays_apart(other: UOp) -> None:
    assert launches(X + 1.0, other) == 2


def test_one_that_needs_the_other_as_a_whole_stays_apart() -> None:
    first = X + 1.0
    total = build.expand(build.reshape(build.add_up(first, (0,)), (1, 20)), (30, 20))
    assert launches(first, X * 2.0, total * X) >= 2


def test_so_many_results_are_several_kernels() -> None:
    many = [X * float(i) for i in range(3 * MANY_BUFFERS)]
    made = program(many)
    assert 3 <= len(made.launches) <= 5
    assert max(len(launch.operands) for launch in made.launches) <= MANY_BUFFERS


def test_adam_is_one_kernel_for_each_parameter() -> None:
    def adam(p, g, m, v):  # type: ignore[no-untyped-def]
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        return p - 0.1 * m / (tnp.sqrt(v) + 1e-8), m, v

    x = {name: tfn.ShapeDtypeStruct((30, n), "float32") for n, name in enumerate("abc", 4)}
    update = tfn.make_jaxpr(lambda *trees: tfn.tree.map(adam, *trees))(x, x, x, x)
    assert len(lower(update, HOST).launches) == 3


def test_a_sum_of_many_is_kept_for_several_kernels() -> None:
    """Of a residual stream each layer reads one value, not all that was added so far."""
    w = p(0, 20, 20)

    def stream(layers: int) -> UOp:
        x = p(1, 30, 20)
        for _ in range(layers):
            x = x + build.unary(Op.TANH, matmul(x, w))
        return x

    few, many = program([stream(12)]), program([stream(24)])
    most = max(len(launch.operands) for launch in many.launches)
    assert most <= 7, "not one operand for each layer"
    assert len(many.kernels) <= len(few.kernels) + 1
    agree([stream(7)], rtol=1e-4, atol=1e-4)


def test_a_sum_of_few_is_made_again() -> None:
    both = X + Y
    assert launches(build.add_up(both, (0,)), build.add_up(both, (1,))) == 2
    assert np.prod(both.shape) == 600


def test_what_outer_loops_would_repeat_is_made_once() -> None:
    """The angles of positions are made once, not for every text; cheap ones are made on the way."""
    x, t = p(0, 32, 16, 8), p(1, 16, 8)
    row = build.reshape(t, (1, 16, 8))

    def turned(angle: UOp) -> int:
        return launches(x * build.expand(angle, x.shape))

    assert turned(build.unary(Op.COS, row)) == 2
    assert turned(build.reshape(build.unary(Op.COS, t), (1, 16, 8))) == 2
    assert turned(row * 2.0) == 1
    few = p(0, 4, 16, 8)
    assert launches(few * build.expand(build.unary(Op.COS, row), few.shape)) == 1
    column = build.unary(Op.COS, p(1, 32, 16, 1))
    assert launches(x * build.expand(column, x.shape)) == 1


@pytest.mark.parametrize("size", (WORTH_A_LOOP // 4, 1 << 10, 1 << 16, 1 << 18))
def test_a_function_that_several_kernels_want_is_kept_in_the_cache(size: int) -> None:
    """Of few elements, and of more than fit, it is made again by each of them."""
    value = build.unary(Op.EXP, p(0, size))
    outputs = [value * p(1, size), build.flip(value, (0,)) * 2.0]
    bodies = [launch.kernel.source for launch in program(outputs).launches]
    making = [body for body in bodies if body and any(u.op is Op.EXP for u in walk([body]))]
    near = WORTH_A_LOOP <= size <= HOST.l2_bytes // 2 // 4
    assert (len(bodies), len(making)) == (2, 1 if near else 2)
    agree(outputs, rtol=1e-5)


def test_every_process_makes_the_same_program() -> None:
    """Of many values that a result is made of, and kernels it might share, the first are taken."""
    code = (
        "import tfn, tfn.scipy.special as special; x = tfn.ShapeDtypeStruct((1000,), 'float32'); "
        "print(tfn.jit(special.gammainc).lower(x, x).as_text('llvm'))"
    )
    texts = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
        for _ in range(3)
    }
    assert len(texts) == 1
