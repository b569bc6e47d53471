"""Memory-aware kernel order: after dependencies, and early where that frees memory."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import tfn
import tfn.numpy as tnp
from tfn.dtypes import FLOAT32
from tfn.lower.fuse.kernel_order import memory_aware_order
from tfn.trace.argument import Param
from tfn.trace.op import Op
from tfn.trace.uop import UOp


@dataclass(frozen=True)
class Kernel:
    operands: tuple[UOp, ...]


def value(number: int, size: int = 64, waits: tuple[UOp, ...] = ()) -> UOp:
    x = UOp(Op.PARAM, (), Param(number, (size,), FLOAT32))
    return UOp(Op.GBARRIER, (x, *waits), number)


def order(reads: dict[UOp, list[UOp]], outputs: list[UOp]) -> list[int]:
    members = {u.arg: [u] for u in reads}
    kernels = {u.arg: [Kernel((u, *others))] for u, others in reads.items()}
    return memory_aware_order(members, kernels, outputs)


def test_kernels_that_free_memory_run_early():
    a, b, c = value(0), value(1), value(2)
    gradient = value(9)  # written to an output, last in the graph
    reads = {a: [], b: [a], c: [b], gradient: [a, b]}
    assert order(reads, [c, gradient]) == [0, 1, 9, 2]
    longer = {**reads, value(3): [c], value(4): [value(3)]}
    assert order(longer, [gradient]) == [0, 1, 9, 2, 3, 4]
    assert order(longer, [a, b, gradient]) == [0, 1, 2, 3, 4, 9]  # nothing would be freed


def test_kernels_that_allocate_more_than_they_free_wait():
    a, large = value(0), value(5, 1000)
    assert order({a: [], value(1): [a], value(2): [value(1)], large: [a]}, []) == [0, 1, 2, 5]


def test_dependencies_without_a_read():
    a, b = value(0), value(2)
    late = value(1, waits=(b,))
    assert order({a: [], late: [a], b: [a]}, [late, b]) == [0, 2, 1]


def test_outputs_that_share_kernels_do_not_wait_for_themselves():
    """The sine and the sum share a kernel; so would the zero and the product, which lie between."""

    @tfn.jit
    def f(y):
        zero, sine = tnp.zeros(()), tnp.sin(y)
        product = sine[0] * zero
        total = tfn.lax.scan(lambda c, v: (c + v, c), zero, tnp.stack([y[0], y[0]]))[0]
        return zero, product, sine, sine + total

    zero, product, sine, total = f(tnp.ones(1))
    assert (zero.item(), product.item()) == (0, 0)
    np.testing.assert_allclose(total, sine + 2)


@given(
    st.lists(
        st.tuples(st.integers(1, 9), st.sets(st.integers(0, 19), max_size=3)),
        min_size=1,
        max_size=20,
    )
)
def test_any_order_respects_dependencies(graph):
    values: list[UOp] = []
    reads: dict[UOp, list[UOp]] = {}
    for number, (size, needs) in enumerate(graph):
        values.append(value(number, 16 * size))
        reads[values[-1]] = [values[n] for n in sorted(needs) if n < number]
    numbers = order(reads, values[-1:])
    assert sorted(numbers) == list(range(len(graph)))
    position = {number: i for i, number in enumerate(numbers)}
    assert all(position[s.arg] < position[u.arg] for u, others in reads.items() for s in others)


def test_weight_gradients_free_activations():
    """The forward pass stores one activation per layer; the backward pass frees one by one."""
    n, d = 128, 32
    weights = [tnp.asarray(np.eye(d, dtype=np.float32)) for _ in range(16)]

    def loss(weights, x):
        for w in weights:
            x = x @ w
        return (x * x).sum()

    x = tnp.ones((n, d))
    memory = tfn.jit(tfn.grad(loss)).memory_analysis(weights, x)
    assert memory.temporary_bytes < (16 + 6) * n * d * 4
