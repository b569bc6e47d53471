"""Propagation: specs that follow from operands, and the wishes of users."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

import tfn
import tfn.numpy as tnp
from tests.fuzz.values import devices
from tfn.trace.op import Op
from tfn.trace.sharding import OPEN, Axis, Partition
from tfn.trace.uop import UOp, walk
from tfn.transforms.shard.factors import Factors
from tfn.transforms.shard.propagate import (
    Context,
    assigned,
    constrained,
    even,
    local_shape,
    proper,
    refines,
    undivided,
)

MESH = (Axis("x", 2), Axis("y", 4), Axis("one", 1))


def propagated(
    f: Any, shapes: Any, specs: Any, wishes: Any = (None,)
) -> tuple[Any, dict[UOp, Any], dict[UOp, Any]]:
    """The Jaxpr of a function, the specs of its values, and the wishes for them."""
    jaxpr = tfn.make_jaxpr(f)(*[np.ones(shape, np.float32) for shape in shapes])
    found = Context({axis.name: axis.size for axis in MESH}).propagated(jaxpr.function, specs)
    return jaxpr, found.spec, found.backward(wishes)


def test_forward_through_a_loop() -> None:
    f = lambda x, w: tfn.lax.scan(lambda c, w: (tnp.tanh(c @ w), c), x, w)
    jaxpr, spec, _ = propagated(f, [(8, 4), (3, 4, 4)], [(("x",), ()), undivided(3)], (None, None))
    assert [spec[u] for u in jaxpr.outputs] == [(("x",), ()), ((), ("x",), ())]


def test_forward_through_a_loop_of_no_operands() -> None:
    f = lambda x: tfn.lax.scan(lambda c, r: (c * 0.5, tfn.grad(tnp.sum)(r)), x[0], x)[1]
    jaxpr, spec, _ = propagated(f, [(8, 4)], [(("x",), ())])
    (loop,) = [u for u in walk(jaxpr.outputs) if u.op is Op.SCAN]
    assert len(loop.src) == 1, "neither carries nor slices are used"
    assert [spec[u] for u in jaxpr.outputs] == [undivided(2)]
    with devices(2):
        mesh = tfn.make_mesh((2,), ("x",), tfn.sharding.AxisType.Auto)
        x = tfn.device_put(np.ones((8, 4), np.float32), tfn.NamedSharding(mesh, tfn.P("x")))
        np.testing.assert_array_equal(tfn.jit(f)(x), np.ones((8, 4)))


def test_wishes_reach_what_nothing_divides() -> None:
    f = lambda x: x * tnp.arange(8.0)
    jaxpr, spec, wish = propagated(f, [(8,)], [(("y",),)])
    (counter,) = [u for u in walk(jaxpr.outputs) if u.op is Op.IOTA]
    assert spec[counter] == ((),) and wish[counter] == (("y",),)


def test_users_that_differ_wish_nothing() -> None:
    f = lambda x, y: (x * tnp.arange(8.0), y * tnp.arange(8.0))
    jaxpr, _, wish = propagated(f, [(8,), (8,)], [(("x",),), (("y",),)], (None, None))
    (counter,) = [u for u in walk(jaxpr.outputs) if u.op is Op.IOTA]
    assert wish.get(counter) is None


def test_what_conflicts_is_left_out() -> None:
    factors = Factors(((0, 1), (1, 0)), (0, 1), (8, 6))
    sizes = {"x": 2, "y": 4}
    rows = [((0, 1), (("x",), ())), ((1, 0), (("x",), ("y",)))]
    assert assigned(rows, factors, sizes) == {0: ("x",)}
    assert assigned([((0, 1), ((), ("y",)))], factors, sizes) == {1: ("y",)}  # with padding
    reshaped = replace(factors, even=frozenset({1}))
    assert assigned([((0, 1), ((), ("y",)))], reshaped, sizes) == {}  # 4 does not divide 6
    assert assigned(rows, factors, sizes, omitted={0}) == {1: ("x",)}


def test_parts_and_padding() -> None:
    sizes = {"x": 2, "y": 4}
    assert local_shape((7, 8), (("x",), ("y",)), sizes) == (4, 2)
    assert even((7, 8), (("x",), ("y",)), sizes) == ((), ("y",))
    assert even((7, 3), (("x",), ("y",)), sizes, padded=True) == (("x",), ())
    assert even((7,), (("x", "y"),), sizes, padded=True) == ((),), "padding is of one axis"


def test_specs() -> None:
    arg = Partition(MESH, (("x", "one"), ("one",)))
    assert proper(arg) == (("x",), ())
    assert refines((("x", "y"), ()), (("x",), ())) and not refines((("y",), ()), (("x",), ()))
    open_axis = Partition(MESH, (OPEN, ("x",)))
    assert constrained(open_axis, (("x", "y"), ()), (8, 5)) == (("y",), ("x",))
