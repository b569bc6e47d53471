"""Lowering rules."""

import numpy as np
import pytest

import tfn
from tfn.compat import hlo, primitives
from tfn.compat.avals import ShapedArray
from tfn.compat.mlir import Building, ir_constant, lower_fun, register_lowering
from tfn.compat.primitives import Primitive
from tfn.errors import ArgumentError


def test_rules_for_other_platforms_are_ignored():
    p = Primitive("p")
    register_lowering(p, lower_fun(abs), platform="tpu")
    assert p not in primitives.lowerings
    register_lowering(p, lower_fun(abs), platform="cpu")
    assert primitives.lowerings.pop(p) is abs
    register_lowering(p, lambda context, x: x)
    assert isinstance(primitives.lowerings.pop(p), Building)


def test_rules_cannot_be_called():
    with pytest.raises(ArgumentError, match="no MLIR"):
        lower_fun(abs)(1.0)


def test_rules_that_build_elementwise_operations_are_traced():
    p = Primitive("multiply_add")
    seen = []

    def rule(context, x, y, z):
        seen.append([str(a) for a in (*context.avals_in, *context.avals_out)])
        return [hlo.AddOp(hlo.MulOp(x, y), hlo.add(z, ir_constant(np.float32(1)))).result]

    p.def_impl(lambda x, y, z: np.asarray(x) * np.asarray(y) + np.asarray(z) + 1)
    p.def_abstract_eval(lambda x, y, z: ShapedArray(x.shape, x.dtype))
    register_lowering(p, rule)
    try:
        x = np.float32([1, 2])
        assert tfn.jit(lambda x: p.bind(x, x, x))(x).tolist() == [3.0, 7.0]
        assert seen == [["float32[2]"] * 4]
        assert "multiply_add" in str(tfn.make_jaxpr(lambda x: p.bind(x, x, x))(x))
    finally:
        del primitives.lowerings[p]


def test_rules_that_build_other_operations_leave_the_work_to_the_implementation():
    p = Primitive("elsewhere")
    register_lowering(p, lambda context, x: [hlo.CustomCallOp(x).result])
    p.def_impl(lambda x: np.asarray(x) + 1)
    p.def_abstract_eval(lambda x: ShapedArray(x.shape, x.dtype))
    try:
        assert tfn.jit(p.bind)(np.float32([1, 2])).tolist() == [2.0, 3.0]
    finally:
        del primitives.lowerings[p]


def test_the_implementation_of_a_primitive_without_results_is_left_the_work():
    p = Primitive("nothing")
    p.multiple_results = True
    register_lowering(p, lambda context, x: [hlo.CustomCallOp(x).result])
    p.def_impl(lambda x: [])
    p.def_abstract_eval(lambda x: [])
    try:
        assert tfn.jit(lambda x: (p.bind(x), x + 1))(np.float32(1))[1] == 2
    finally:
        del primitives.lowerings[p]
