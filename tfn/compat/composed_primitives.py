"""JAX's primitives that tfn computes by several operations: ``cumsum_p``, ``reduce_sum_p``, ...

    reduce_sum_p.bind(x, axes=(0,))    ->    tfn.lax.reduce_sum(x, (0,))

They are bound as in JAX.  The equations of a jaxpr have the operations that they become, so an
interpreter that looks for them there finds none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tfn import checkpoint_name, lax
from tfn import numpy as tnp
from tfn.compat.primitives import Primitive

Function = Callable[..., Any]


def _elementwise(function: Function) -> Function:
    """A function of its operands, whose parameters are hints."""
    return lambda *operands, **hints: function(*operands)


def _over_axes(function: Function) -> Function:
    return lambda x, *, axes, **hints: function(x, axes)


def _extreme_index(function: Function) -> Function:
    return lambda x, *, axes, index_dtype="int32": function(x, axes[0], index_dtype)


def _running(function: Function) -> Function:
    return lambda x, *, axis, reverse=False: function(x, axis, reverse)


def _windows(function: Function, first: float) -> Function:
    """A reduction over windows by a monoid."""

    def reduce_window(
        x: Any,
        *,
        window_dimensions: Sequence[int],
        window_strides: Sequence[int],
        padding: Any,
        base_dilation: Any = None,
        window_dilation: Any = None,
    ) -> Any:
        sizes = window_dimensions, window_strides, padding, base_dilation, window_dilation
        return lax.reduce_window(x, first, function, *sizes)

    return reduce_window


def _scatter(function: Function) -> Function:
    def scatter(
        x: Any, indices: Any, updates: Any, *, dimension_numbers: Any, **params: Any
    ) -> Any:
        return function(x, indices, updates, dimension_numbers, mode=params.get("mode"))

    return scatter


def _along_names(function: Function) -> Function:
    def reduce_names(*operands: Any, axes: Any, axis_index_groups: Any = None) -> Any:
        return [function(x, axes, axis_index_groups=axis_index_groups) for x in operands]

    return reduce_names


def _dynamic_slice(x: Any, *starts: Any, slice_sizes: Sequence[int]) -> Any:
    return lax.dynamic_slice(x, starts, slice_sizes)


def _dynamic_update_slice(x: Any, update: Any, *starts: Any) -> Any:
    return lax.dynamic_update_slice(x, update, starts)


def _eigh(x: Any, *, lower: bool, **hints: Any) -> Any:
    return lax.linalg.eigh(x, lower=lower, symmetrize_input=False)


def _svd(x: Any, *, full_matrices: bool, compute_uv: bool, **hints: Any) -> Any:
    out = lax.linalg.svd(x, full_matrices=full_matrices, compute_uv=compute_uv)
    return (out[1], out[0], out[2]) if compute_uv else (out,)


def _triangular_solve(a: Any, b: Any, **params: Any) -> Any:
    return lax.linalg.triangular_solve(a, b, **params)


# fmt: off
FUNCTIONS: dict[str, Function] = {
    **{name: _elementwise(getattr(lax, function)) for name, function in (
        ("add_jaxvals", "add"), ("bessel_i0e", "bessel_i0e"), ("bessel_i1e", "bessel_i1e"),
        ("clamp", "clamp"), ("clz", "clz"), ("ge", "ge"), ("gt", "gt"),
        ("igamma", "igamma"), ("igammac", "igammac"), ("igamma_grad_a", "igamma_grad_a"),
        ("is_finite", "is_finite"), ("nextafter", "nextafter"), ("polygamma", "polygamma"),
        ("population_count", "population_count"), ("random_gamma_grad", "random_gamma_grad"),
        ("regularized_incomplete_beta", "betainc"),
        ("shift_right_logical", "shift_right_logical"), ("zeta", "zeta"),
    )},
    "copy": _elementwise(lambda x: tnp.asarray(x)),
    "reduce_precision": lambda x, **bits: lax.reduce_precision(x, **bits),
    "squeeze": lambda x, *, dimensions: lax.squeeze(x, dimensions),
    "name": lambda x, *, name: checkpoint_name(x, name),
    **{name: _over_axes(getattr(lax, name)) for name in (
        "reduce_sum", "reduce_prod", "reduce_max", "reduce_min", "reduce_and", "reduce_or",
        "reduce_xor")},
    **{name: _extreme_index(getattr(lax, name)) for name in ("argmax", "argmin")},
    **{name: _running(getattr(lax, name)) for name in (
        "cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp")},
    "reduce_window_sum": _windows(lax.add, 0),
    "reduce_window_max": _windows(lax.max, -float("inf")),
    "reduce_window_min": _windows(lax.min, float("inf")),
    **{name: _scatter(getattr(lax, name)) for name in (
        "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max")},
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "axis_index": lambda *, axis_name: lax.axis_index(axis_name),
    "ppermute": lambda x, *, axis_name, perm: lax.ppermute(x, axis_name, perm),
    **{name: _along_names(getattr(lax, name)) for name in ("psum", "pmax", "pmin")},
    "top_k": lambda x, *, k, axis=-1, **hints: lax.top_k(x, k, axis=axis),
    "split": lambda x, *, sizes, axis: lax.split(x, sizes, axis),
    "tile": lambda x, *, reps: lax.tile(x, reps),
    "cholesky": lambda x, **hints: lax.linalg.cholesky(x, symmetrize_input=False),
    "lu": lambda x, **hints: lax.linalg.lu(x),
    "qr": lambda x, *, full_matrices, **hints: lax.linalg.qr(x, full_matrices=full_matrices),
    "eigh": _eigh,
    "svd": _svd,
    "triangular_solve": _triangular_solve,
    "tridiagonal_solve": lambda dl, d, du, b, **hints: lax.linalg.tridiagonal_solve(dl, d, du, b),
    "householder_product": _elementwise(lambda a, taus: lax.linalg.householder_product(a, taus)),
    "lu_pivots_to_permutation": lambda pivots, *, permutation_size:
        lax.linalg.lu_pivots_to_permutation(pivots, permutation_size),
}
"""The functions of operands and of JAX's parameters, by the names of primitives."""

SEVERAL = frozenset({"psum", "pmax", "pmin", "top_k", "split", "lu", "qr", "eigh", "svd"})
"""Primitives of several results."""

OF_LINALG = frozenset({
    "cholesky", "eigh", "householder_product", "lu", "lu_pivots_to_permutation", "qr", "svd",
    "triangular_solve", "tridiagonal_solve",
})
"""Primitives of ``jax.lax.linalg``; all others are in ``jax.lax``."""
# fmt: on


@functools.cache
def primitive(name: str) -> Primitive:
    """The primitive of a row: always the same object."""
    made = Primitive(name)
    made.composed, made.multiple_results = True, name in SEVERAL
    made.def_impl(FUNCTIONS[name])
    return made


def __getattr__(name: str) -> Any:
    base = name.removesuffix("_p")
    if base == name or base not in FUNCTIONS:
        raise AttributeError(f"tfn has no primitive {name}")
    return primitive(base)


def __dir__() -> list[str]:
    return [f"{name}_p" for name in FUNCTIONS]
