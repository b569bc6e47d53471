"""Named axes: which can be named where, and what depends on them."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import tfn
import tfn.numpy as tnp
from tfn import lax
from tfn.errors import AxisNameError
from tfn.trace import traces
from tfn.trace.sharding import Axis
from tfn.transforms.shard import axes


def test_axes_live_while_their_function_is_traced() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.append([a.axis for a in axes.live()])
        return x

    tfn.vmap(tfn.vmap(f, axis_name="j"), axis_name="i")(tnp.zeros((2, 3)))
    assert seen == [[Axis("i", 2), Axis("j", 3)]] and axes.live() == []
    with pytest.raises(ZeroDivisionError):
        tfn.vmap(lambda x: 1 // 0, axis_name="i")(tnp.zeros(2))
    assert axes.live() == []


def test_other_threads_have_other_axes() -> None:
    errors: list[Any] = []

    def other() -> None:
        with pytest.raises(AxisNameError) as caught:
            lax.axis_size("i")
        errors.append(caught.value)

    def f(x: Any) -> Any:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return x

    tfn.vmap(f, axis_name="i")(tnp.zeros(2))
    assert len(errors) == 1


def test_traces_within_an_axis_depend_on_it_once_they_use_it() -> None:
    with traces.tracing("f") as outer:
        axis = axes.lane_axis(Axis("i", 2))
        with axes.named([axis]), traces.tracing("g") as inner:
            assert not inner.uses_axes
            assert axes.find("psum", "i") is axis
            assert inner.uses_axes and not outer.uses_axes
        with axes.named([axis]), traces.tracing("h") as inner:
            assert axes.live_indices() == [axis.index] and inner.uses_axes
        assert not outer.uses_axes
        with pytest.raises(NameError), axes.named([axis]):
            axes.find("psum", "j")
        assert outer.uses_axes


def test_an_environment_is_a_key() -> None:
    with traces.tracing("f"):
        a, b = axes.lane_axis(Axis("i", 2)), axes.lane_axis(Axis("i", 2), manual=True)
        with axes.named([a, b]):
            assert axes.environment() == ((Axis("i", 2), False, False), (Axis("i", 2), True, False))
            assert axes.find("psum", "i") is b
    assert axes.environment() == ()


def test_functions_that_use_no_axis_are_traced_once() -> None:
    traced: list[int] = []

    @tfn.jit
    def double(x: Any) -> Any:
        traced.append(1)
        return 2 * x

    def body(c: Any, x: Any) -> Any:
        traced.append(1)
        return c + x, None

    for n in (2, 2, 3):
        x = tnp.arange(float(n))
        f = lambda x: double(x) + lax.scan(body, 0.0, tnp.ones(3))[0]
        assert tfn.vmap(f, axis_name="i")(x).tolist() == [2 * i + 3 for i in range(n)]
    assert len(traced) <= 4
