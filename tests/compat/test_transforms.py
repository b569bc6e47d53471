"""Transforms with the arguments and special values that JAX's have."""

import copy

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.compat import transforms
from tfn.compat.avals import ShapedArray, float0
from tfn.compat.settings import disable_jit
from tfn.errors import ArgumentError, CallbackError, GradientError


def test_jit_takes_the_options_of_jax():
    double = transforms.jit(inline=True, static_argnums=None)(lambda x: 2 * x)
    assert float(double(1.0)) == 2.0 and double.cache_info().misses == 1
    assert copy.copy(double)(2.0) == 4.0

    class Model:
        @transforms.jit
        def step(self, x):
            return x + 1

        step_of = staticmethod(transforms.jit(lambda n, x: n * x, static_argnums=0))

    assert float(Model.step_of(3, 2.0)) == 6.0
    assert isinstance(Model.step, transforms.PjitFunction)


def test_disable_jit_runs_python():
    kinds = []
    f = transforms.jit(lambda x: kinds.append(type(x)) or x)
    f(1.0)
    with disable_jit():
        f(1.0)
    assert kinds == [tfn.Array, float]


def test_errors_of_callbacks_have_the_traceback_as_text():
    def fail(x):
        assert isinstance(x, tfn.Array)
        raise KeyError("the reason")

    def f(x):
        return transforms.pure_callback(fail, tfn.ShapeDtypeStruct((), "float32"), x)

    for function in (f, tfn.jit(f)):
        with pytest.raises(CallbackError, match="KeyError: 'the reason'"):
            function(1.0)
    with pytest.raises(RuntimeError, match="the reason"):
        transforms.io_callback(fail, None, 1.0)


def test_symbolic_zeros_are_made_of_types():
    zero = transforms.SymbolicZero(ShapedArray((2,), "float32"))
    assert isinstance(zero, transforms.SymbolicZero) and zero.shape == (2,)
    assert not isinstance(1.0, transforms.SymbolicZero)
    assert transforms.SymbolicZero.from_primal_value(tnp.ones(2, "float16")).dtype == "float16"
    zeros = transforms.zero_from_primal({"x": tnp.ones(2), "n": 3})
    assert zeros["x"].tolist() == [0.0, 0.0] and zeros["n"].dtype == float0
    assert isinstance(transforms.zero_from_primal(1.0, True), transforms.SymbolicZero)
    np.testing.assert_array_equal(zeros["n"].shape, ())


def test_device_get_leaves_traced_values():
    got = transforms.device_get({"x": tnp.ones(2), "n": 3, "s": "text"})
    assert isinstance(got["x"], np.ndarray) and got["n"] == 3 and got["s"] == "text"
    assert tfn.jit(lambda x: transforms.device_get([x, 1.0])[0] * 2)(3.0) == 6.0


def test_results_of_callbacks_are_weak_where_they_are_declared_so():
    like = tfn.eval_shape(lambda: tnp.where(True, 1, -1))
    assert like.weak_type
    traced = tfn.jit(transforms.pure_callback, static_argnums=(0, 1))
    for function in (transforms.pure_callback, traced):
        assert function(lambda: np.int32(3), like).weak_type
        assert not function(lambda: np.int32(3), tfn.ShapeDtypeStruct((), "int32")).weak_type


def test_slopes_of_integers_are_arrays_of_float0():
    def loss(p):
        return p["x"] ** 2 * p["n"], "aux"

    at = {"x": 2.0, "n": tnp.asarray([3, 4])[0]}
    (value, aux), slope = transforms.value_and_grad(loss, has_aux=True, allow_int=True)(at)
    assert (float(value), aux, float(slope["x"])) == (12, "aux", 12)
    assert slope["n"].dtype == float0 and slope["n"].shape == () and slope["n"].size == 1
    slope, aux = transforms.grad(loss, has_aux=True, allow_int=True)(at)
    assert (float(slope["x"]), slope["n"].ndim) == (12, 0)
    pair = tfn.jit(transforms.grad(lambda x, n: x * sum(n), (1, 0), allow_int=True))(2.0, [1, 2])
    assert float(pair[1]) == 3 and [x.dtype for x in pair[0]] == [float0, float0]


def test_cotangents_of_integers_are_arrays_of_float0():
    _, pull = tfn.jit(lambda x, n: transforms.vjp(lambda x, n: x * n, x, n))(2.0, tnp.arange(3))
    of_x, of_n = pull(tnp.ones(3))
    assert float(of_x) == 3 and np.asarray(of_n).dtype == float0 and of_n.shape == (3,)
    _, pull, aux = transforms.vjp(lambda x: (x * x, 7), 3.0, has_aux=True)
    assert float(pull(1.0)[0]) == 6 and aux == 7
    with pytest.raises(GradientError):
        transforms.grad(lambda n: n * 1.0)(3)


def test_arrays_of_float0_pass_through_jit():
    nothing = np.zeros((3,), float0)
    assert transforms.jit(lambda a: a)(nothing).dtype == float0
    assert transforms.jit(lambda a, b: 2 * b)(nothing, 1.5) == 3
    with pytest.raises(ArgumentError, match="not an array"):
        transforms.jit(lambda a: a)(object())


def test_tangents_of_integers_are_arrays_of_float0():
    value, tangent = transforms.jvp(lambda n: 2 * n, (np.arange(3),), (np.zeros(3, float0),))
    assert (value.tolist(), tangent.dtype, tangent.shape) == ([0, 2, 4], float0, (3,))
    assert transforms.jvp(lambda x: 2 * x, (1.0,), (3.0,))[1] == 6
