"""Closed functions: closure conversion, identity, printing."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

from tfn.dtypes import BFLOAT16, BOOL, FLOAT32, INT32, INT64
from tfn.trace.argument import Leaf, Param
from tfn.trace.build import add_up, cast, dot, pad, reshape, scan, shrink, sort, where
from tfn.trace.jaxpr import Jaxpr, alone, close, function, inline, leaves, literal, names, param
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const


def leaf(shape=(), dtype=FLOAT32, value=None, name=""):
    return UOp(Op.LEAF, (), Leaf(shape, dtype, value, name))


def params(*types):
    return tuple(Param(i, shape, dtype) for i, (shape, dtype) in enumerate(types))


def test_functions_that_differ_in_names_alone_are_one_object():
    first, second = leaf(name="x"), leaf(name="y")
    one, _ = close([first * 2.0], [first])
    other, _ = close([second * 2.0], [second])
    assert one.function is other.function
    assert one == other


def test_captured_values_become_operands():
    x, w = leaf((3,)), leaf((3,), value=np.ones(3))
    jaxpr, captured = close([x * w], [x])
    assert captured == [w]
    assert [p.index for p in jaxpr.params] == [0, 1]
    assert not leaves(jaxpr.outputs)
    other = leaf((3,), value=np.zeros(3))
    assert close([x * other], [x])[0] == jaxpr  # values are not constants


def test_an_array_captured_twice_is_one_operand():
    array = np.ones(3)
    x, one, two = leaf((3,)), leaf((3,), value=array), leaf((3,), value=array)
    jaxpr, captured = close([x * one + two], [x])
    assert captured == [one]
    assert len(jaxpr.params) == 2
    a, b = map(param, jaxpr.params)
    assert jaxpr.outputs == (a * b + b,)


def test_capturing_does_not_confuse_variables():
    """``y * x`` with x captured must not become ``y * y``."""
    x, y = leaf(name="x"), leaf(name="y")
    inner, captured = close([y * x], [y])
    assert captured == [x]
    a, b = map(param, inner.params)
    assert inner.outputs == (a * b,)
    assert inline(inner, [y, x]) == [y * x]
    assert inline(inner, [x, y]) == [x * y]
    assert inline(inner, [a + b, a]) == [(a + b) * a]


def test_parameters_that_are_not_used_keep_their_place():
    x, y, z = leaf(), leaf((2,)), leaf()
    jaxpr, captured = close([z * 1.0, x], [x, y, z])
    assert [p.shape for p in jaxpr.params] == [(), (2,), ()]
    assert captured == []
    assert jaxpr.outputs[1] is param(jaxpr.params[0])


def test_inline_takes_all_operands():
    x = leaf()
    jaxpr, _ = close([x], [x])
    with pytest.raises(ValueError, match="zip"):
        inline(jaxpr, [])


def show(outputs, *types):
    return str(Jaxpr(function(outputs, params(*types))))


def test_one_equation_prints_on_one_line():
    (p,) = params(((3,), FLOAT32))
    assert show([UOp(Op.SIN, (param(p),))], ((3,), FLOAT32)) == (
        "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"
    )


def test_no_equation_and_no_parameter():
    (p,) = params(((), INT32))
    assert show([param(p), param(p)], ((), INT32)) == "{ lambda ; a:i32[]. let in (a, a) }"
    assert show([const(2.0, FLOAT32)]) == "{ lambda ; . let in (2.0:f32,) }"


def test_several_equations_print_below_each_other():
    types = ((2, 3), FLOAT32), ((3, 4), FLOAT32)
    a, b = map(param, params(*types))
    y = dot(a, b, ((1,), (0,)))
    out = add_up(reshape(where(y < 0.0, y * 0.5, y), (8,)), (0,))
    assert show([out], *types) == (
        "{ lambda ; a:f32[2,3] b:f32[3,4]. let\n"
        "    c:f32[2,4] = dot_general[contract_a=(1), contract_b=(0), batch_a=(), batch_b=(), "
        "dtype=f32] a b\n"
        "    d:f32[2,4] = full[(2, 4)] 0.0:f32\n"
        "    e:bool[2,4] = lt c d\n"
        "    f:f32[2,4] = full[(2, 4)] 0.5:f32\n"
        "    g:f32[2,4] = mul c f\n"
        "    h:f32[2,4] = select e g c\n"
        "    i:f32[8] = reshape[(8)] h\n"
        "    j:f32[] = reduce[op=add, axes=(0)] i\n"
        "  in (j,) }"
    )


def test_movement_casts_and_tuples_print():
    (p,) = params(((4,), FLOAT32))
    x = param(p)
    low, high = sort([shrink(pad(x, (1,), (0,)), (0,), (4,)), x])
    assert show([cast(low, BFLOAT16), high], ((4,), FLOAT32)) == (
        "{ lambda ; a:f32[4]. let\n"
        "    b:f32[5] = pad[low=(1), high=(0), interior=(0)] a 0.0:f32\n"
        "    c:f32[4] = slice[start=(0), stop=(4), step=(1)] b\n"
        "    d = sort[keys=1] c a\n"
        "    e:f32[4] = get[0] d\n"
        "    f:bf16[4] = convert_element_type[bf16] e\n"
        "    g:f32[4] = get[1] d\n"
        "  in (f, g) }"
    )


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (const(1, INT64), "1:i64"),
        (const(True, BOOL), "True:bool"),
        (const(-0.0, FLOAT32), "-0.0:f32"),
        (const(np.nan, FLOAT32), "nan:f32"),
        (const(1.5, BFLOAT16), "1.5:bf16"),
        (const(-np.inf, FLOAT32), "-inf:f32"),
    ],
)
def test_constants_print_as_python_writes_them(node, text):
    assert literal(node.arg) == text


def test_names_go_on_after_z():
    found = list(islice(names(), 26 + 26 * 26 + 1))
    assert [found[i] for i in (0, 25, 26, 27, 51, 52, -1)] == [
        "a",
        "z",
        "aa",
        "ab",
        "az",
        "ba",
        "aaa",
    ]
    assert len(set(found)) == len(found)


def test_a_deep_function_closes_inlines_and_prints():
    x = leaf()
    u = x
    for _ in range(5_000):
        u = u * x
    jaxpr, _ = close([u], [x])
    assert inline(jaxpr, [x]) == [u]
    assert str(jaxpr).count("\n") == 5_001


def looping():
    """A scan of two carries, over a function that squares one parameter and gives another."""
    body = params(((), FLOAT32), ((), FLOAT32))
    a, b = map(param, body)
    return function([a * b, b], body), params(((), FLOAT32), ((4,), FLOAT32))


def test_a_loop_prints_its_body_inside_the_brackets():
    body, outer = looping()
    c, xs = map(param, outer)
    last, ys = scan(body, [], [c], [xs], 4, True)
    assert str(Jaxpr(function([last, ys], outer))) == (
        "{ lambda ; a:f32[] b:f32[4]. let\n"
        "    c = scan[\n"
        "      length=4, reverse=True, consts=0, carries=1,\n"
        "      { lambda ; a:f32[] b:f32[]. let c:f32[] = mul a b in (c, b) }\n"
        "    ] a b\n"
        "    d:f32[] = get[0] c\n"
        "    e:f32[4] = get[1] c\n"
        "  in (d, e) }"
    )


def test_inlining_does_not_enter_nested_functions():
    body, outer = looping()
    c, xs = map(param, outer)
    last, ys = scan(body, [], [c], [xs], 4)
    x, many = leaf(), leaf((4,))
    new, _ = inline(Jaxpr(function([last, ys], outer)), [x, many])
    assert new.src[0].src == (body, x, many)


def test_one_op_alone():
    body, outer = looping()
    c, xs = map(param, outer)
    node = scan(body, [], [c * 2.0], [xs], 4)[0].src[0]
    jaxpr, operands = alone(node)
    assert operands == [c * 2.0, xs]
    assert jaxpr.params == outer and len(jaxpr.outputs) == 2
    jaxpr, operands = alone(c * 2.0)
    assert operands == [c, const(2.0, FLOAT32)] and len(jaxpr.outputs) == 1
