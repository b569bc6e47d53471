"""One value at one index: demands, gates, and positions."""

from __future__ import annotations

from tests.lower.graphs import p
from tfn.dtypes import BOOL, FLOAT32, INT64
from tfn.lower.fuse.indexing import VALUE, Index, Walker, both, flat, unflat, within
from tfn.trace import build
from tfn.trace.argument import Range
from tfn.trace.op import Op
from tfn.trace.spec import KERNELS_OPS
from tfn.trace.uop import UOp, const

ZERO = const(0, INT64)
R, S = (UOp(Op.RANGE, (), Range(n, size)) for n, size in enumerate((5, 7)))


def test_positions() -> None:
    assert flat((5, 7), (R, S)) is R * 7 + S
    assert flat((), ()) is ZERO
    assert flat((5, 1), (R, ZERO)) is R
    assert unflat((5, 7), flat((5, 7), (R, S))) == (R, S)
    assert unflat((35,), flat((5, 7), (R, S))) == (R * 7 + S,)
    assert unflat((1, 5, 1), R) == (ZERO, R, ZERO)


def test_gates() -> None:
    assert within(R, 0, 5) is None, "it always holds"
    assert within(R, 5, 9) is const(False, BOOL)
    gate = within(R, 2, 9)
    assert gate is not None
    assert both(None, gate) is gate is both(gate, None) and both(None, None) is None
    assert both(gate, const(False, BOOL)) is const(False, BOOL)


def test_every_op_of_a_kernel_has_a_value_at_an_index() -> None:
    """But for what has kernels of its own, or is no array."""
    own = {
        Op.SCATTER,
        Op.SORT,
        Op.GET,
        Op.TUPLE,
        Op.FUNCTION,
        Op.SCAN,
        Op.WHILE,
        Op.COND,
        Op.CALL,
        Op.HOST,
        Op.KERNEL,
        Op.LINEAR,
    }
    assert set(VALUE) >= KERNELS_OPS - own - {Op.PARAM}


def test_a_value_is_asked_for_once() -> None:
    x = p(0, 5, 7)
    walker = Walker(())
    first = walker.value(x * x + x, (R, S), None)
    assert walker.value(x * x + x, (R, S), None) is first
    asked = [node for node, index, gate in walker.answers if node is x]
    assert len(asked) == 1
    walker.value(x, (S, R), None)
    assert len([node for node, index, gate in walker.answers if node is x]) == 2


def test_buffers_are_numbered_as_they_come_outputs_first() -> None:
    x, y = p(0, 5), p(1, 5)
    out = UOp(Op.GBARRIER, (x + y,), 0)
    walker = Walker([out])
    walker.value(y + x, (R,), None)
    assert list(walker.operands) == [out, y, x]
    assert [u.arg.index for u in walker.operands.values()] == [0, 1, 2]
    assert all(u.shape == (5,) for u in walker.operands.values())


def test_another_kernels_barrier_is_loaded_and_its_own_is_not() -> None:
    x = p(0, 5)
    barrier = UOp(Op.GBARRIER, (x + 1.0,), 0)
    assert Walker(()).value(barrier, (R,), None).op is Op.LOAD
    assert Walker([barrier]).value(barrier, (R,), None).op is Op.ADD


def test_ranges() -> None:
    walker = Walker(())
    one, five = walker.axes((1, 5))
    assert one is ZERO and five.arg == Range(0, 5)
    assert walker.range(5).arg == Range(1, 5)


def test_a_gate_goes_down_to_the_loads() -> None:
    x = p(0, 5, 7)
    gate = S < 3
    value = Walker(()).value(build.permute(x, (1, 0)) * 2.0, (S, R), gate)
    (load,) = (u for u in value.src if u.op is Op.LOAD)
    assert load.src[1:] == (R * 7 + S, gate)


def test_deep_graphs_are_walked_without_recursion() -> None:
    x = p(0, 5)
    for _ in range(5_000):
        x = x + 1.0
    assert Walker(()).value(x, (R,), None).op is Op.ADD


def test_where_parameters_are_values_none_is_loaded() -> None:
    x, asked = p(0, 5), []

    def given(param: UOp, index: Index, gate: UOp | None) -> UOp:
        asked.append((param, index, gate))
        return const(3.0, FLOAT32)

    walker = Walker((), given=given)
    walker.answers[x, (R,), None] = const(2.0, FLOAT32)
    assert walker.value(x + 1.0, (R,), None) is const(2.0, FLOAT32) + 1.0
    assert walker.value(build.flip(x, (0,)), (R,), None) is const(3.0, FLOAT32)
    assert [param for param, _, _ in asked] == [x] and not walker.operands
