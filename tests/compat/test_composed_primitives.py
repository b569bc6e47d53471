"""JAX's primitives, bound with JAX's parameters, in all transforms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tfn.compat import composed_primitives as primitives
from tfn.compat import names

X = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 2.0], [0.5, 2.0, 5.0]], "float32")
N = np.array([[1, 2, 3], [4, 5, 6]], "int32")
NUMBERS = tfn.lax.ScatterDimensionNumbers((), (0,), (0,))
WINDOW: dict[str, Any] = {
    "window_dimensions": (2, 2), "window_strides": (1, 1), "padding": ((0, 0), (0, 0)),
    "base_dilation": (1, 1), "window_dilation": (1, 1),
}  # fmt: skip
SLIDING = np.lib.stride_tricks.sliding_window_view(X, (2, 2))

CASES: dict[str, tuple[Any, dict[str, Any], Any]] = {
    "clamp": ((np.float32(1), X, np.float32(3)), {}, X.clip(1, 3)),
    "ge": ((X, X.T), {}, X >= X.T),
    "squeeze": ((X[None],), {"dimensions": (0,)}, X),
    "reduce_precision": ((X,), {"exponent_bits": 8, "mantissa_bits": 23}, X),
    "reduce_sum": ((X,), {"axes": (0,), "out_sharding": None}, X.sum(0)),
    "reduce_max": ((X,), {"axes": (0, 1)}, X.max()),
    "reduce_prod": ((X,), {"axes": (1,)}, X.prod(1)),
    "argmax": ((X,), {"axes": (1,), "index_dtype": np.dtype("int32")}, X.argmax(1)),
    "argmin": ((X,), {"axes": (0,), "index_dtype": np.dtype("int32")}, X.argmin(0)),
    "cumsum": ((X,), {"axis": 0, "reverse": False}, X.cumsum(0)),
    "cummax": ((X,), {"axis": 1, "reverse": False}, np.maximum.accumulate(X, 1)),
    "reduce_window_sum": ((X,), WINDOW, SLIDING.sum((2, 3))),
    "reduce_window_max": ((X,), WINDOW, SLIDING.max((2, 3))),
    "reduce_window_min": ((X,), WINDOW, SLIDING.min((2, 3))),
    "scatter_add": ((X[0], N[:, :1] - 1, X[1, :2]), {"dimension_numbers": NUMBERS,
                    "indices_are_sorted": False, "unique_indices": False, "mode": None,
                    "update_jaxpr": None, "update_consts": ()},
                    X[0] + np.float32([X[1, 0], 0, 0])),
    "dynamic_slice": ((X, 1, 1), {"slice_sizes": (2, 1)}, X[1:3, 1:2]),
    "dynamic_update_slice": ((X, np.zeros((1, 3), "float32"), 1, 0), {},
                             np.where(np.arange(3)[:, None] == 1, 0, X)),
    "population_count": ((N,), {}, np.array([[1, 1, 2], [1, 2, 2]])),
    "cholesky": ((X,), {"symmetrize_input": False}, np.linalg.cholesky(X)),
    "tile": ((X,), {"reps": (2, 1)}, np.tile(X, (2, 1))),
    "name": ((X,), {"name": "saved"}, X),
    "copy": ((X,), {}, X),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_they_compute_what_their_names_say(name: str) -> None:
    operands, params, expected = CASES[name]
    p = getattr(primitives, f"{name}_p")
    assert p is getattr(primitives, f"{name}_p") and p.name == name
    for run in (p.bind, tfn.jit(lambda *xs: p.bind(*xs, **params))):
        got = run(*operands, **params) if run == p.bind else run(*operands)
        np.testing.assert_allclose(got, expected, rtol=1e-5, err_msg=name)


def test_those_of_several_results() -> None:
    values, indices = primitives.top_k_p.bind(X, k=2)
    np.testing.assert_array_equal(values, np.sort(X, 1)[:, :0:-1])
    assert indices.shape == (3, 2)
    parts = primitives.split_p.bind(X, sizes=(1, 2), axis=0)
    assert [x.shape for x in parts] == [(1, 3), (2, 3)]
    s, u, v = primitives.svd_p.bind(X, full_matrices=False, compute_uv=True)
    np.testing.assert_allclose((u * s) @ v, X, rtol=1e-4, atol=1e-4)
    vectors, values = primitives.eigh_p.bind(X, lower=True, sort_eigenvalues=True)
    np.testing.assert_allclose(X @ vectors, vectors * values, rtol=1e-4, atol=1e-4)
    (total,) = tfn.vmap(
        lambda x: primitives.psum_p.bind(x, axes=("i",), axis_index_groups=None), axis_name="i"
    )(X)
    np.testing.assert_allclose(total, np.broadcast_to(X.sum(0), X.shape), rtol=1e-6)


def test_transforms_see_what_they_are_made_of() -> None:
    f = lambda x: primitives.cumsum_p.bind(x, axis=0, reverse=False).sum()
    np.testing.assert_allclose(tfn.grad(f)(X[0]), [3, 2, 1])
    g = lambda x: primitives.reduce_max_p.bind(x, axes=(0,))
    np.testing.assert_allclose(tfn.vmap(g)(X), X.max(1))


def test_names_of_the_table_are_those_of_jax() -> None:
    listed = {*names.COMPOSED_NAMES, *names.LINALG_NAMES, "add_jaxvals", "name"}
    assert listed == {*primitives.FUNCTIONS}
    assert {*names.LINALG_NAMES} == primitives.OF_LINALG
    assert {f"{n}_p" for n in listed} == {*dir(primitives)}
    with pytest.raises(AttributeError, match="no primitive nothing_p"):
        primitives.nothing_p  # noqa: B018
