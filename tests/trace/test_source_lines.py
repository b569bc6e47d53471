"""Source lines of nodes: tracked on demand, and inherited."""

from __future__ import annotations

from typing import Any

import tfn
from tfn import errors
from tfn import numpy as tnp
from tfn.dtypes import FLOAT32
from tfn.trace import source_lines
from tfn.trace.argument import Leaf
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk


def f(x: Any) -> Any:
    y = tnp.tan(x)
    return tnp.cosh(y)


def found(g: Any) -> dict[Op, str]:
    return {u.op: source_lines.of(u) for u in walk(tfn.make_jaxpr(g)(1.0).outputs)}


def test_nothing_is_noted_otherwise() -> None:
    before = len(source_lines._ORIGINS)
    tfn.make_jaxpr(lambda x: f(x) * 3)(1.0)
    assert not source_lines.enabled() and len(source_lines._ORIGINS) <= before


def test_each_node_has_its_line() -> None:
    with source_lines.tracking():
        assert source_lines.enabled()
        with source_lines.tracking():
            noted = found(f)
        assert source_lines.enabled()
    assert noted[Op.TAN].endswith("y = tnp.tan(x)")
    assert noted[Op.COSH].endswith("return tnp.cosh(y)")


def test_derivatives_and_batches_inherit() -> None:
    with source_lines.tracking():
        slope = found(tfn.grad(f))
        lanes = found(tfn.vmap(f, in_axes=None, axis_size=2))
    assert slope[Op.SINH].endswith("return tnp.cosh(y)")
    assert lanes[Op.TAN].endswith("y = tnp.tan(x)")


def test_jitted_functions_are_traced_anew_for_their_lines() -> None:
    jitted = tfn.jit(f)
    outer = tfn.jit(lambda x: jitted(x) * 2)
    assert float(outer(1.0)) == float(outer(1.0))
    misses = jitted.cache_info().misses, outer.cache_info().misses
    with source_lines.tracking():
        noted = {u.op: source_lines.of(u) for u in walk(outer.trace(1.0).jaxpr.outputs)}
        value = float(outer(1.0))
    assert noted[Op.TAN].endswith("y = tnp.tan(x)")
    assert value == float(outer(1.0))
    assert (jitted.cache_info().misses, outer.cache_info().misses) == misses


def test_lines_can_be_put() -> None:
    x = UOp(Op.LEAF, (), Leaf((3,), FLOAT32))
    with source_lines.tracking():
        source_lines.put(x, ("elsewhere.py", 7))
        assert source_lines.line_of(x) == ("elsewhere.py", 7)


def test_a_block_begins_without_lines() -> None:
    with source_lines.tracking():
        first = tfn.make_jaxpr(f)(1.0)
    with source_lines.tracking():
        assert {source_lines.line_of(u) for u in walk(first.outputs)} == {None}


def test_lines_are_those_of_the_innermost_frame_of_the_user() -> None:
    """Also where other frames of the user are at the depth at which an op was met before."""
    expected = {"return tnp.cosh(y)", "y = tnp.tan(x)"}
    depths = dict(errors._DEPTHS)
    try:
        for depth in range(1, 40):
            errors._DEPTHS.update(dict.fromkeys(Op, depth))
            with source_lines.tracking():
                noted = found(f)
            assert {noted[op].split("  ")[-1] for op in (Op.TAN, Op.COSH)} == expected, depth
    finally:
        errors._DEPTHS.clear()
        errors._DEPTHS.update(depths)
