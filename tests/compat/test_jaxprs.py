"""Jaxprs as equations: made, evaluated, interpreted."""

import tfn
import tfn.numpy as tnp
from tfn.compat import jaxprs
from tfn.compat.avals import ShapedArray
from tfn.compat.primitives import Primitive


def interpreted(closed, *args):
    """The results of a jaxpr, by an interpreter as users write them."""
    values = dict(zip(closed.jaxpr.invars, args, strict=True))
    values |= zip(closed.jaxpr.constvars, closed.consts, strict=True)

    def read(atom):
        return atom.val if isinstance(atom, jaxprs.Literal) else values[atom]

    for eqn in closed.eqns:
        params = eqn.primitive.get_bind_params(eqn.params)
        out = eqn.primitive.bind(*map(read, eqn.invars), **params)
        values |= zip(eqn.outvars, out if eqn.primitive.multiple_results else [out], strict=True)
    return [read(atom) for atom in closed.jaxpr.outvars]


def test_jaxprs_can_be_interpreted():
    table = tnp.arange(3.0)

    def f(x, i):
        y = tfn.lax.cond(i > 0, lambda: tnp.sin(x), lambda: x * 2)
        y = tfn.lax.fori_loop(0, 3, lambda _, y: y + table[i], y)
        return tnp.sort(table * y), y

    for args in ((1.0, 1), (2.0, 0)):
        closed = jaxprs.make_jaxpr(f)(*args)
        assert [str(a) for a in closed.in_avals] == ["float32[]", "int32[]"]
        actual = [x.tolist() for x in interpreted(closed, *map(tnp.asarray, args))]
        assert actual == [x.tolist() for x in f(*map(tnp.asarray, args))]
        again = jaxprs.eval_jaxpr(closed.jaxpr, closed.consts, *args)
        assert [x.tolist() for x in again] == actual


def test_functions_of_custom_derivatives_can_be_called():
    f = tfn.custom_jvp(lambda x: tnp.sin(x) * 2)
    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0]))
    (eqn,) = jaxprs.make_jaxpr(f)(1.0).eqns
    (function,) = eqn.primitive.get_bind_params(eqn.params)["subfuns"]
    assert str(eqn.primitive) == "custom"
    assert function.call_wrapped(0.5)[0].tolist() == f(0.5).tolist()
    assert interpreted(jaxprs.make_jaxpr(f)(1.0), 0.5)[0].tolist() == f(0.5).tolist()


def test_operations_on_outer_values_are_recorded():
    """A jaxpr has what its function computes, also of values from outside alone."""
    x = tnp.asarray(2.0)
    closed = jaxprs.make_jaxpr(lambda: tnp.sin(x) + 1)()
    assert [str(e.primitive) for e in closed.eqns] == ["sin", "add"]
    assert len(closed.consts) == 1 and closed.consts[0] is x
    found = []

    @tfn.grad
    def f(x, y):
        z = x + y
        found.append(jaxprs.make_jaxpr(lambda: x * 3 + z)())
        assert [a is b for a, b in zip(found[0].consts, (x, z), strict=True)] == [True, True]
        return z

    assert f(1.0, 2.0) == 1.0 and len(found[0].eqns) == 2
    assert not tnp.sin(x).owner  # outside, operations run at once


def test_jaxprs_have_the_primitives_of_the_user():
    double_p = Primitive("double")
    double_p.def_impl(lambda x, *, times: x * 2**times)
    closed = jaxprs.make_jaxpr(lambda x: double_p.bind(tnp.sin(x), times=3))(1.0)
    sine, double = closed.eqns
    assert str(sine.primitive) == "sin" and double.primitive is double_p
    assert double.params == {"times": 3} and double.invars == sine.outvars
    assert double.outvars == closed.jaxpr.outvars


def test_static_arguments_and_types_of_results():
    closed, out = jaxprs.make_jaxpr(lambda n, x: {"y": x * n}, 0, return_shape=True)(
        3, ShapedArray((2,), "float32")
    )
    assert out["y"].shape == (2,) and len(closed.jaxpr.invars) == 1
    assert jaxprs.jaxpr_as_fun(closed)(tnp.ones(2))[0].tolist() == [3.0, 3.0]
    assert closed == jaxprs.ClosedJaxpr(closed.jaxpr, []) and "mul" in str(closed)


def test_effects_of_jaxprs_happen_in_each_evaluation():
    seen = []
    closed = jaxprs.make_jaxpr(lambda x: tfn.debug.callback(seen.append, x) or x + 1)(1.0)
    assert closed.effects and not seen
    assert float(jaxprs.eval_jaxpr(closed.jaxpr, closed.consts, 4.0)[0]) == 5.0
    assert [float(x) for x in seen] == [4.0]


def test_nested_jaxprs_are_found():
    closed = jaxprs.make_jaxpr(lambda i: tfn.lax.cond(i, tnp.sin, tnp.cos, 1.0))(True)
    assert len(list(jaxprs.subjaxprs(closed.jaxpr))) == 2


def test_each_captured_value_is_a_constant_of_its_own():
    counts = []

    @tfn.jit
    def f(x):
        for a, b in ((tnp.zeros_like(x), tnp.zeros_like(x)), (x, x + 1)):
            closed = jaxprs.make_jaxpr(lambda y: y * a + b)(x)  # noqa: B023
            counts.append(len(closed.consts))
            (y,) = jaxprs.eval_jaxpr(closed.jaxpr, closed.consts, x)
        return y

    assert f(2.0).item() == 7 and counts == [2, 2]
