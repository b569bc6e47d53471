"""Kept rows: what loops over a row share is computed once, and results are as before."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.lower.check_passes import HOST
from tests.lower.graphs import assert_matches_oracle, jaxpr, p
from tfn import nn
from tfn.lower.fuse import boundaries, ranges
from tfn.lower.memory.in_place import accesses_of, is_in_place
from tfn.lower.passes import CORES as passes
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.spec import Stage, check
from tfn.trace.uop import UOp, walk


def body(*outputs: UOp) -> UOp:
    """The only kernel of a function."""
    (stage,) = ranges.indexed_kernels(boundaries.insert_barriers(jaxpr(outputs).function, HOST))
    assert isinstance(stage, ranges.IndexedKernel)
    check([stage.body], Stage.RANGES)
    return stage.body


def row(x: UOp, op: Op = Op.ADD) -> UOp:
    """A reduction of rows, along them."""
    total = build.reduce(x, op, (x.ndim - 1,))
    return build.expand(build.reshape(total, (*x.shape[:-1], 1)), x.shape)


def softmax(x: UOp) -> UOp:
    e = UOp(Op.EXP, (x - row(x, Op.MAX),))
    return e / row(e)


def kept(kernel: UOp) -> tuple[int, int]:
    """The number of values that are kept, and of those that are read."""
    memos = [u for u in walk([kernel]) if u.op is Op.MEMO]
    return sum(len(u.src) == 3 for u in memos), sum(len(u.src) == 4 for u in memos)


def rounds(kernel: UOp) -> int:
    """The exponentials in a kernel's instructions: each rounds its argument by a magic number."""
    decomposed = passes.decompose(kernel, HOST)
    items = passes.linearize(passes.split(decomposed, HOST), HOST)
    return sum(u.op is Op.SUB and u.src[1].op is Op.CONST and u.src[0].op is Op.FMA for u in items)


def test_an_exponential_is_computed_once_by_a_softmax() -> None:
    kernel = body(softmax(p(0, 6, 1024)))
    assert kept(kernel) == (1, 1)
    assert rounds(kernel) == 1


def test_all_later_loops_read_what_the_first_has_kept() -> None:
    x, d = p(0, 6, 1024), p(1, 6, 1024)
    y = softmax(x)
    kernel = body(y * (d - row(y * d)))
    assert kept(kernel) == (1, 2)
    assert rounds(kernel) == 1


@pytest.mark.parametrize("shape", [(3, 1000), (2, 3, 77), (5, 8), (4, 4097), (1, 40), (70, 129)])
def test_results_are_those_of_the_oracle(shape: Sequence[int]) -> None:
    x, d = p(0, *shape), p(1, *shape)
    y = softmax(x)
    assert_matches_oracle([y], rtol=1e-5, atol=1e-6)
    assert_matches_oracle([y * (d - row(y * d)), y], rtol=1e-4, atol=1e-5)


def test_cheap_values_products_and_other_dtypes_are_not_kept() -> None:
    x = p(0, 6, 1000)
    centred = x - row(x)
    assert kept(body(centred / row(centred * centred))) == (0, 0)
    rate = UOp(Op.RSQRT, (row(centred * centred),))  # one for a row
    assert kept(body(centred * rate - row(centred * rate))) == (0, 0)
    assert kept(body(softmax(p(0, 6, 64)))) == (0, 0)
    assert kept(body(build.cast(softmax(x), tfn.dtypes.INT32))) == (0, 0)


def test_a_reduction_outside_of_a_loop_over_equal_rows_stays_outside() -> None:
    e = UOp(Op.EXP, (build.expand(build.reshape(p(0, 1000), (1, 1000)), (6, 1000)),))
    bodies = ranges.indexed_kernels(boundaries.insert_barriers(jaxpr([e / row(e)]).function, HOST))
    assert all(kept(k.body) == (0, 0) for k in bodies if isinstance(k, ranges.IndexedKernel))


def test_a_result_that_holds_a_row_is_not_written_over_an_operand() -> None:
    kernel = body(softmax(p(0, 6, 1000)) * p(1, 6, 1000))
    assert kept(kernel) == (1, 1)
    operands = {u.arg.index for u in walk([kernel]) if u.op is Op.PARAM} - {0}
    assert not any(is_in_place(accesses_of(kernel), 0, [i]) for i in operands)
    f = tfn.jit(lambda x, b: nn.softmax(x) * b, donate_argnums=1)
    x, b = np.random.default_rng(0).standard_normal((2, 6, 1000)).astype("f")
    e = np.exp(x - x.max(1, keepdims=True))
    expected = e / e.sum(1, keepdims=True) * b
    np.testing.assert_allclose(f(tnp.asarray(x), tnp.array(b)), expected, rtol=1e-5)


@pytest.mark.parametrize("f", [nn.softmax, nn.log_softmax, lambda x: nn.logsumexp(x, axis=-1)])
def test_gradients_are_those_of_float64(f: Callable[..., tfn.Array]) -> None:
    x = np.random.default_rng(1).standard_normal((9, 1003))
    w = np.random.default_rng(2).standard_normal(f(tnp.asarray(x)).shape)

    def gradient(dtype: str) -> np.ndarray:
        loss = tfn.jit(tfn.grad(lambda x: (f(x) * tnp.asarray(w.astype(dtype))).sum()))
        return np.asarray(loss(tnp.asarray(x.astype(dtype))))

    np.testing.assert_allclose(gradient("float32"), gradient("float64"), rtol=2e-4, atol=1e-6)
