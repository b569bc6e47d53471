"""Execute or record; capture, leaks, and values that are known while they are traced."""

from __future__ import annotations

import numpy as np
import pytest

import tfn.numpy as tnp
from tfn.dtypes import FLOAT32
from tfn.errors import UnexpectedTracerError
from tfn.trace.bind import bind, call, evaluate, innermost, lift, new_leaf, run_now
from tfn.trace.jaxpr import close
from tfn.trace.op import Op
from tfn.trace.traces import tracing
from tfn.trace.uop import UOp, walk

one = tnp.array([1.0, 2.0, 3.0])
two = tnp.array([4.0, 5.0, 6.0])


def leaf(trace, value=None, name="x"):
    return new_leaf(trace, (3,), FLOAT32, name, value)


def test_concrete_arrays_are_computed_now():
    out = bind(Op.ADD, one, two)
    assert out.owner is None
    assert np.asarray(out).tolist() == [5, 7, 9]


def test_traced_arrays_are_recorded():
    with tracing("f") as trace:
        x = leaf(trace)
        out = bind(Op.MUL, x, x)
        assert out.owner is trace
        assert out.uop is UOp(Op.MUL, (x.uop, x.uop))
        assert (out.shape, out.dtype) == ((3,), FLOAT32)
        assert not out.known


def test_an_array_that_meets_a_trace_is_captured_once():
    with tracing("f") as trace:
        x = leaf(trace)
        first, second = bind(Op.ADD, x, one), bind(Op.ADD, one, x)
        assert first.uop.src[1] is second.uop.src[0]
        assert first.uop.src[1].arg.value is one
        assert bind(Op.ADD, x, two).uop.src[1] is not first.uop.src[1]


def test_the_innermost_trace_records_and_captures_the_outer():
    with tracing("outer") as outer:
        x = leaf(outer)
        with tracing("inner") as inner:
            y = leaf(inner, name="y")
            out = bind(Op.MUL, x, y)
            assert out.owner is inner
            captured = out.uop.src[0]
            assert captured.op is Op.LEAF
            assert captured.arg.value is x
            assert x.uop not in list(walk([out.uop]))  # the inner graph ends at its own leaves
            assert innermost([x, y, one]) is inner
            jaxpr, found = close([out.uop], [y.uop])
            assert found == [captured]
            assert len(jaxpr.params) == 2


def test_a_leak_is_always_found():
    with tracing("loss") as trace:
        leaked = leaf(trace)
    for use in (lambda: bind(Op.ADD, leaked, one), lambda: innermost([leaked])):
        with pytest.raises(UnexpectedTracerError, match="after loss had returned") as caught:
            use()
        assert "test_bind.py" in caught.value.got
    with tracing("outer") as outer:
        x = leaf(outer)
        with pytest.raises(UnexpectedTracerError):
            bind(Op.ADD, x, leaked)


def test_a_leaf_is_known_if_an_array_stands_behind_it():
    with tracing("outer") as outer, tracing("inner") as inner:
        known = leaf(inner, one)
        unknown = leaf(inner, leaf(outer))
        both = leaf(inner, leaf(outer, one))
        assert (known.known, unknown.known, both.known) == (True, False, True)
        assert bind(Op.ADD, known, one).known
        assert not bind(Op.ADD, known, unknown).known


def test_known_values_are_computed_when_asked_for():
    with tracing("f") as trace:
        x = leaf(trace, one)
        out = bind(Op.MUL, bind(Op.ADD, x, x), x)
        assert np.asarray(run_now(out.uop, trace)).tolist() == [2, 8, 18]
        assert run_now(out.uop, trace) is run_now(out.uop, trace)


def test_a_graph_over_values_is_evaluated_whole():
    with tracing("f") as trace:
        x = leaf(trace, one)
        out, kept = bind(Op.MUL, x, two), x
        values = evaluate([out.uop, kept.uop], trace)
    assert np.asarray(values[0]).tolist() == [4, 10, 18]
    assert values[1] is one  # an output that is an array already is that array


def test_after_a_look_at_a_value_nothing_is_compiled_whole():
    with tracing("f") as trace:
        x = leaf(trace, one)
        assert float(bind(Op.ADD, x, x)[0]) == 2.0
        assert trace.concretized
        out = bind(Op.MUL, x, two)
        assert np.asarray(evaluate([out.uop], trace)[0]).tolist() == [4, 10, 18]


def test_inside_an_outer_trace_nothing_runs():
    with tracing("outer") as outer:
        x = leaf(outer)
        with tracing("inner") as inner:
            y = leaf(inner, x)
            out = bind(Op.MUL, y, one)
        (value,) = evaluate([out.uop], inner)
        assert value.owner is outer
        assert value.uop is UOp(Op.MUL, (x.uop, lift(one, outer)))


def test_a_closed_function_is_inlined_or_run():
    with tracing("f") as trace:
        x = leaf(trace)
        jaxpr, _ = close([UOp(Op.MUL, (x.uop, x.uop))], [x.uop])
        (traced,) = call(jaxpr, [x], [False])
        assert traced.uop is UOp(Op.MUL, (x.uop, x.uop))
    (value,) = call(jaxpr, [one], [True])
    assert np.asarray(value).tolist() == [1, 4, 9]
    assert value.weak_type


def test_weakness_of_results_is_as_asked():
    with tracing("f") as trace:
        x = leaf(trace, one)
        strong, weak = evaluate([x.uop, bind(Op.ADD, x, x).uop], trace, [False, True])
    assert (strong.weak_type, weak.weak_type) == (False, True)


def test_a_branch_records_what_is_done_to_outer_values():
    with tracing("outer") as outer:
        x = new_leaf(outer, (), FLOAT32, "x")
        with tracing("branch", branch=True) as branch:
            assert bind(Op.SIN, x).owner is branch
            assert innermost([x]) is branch
            with tracing("nested", branch=True) as nested:
                assert bind(Op.SIN, x).owner is nested
            with tracing("loop") as loop:
                y = new_leaf(loop, (), FLOAT32, "y")
                assert bind(Op.SIN, x).owner is branch
                assert bind(Op.ADD, x, y).owner is loop
            assert bind(Op.SIN, x).owner is branch
        assert bind(Op.SIN, x).owner is outer
