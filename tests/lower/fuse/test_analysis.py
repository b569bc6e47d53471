"""Fusion analysis: the results that share a kernel, and the same ones in every process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

import tfn
import tfn.numpy as tnp
from tests.lower.check_passes import HOST
from tests.lower.graphs import assert_matches_oracle, jaxpr, matmul, p
from tfn.dtypes import FLOAT64
from tfn.lower.fuse.analysis import MAX_SHARED_BUFFERS, FusionAnalysis
from tfn.lower.pipeline import lower
from tfn.lower.program import Program
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import UOp

X, Y = p(0, 30, 20), p(1, 30, 20)


def program(outputs: Sequence[UOp]) -> Program:
    return lower(jaxpr(outputs), HOST)


def launches(*outputs: UOp) -> int:
    assert_matches_oracle(outputs)
    return len(program(outputs).launches)


def test_results_of_the_same_inputs_share_a_kernel() -> None:
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
def test_results_read_or_written_at_other_indices_do_not_share(other: UOp) -> None:
    assert launches(X + 1.0, other) == 2


def test_a_result_that_reads_a_sum_of_the_other_does_not_share() -> None:
    first = X + 1.0
    total = build.expand(build.reshape(build.add_up(first, (0,)), (1, 20)), (30, 20))
    assert launches(first, X * 2.0, total * X) >= 2


def test_buffers_of_a_shared_kernel_are_limited() -> None:
    results = [X * float(i) for i in range(3 * MAX_SHARED_BUFFERS)]
    lowered = program(results)
    assert 3 <= len(lowered.launches) <= 5
    assert max(len(launch.operands) for launch in lowered.launches) <= MAX_SHARED_BUFFERS


def test_adam_is_one_kernel_per_parameter() -> None:
    def adam(p, g, m, v):  # type: ignore[no-untyped-def]
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        return p - 0.1 * m / (tnp.sqrt(v) + 1e-8), m, v

    x = {name: tfn.ShapeDtypeStruct((30, n), "float32") for n, name in enumerate("abc", 4)}
    update = tfn.make_jaxpr(lambda *trees: tfn.tree.map(adam, *trees))(x, x, x, x)
    assert len(lower(update, HOST).launches) == 3


def test_every_process_lowers_to_the_same_program() -> None:
    """Inputs and groups beyond a limit are dropped in graph order, not in that of a set."""
    code = (
        "import tfn, tfn.scipy.special as special; x = tfn.ShapeDtypeStruct((1000,), 'float32'); "
        "print(tfn.jit(special.gammainc).lower(x, x).as_text('llvm'))"
    )
    texts = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
        for _ in range(3)
    }
    assert len(texts) == 1


def test_a_kernel_with_earlier_outputs_carries_what_its_later_ones_read() -> None:
    """`late` begins after `goal`, and feeds it: `wide` has an output on either side of the goal."""
    x = p(9, 4)
    early, goal, late, wide = (build.unary(op, x) for op in (Op.SIN, Op.COS, Op.TAN, Op.EXP))
    analysis = FusionAnalysis([x, early, goal, late, wide], frozenset(), set(), {}, 0)
    analysis.first_position |= {goal: 2, late: 3, wide: 1}
    analysis.kernel_readers |= {late: {wide}, wide: {goal}}
    assert not analysis._feeds(late, goal)  # as long as nothing says what the kernel spans
    analysis.wide_kernels.add(wide)
    assert analysis._feeds(late, goal) and not analysis._feeds(goal, late)
