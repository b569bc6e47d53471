"""Types of the transforms: they keep the signature of the function that they wrap.

Run by pytest, which checks the values, and by ``make lint``, where mypy checks the same lines: each
`assert_type`, and that each ``type: ignore`` hides an error (an unused one is an error of mypy).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, assert_type

import pytest

import tfn
import tfn.numpy as tnp
from tfn import Array
from tfn.errors import ArgumentError
from tfn.trace.jaxpr import Jaxpr
from tfn.transforms.aot import Compiled, Lowered, Traced
from tfn.transforms.jit import CacheInfo, Jitted
from tfn.transforms.linearize import LinearMap


class Params(NamedTuple):
    weight: Array
    bias: Array


def loss(params: Params, x: Array, *, scale: float = 1.0) -> Array:
    return (scale * (params.weight * x + params.bias) ** 2).sum()


def loss_with_aux(params: Params, x: Array) -> tuple[Array, str]:
    return loss(params, x), "aux"


def square(x: Array) -> Array:
    return x * x


def repeat(x: Array, times: int) -> Array:
    return tnp.stack([x] * times)


PARAMS, X = Params(tnp.ones(3), tnp.zeros(3)), tnp.arange(3.0)


def test_jit_keeps_the_signature() -> None:
    compiled = tfn.jit(loss)
    assert assert_type(compiled(PARAMS, X, scale=2.0), Array).shape == ()
    same: Callable[[Array], Array] = tfn.jit(square)
    assert assert_type(same(X), Array).tolist() == [0.0, 1.0, 4.0]
    assert assert_type(tfn.jit(lambda x: 2 * x)(1.0), Any) == 2.0


def test_jit_shows_its_attributes() -> None:
    compiled = tfn.jit(square)
    assert_type(compiled.trace(X), Traced)
    assert_type(compiled.lower(X), Lowered)
    machine_code = assert_type(compiled.lower(X).compile(), Compiled)
    assert machine_code(X).tolist() == [0.0, 1.0, 4.0]
    assert assert_type(compiled.cache_info(), CacheInfo).misses == 1
    assert assert_type(compiled.__name__, str) == "square"


def test_jit_with_options_keeps_the_signature() -> None:
    @tfn.jit(static_argnums=1)
    def twice(x: Array, times: int) -> Array:
        return repeat(x, times)

    @partial(tfn.jit, static_argnames="times")
    def thrice(x: Array, times: int) -> Array:
        return repeat(x, times)

    assert assert_type(twice(X, 2), Array).shape == (2, 3)
    result: Array = thrice(X, times=3)  # mypy loses P in a partial of overloads, and accepts
    assert result.shape == (3, 3)


def test_jit_of_methods_binds_self() -> None:
    class Model:
        @tfn.jit(static_argnums=0)
        def scaled(self, x: Array, by: float = 2.0) -> Array:
            return by * x

    model = Model()
    assert assert_type(model.scaled(X), Array).tolist() == [0.0, 2.0, 4.0]
    assert_type(tfn.jit(model.scaled)(X, by=3.0), Array)
    unbound: Jitted[[Model, Array, float], Array] = Model.scaled
    assert unbound(model, X, 1.0).tolist() == [0.0, 1.0, 2.0]


def test_checkers_refuse_what_the_function_refuses() -> None:
    with pytest.raises(TypeError):
        tfn.jit(square)(X, X)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        tfn.vmap(square)()  # type: ignore[call-arg]
    with pytest.raises(ArgumentError):
        tfn.jit(square)("text")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError):
        tfn.jit(3)  # type: ignore[call-overload]
    with pytest.raises(TypeError):
        tfn.grad(loss)(PARAMS, X, rate=1.0)  # type: ignore[call-arg]


def test_gradients_keep_the_parameters() -> None:
    gradient = tfn.grad(loss)(PARAMS, X, scale=2.0)
    assert_type(gradient, Any)
    value, slopes = tfn.value_and_grad(loss, argnums=(0, 1))(PARAMS, X)
    assert_type(value, Array)
    assert isinstance(gradient, Params) and len(slopes) == 2
    stepped: Callable[[Params, Array], Any] = tfn.jit(tfn.grad(loss))
    assert stepped(PARAMS, X).weight.shape == (3,)
    assert tfn.grad(tfn.grad(lambda x: x * x * x))(2.0) == 12.0


def test_gradients_with_aux_are_pairs() -> None:
    gradient, aux = tfn.grad(loss_with_aux, has_aux=True)(PARAMS, X)
    assert assert_type(aux, str) == "aux" and isinstance(gradient, Params)
    (value, aux), gradient = tfn.value_and_grad(loss_with_aux, has_aux=True)(PARAMS, X)
    assert_type(value, Array)
    assert_type(aux, str)


def test_vmap_and_checkpoint_keep_the_signature() -> None:
    rows = tnp.ones((2, 3))
    assert assert_type(tfn.vmap(square)(rows), Array).shape == (2, 3)
    assert assert_type(tfn.vmap(loss, in_axes=(None, 0))(PARAMS, rows), Array).shape == (2,)
    assert assert_type(tfn.checkpoint(loss)(PARAMS, X, scale=2.0), Array).shape == ()

    @tfn.checkpoint(policy=tfn.checkpoint_policies.dots_saveable)
    def layer(x: Array) -> Array:
        return tnp.sin(x)

    assert assert_type(layer(X), Array).shape == (3,)
    assert assert_type(tfn.stop_gradient(PARAMS), Params).weight.shape == (3,)
    assert assert_type(tfn.call(square, name="square")(X), Array).shape == (3,)


def test_jacobians_keep_the_parameters() -> None:
    for jacobian in (tfn.jacfwd(square)(X), tfn.jacrev(square)(X)):
        assert jacobian.shape == (3, 3)
    assert_type(tfn.jacrev(loss_with_aux, 0, has_aux=True)(PARAMS, X), tuple[Any, str])
    assert tfn.hessian(loss, argnums=1)(PARAMS, X, scale=1.0).shape == (3, 3)


def test_linear_maps_come_with_the_result() -> None:
    assert_type(tfn.jvp(square, (X,), (X,)), tuple[Array, Array])
    assert_type(tfn.jvp(loss_with_aux, (PARAMS, X), (PARAMS, X), True), tuple[Array, Array, str])
    assert_type(tfn.linearize(square, X), tuple[Array, LinearMap])
    value, pullback = tfn.vjp(loss, PARAMS, X)
    assert assert_type(value, Array).shape == () and len(pullback(1.0)) == 2
    assert_type(tfn.vjp(loss_with_aux, PARAMS, X, has_aux=True), tuple[Array, LinearMap, str])


def test_custom_derivatives_keep_the_signature() -> None:
    @tfn.custom_jvp
    def f(x: Array) -> Array:
        return x * x

    @f.defjvp
    def f_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        return f(*primals), 10 * tangents[0]

    def power(x: Array, n: int) -> Array:
        return x**n

    @tfn.custom_gradient
    def h(x: Array) -> tuple[Array, Callable[[Array], Array]]:
        return x * x, lambda ct: 10 * ct

    g = tfn.custom_vjp(power, nondiff_argnums=(1,))  # pyright loses the types in a partial
    g.defvjp(lambda x, n: (g(x, n), None), lambda n, _, ct: (n * ct,))
    assert assert_type(f(X), Array).tolist() == [0.0, 1.0, 4.0]
    assert assert_type(g(X, 3), Array).tolist() == [0.0, 1.0, 8.0]
    assert assert_type(h(X), Array).tolist() == [0.0, 1.0, 4.0]
    assert assert_type(f_jvp((X,), (X,)), tuple[Array, Array])[1].tolist() == [0.0, 10.0, 20.0]
    one = tnp.ones(())
    assert tfn.grad(f)(one) == 10.0 and tfn.grad(g)(one, 3) == 3.0 and tfn.grad(h)(one) == 10.0


def test_checkify_and_ravel_keep_types() -> None:
    error, result = tfn.checkify.checkify(square)(X)
    assert assert_type(error, tfn.checkify.Error).get() is None
    assert assert_type(result, Array).shape == (3,)
    vector, unravel = tfn.flatten_util.ravel_pytree(PARAMS)
    assert assert_type(vector, Array).shape == (6,)
    assert assert_type(unravel(2 * vector), Params).weight.tolist() == [2.0, 2.0, 2.0]


def test_programs_have_types() -> None:
    assert_type(tfn.make_jaxpr(square)(X), Jaxpr)
    jaxpr, types = tfn.make_jaxpr(square, return_shape=True)(tfn.ShapeDtypeStruct((3,), tnp.int32))
    assert_type(jaxpr, Jaxpr)
    assert types.shape == tfn.eval_shape(square, X).shape == (3,)
