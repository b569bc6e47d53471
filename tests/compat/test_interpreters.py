"""Rules of kinds of primitives: derivatives and lanes against those of the implementation."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.compat import interpreters, primitives
from tfn.compat.avals import ShapedArray
from tfn.compat.hlo import AddOp, MulOp
from tfn.compat.mlir import register_lowering
from tfn.compat.primitives import Primitive, primitive_batchers
from tfn.compat.zeros import Zero, is_undefined_primal
from tfn.errors import MissingRuleError

X = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)


def primitive(name: str, impl: Any) -> Primitive:
    p = Primitive(name)
    p.def_impl(impl)
    return p


def test_derivatives_by_each_operand() -> None:
    p = primitive("p", lambda x, y: x**2 * y)
    interpreters.defjvp(p, lambda dx, x, y: 2 * x * y * dx, lambda dy, x, y: x**2 * dy)
    got = tfn.grad(lambda x, y: p.bind(x, y).sum(), (0, 1))(X, 2 * X)
    expected = tfn.grad(lambda x, y: (x**2 * y).sum(), (0, 1))(X, 2 * X)
    np.testing.assert_allclose(got, expected, rtol=1e-6)
    half = primitive("half", lambda x, y: x * y)
    interpreters.defjvp2(half, None, lambda dy, z, x, y: dy * x)
    assert [float(g) for g in tfn.grad(half.bind, (0, 1))(2.0, 3.0)] == [0.0, 2.0]


def test_linear_and_bilinear_primitives() -> None:
    p = primitive("turn", lambda x: x[::-1] * 2)
    interpreters.deflinear(p, lambda ct: [2 * ct[::-1]])
    f = lambda x: (p.bind(x) * tnp.arange(6.0).reshape(2, 3)).sum()
    np.testing.assert_allclose(tfn.grad(f)(X), 2 * np.arange(6.0).reshape(2, 3)[::-1], rtol=1e-6)
    np.testing.assert_allclose(tfn.jvp(p.bind, (X,), (X,))[1], 2 * X[::-1], rtol=1e-6)
    q = primitive("matmul", lambda x, y: x @ y)
    interpreters.defbilinear(q, lambda ct, x, y: ct @ y.T, lambda ct, x, y: x.T @ ct)
    g = lambda f: tfn.grad(lambda x, y: (f(x, y) ** 2).sum(), (0, 1))(X, X.T)
    for got, expected in zip(g(q.bind), g(lambda x, y: x @ y), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)
    assert interpreters.get_primitive_transpose(p)(X, None)[0].shape == X.shape
    zero = Zero(ShapedArray((), "float32"))
    assert interpreters.get_primitive_transpose(q)(zero, X, X) == [None, None]
    with pytest.raises(MissingRuleError, match="no transpose rule"):
        interpreters.get_primitive_transpose(Primitive("bare"))


def test_lanes() -> None:
    p = primitive("add", lambda x, y: x + y)
    interpreters.defvectorized(p)
    np.testing.assert_allclose(tfn.vmap(p.bind, (1, 0), 1)(X, X.T), 2 * X, rtol=1e-6)
    np.testing.assert_allclose(tfn.vmap(p.bind, (0, None))(X, X[0]), X + X[0], rtol=1e-6)
    q = primitive("plus", lambda x, y: x + y)
    interpreters.defbroadcasting(q)
    out = tfn.vmap(q.bind, (0, 0))(X[:, 0], X)
    np.testing.assert_allclose(out, X[:, :1] + X, rtol=1e-6)
    r = primitive("total", lambda x, *, axes: x.sum(axes))
    interpreters.defreducer(r)
    cube = np.arange(24, dtype="float32").reshape(2, 3, 4)
    for axis in range(3):
        got = tfn.vmap(lambda x: r.bind(x, axes=(1,)), axis)(cube)
        np.testing.assert_allclose(got, np.moveaxis(cube, axis, 0).sum(2), rtol=1e-6)
    for made in (p, q, r):
        del primitive_batchers[made]


def test_axes_are_put_in_front() -> None:
    assert interpreters.bdim_at_front(X, 1, 3).shape == (3, 2)
    assert interpreters.bdim_at_front(X, None, 4).shape == (4, 2, 3)
    assert interpreters.broadcast(X, 4, 1).shape == (2, 4, 3)


def test_the_tutorial_of_primitives() -> None:
    """A primitive with all its rules, written as JAX's tutorial does: How JAX primitives work."""
    from_numpy = lambda x, y, z: np.asarray(x) * np.asarray(y) + np.asarray(z)
    p = primitive("multiply_add", from_numpy)
    p.def_abstract_eval(lambda x, y, z: ShapedArray(x.shape, x.dtype))
    register_lowering(p, lambda ctx, x, y, z: [AddOp(MulOp(x, y), z).result], platform="cpu")
    multiply_add = lambda x, y, z: p.bind(x, y, z)
    calls: list[str] = []

    def jvp(primals: Any, tangents: Any) -> Any:
        calls.append("jvp")
        x, y, z = primals
        dx, dy, dz = (t.instantiate() if type(t) is Zero else t for t in tangents)
        return multiply_add(x, y, z), multiply_add(dx, y, multiply_add(x, dy, dz))

    def transpose(ct: Any, x: Any, y: Any, z: Any) -> Any:
        calls.append("transpose")
        unknown = is_undefined_primal
        if not unknown(x):
            zero = tnp.zeros(x.shape, x.dtype)
            return None, multiply_add(ct, x, zero), ct
        zero = tnp.zeros(y.shape, y.dtype)
        return multiply_add(ct, y, zero), None, ct

    def batch(operands: Any, axes: Any) -> Any:
        calls.append("batch")
        return multiply_add(*operands), axes[0]

    primitives.primitive_jvps[p] = jvp
    primitives.primitive_transposes[p] = transpose
    primitives.primitive_batchers[p] = batch
    square_add = lambda a, b: multiply_add(a, a, b)
    assert float(square_add(2.0, 10.0)) == float(tfn.jit(square_add)(2.0, 10.0)) == 14.0
    assert [float(x) for x in tfn.jvp(square_add, (2.0, 10.0), (1.0, 1.0))] == [14.0, 5.0]
    assert float(tfn.grad(square_add)(2.0, 10.0)) == 4.0
    assert float(tfn.jit(tfn.grad(square_add))(2.0, 10.0)) == 4.0
    many = tfn.vmap(square_add)(np.float32([2, 3]), np.float32([10, 20]))
    assert many.tolist() == [14.0, 29.0]
    assert {*calls} == {"jvp", "transpose", "batch"}


def test_primitives_that_are_compiled_by_their_lowering() -> None:
    p = Primitive("doubled")
    p.def_impl(partial(interpreters.apply_primitive, p))
    p.def_abstract_eval(lambda x: x)
    register_lowering(p, lambda ctx, x: [AddOp(x, x).result])
    assert float(p.bind(2.0)) == float(tfn.jit(p.bind)(2.0)) == 4.0
    with pytest.raises(MissingRuleError, match="no lowering"):
        interpreters.apply_primitive(Primitive("bare"), 1.0)
