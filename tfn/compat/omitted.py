"""Arguments that JAX's functions have and tfn's have not, which ``import jax`` accepts.

    jax.scipy.linalg.inv(x, check_finite=False)   IGNORED: advice that changes no result

A function of these tables is wrapped when ``import jax`` finds it; all others are as they are.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from tfn.compat.key_arrays import MOVES, OF_KEYS, moving_keys
from tfn.compat.ufuncs import PAIRS, with_methods
from tfn.errors import NotAvailableError
from tfn.extend import shown
from tfn.numpy.creation import resolved
from tfn.sharding import PartitionSpec

# fmt: off
_LINALG = ("cho_factor cho_solve cholesky det eigh inv lu lu_factor lu_solve qr solve "
           "solve_triangular svd")

IGNORED: dict[str, dict[str, str]] = {
    "jax.numpy": {
        "precision": "inner vecdot",
        "allow_pickle": "save savez",
        "order": "copy",
    },
    "jax.numpy.linalg": {"precision": "multi_dot vecdot"},
    "jax.lax": {
        "accuracy": "cbrt cos exp exp2 expm1 log log1p logistic rsqrt sin sqrt tan tanh",
        "allow_negative_indices": "dynamic_index_in_dim dynamic_slice dynamic_slice_in_dim "
                                  "dynamic_update_index_in_dim dynamic_update_slice "
                                  "dynamic_update_slice_in_dim",
    },
    "jax.lax.linalg": {
        "implementation": "eig eigh",
        "use_magma": "eig qr",
        "algorithm": "svd",
    },
    "jax.nn": {"implementation": "dot_product_attention", "algorithm": "standardize"},
    "jax.scipy.linalg": {
        "overwrite_a overwrite_b check_finite debug turbo lapack_driver lwork": _LINALG,
        "upper_triangular": "expm",
        "overwrite_a check_finite": "hessenberg",
        "overwrite_a overwrite_c": "qr_multiply",
    },
    "jax.scipy.special": {"series_order": "log_ndtr"},
    "jax": {"backend": "pmap"},
}
"""By module: advice that changes no result here, and the functions that take it."""

ONLY_NONE: dict[str, dict[str, str]] = {
    "jax.numpy": {
        "preferred_element_type": "inner vecdot",
        "out where": "add subtract multiply maximum minimum logaddexp logaddexp2 logical_and "
                     "logical_or logical_xor bitwise_and bitwise_or bitwise_xor negative",
    },
    "jax.lax": {
        "group_offset": "ragged_dot",
    },
    "jax.numpy.linalg": {
        "preferred_element_type": "vecdot",
        "subset_by_index": "svd",
    },
    "jax.lax.linalg": {"perturb_singular": "tridiagonal_solve"},
    "jax.scipy.stats.multivariate_normal": {"allow_singular": "logpdf"},
    "jax": {
        "reduce_axes": "grad value_and_grad vjp linear_transpose",
        "allow_int": "jacrev",
    },
}
"""By module: arguments that are accepted where they ask for nothing: None, (), or a default."""

_DEFAULTS: dict[str, object] = {
    "where": True, "perturb_singular": False, "allow_int": False, "mode": "low",
}
"""Other values of theirs that ask for nothing."""

_REDUCTION = "a axis dtype out keepdims initial where"
_OUT_FIRST = "a axis out keepdims initial where"
POSITIONS: dict[str, dict[str, str]] = {
    "jax.numpy": {
        "a indices axis out mode unique_indices indices_are_sorted fill_value": "take",
        "file arr allow_pickle": "save",
        "a order": "copy",
    },
    "jax.lax": {
        "lhs rhs window_strides padding lhs_dilation rhs_dilation dimension_numbers "
        "feature_group_count batch_group_count precision preferred_element_type out_sharding":
            "conv_general_dilated",
        "x fill_value dtype shape sharding": "full_like",
        "lhs rhs group_sizes precision preferred_element_type group_offset out_sharding":
            "ragged_dot",
        "operands init_values computation dimensions out_sharding": "reduce",
    },
    "jax.ops": {
        "data segment_ids num_segments indices_are_sorted unique_indices bucket_size mode "
        "out_sharding": "segment_sum segment_prod segment_max segment_min",
    },
    "jax.nn.initializers": {"key shape dtype out_sharding": "ones zeros"},
    "jax.numpy.linalg": {"a full_matrices compute_uv hermitian subset_by_index": "svd"},
    "jax.random": {"key a shape replace p axis mode": "choice"},
    "jax.scipy.linalg": {
        "a lower overwrite_a check_finite": "cholesky cho_factor",
        "c_and_lower b overwrite_b check_finite": "cho_solve",
        "a overwrite_a check_finite": "det inv lu_factor",
        "a b lower eigvals_only overwrite_a overwrite_b turbo eigvals type check_finite": "eigh",
        "a permute_l overwrite_a check_finite": "lu",
        "a c mode pivoting conjugate overwrite_a overwrite_c": "qr_multiply",
        "lu_and_piv b trans overwrite_b check_finite": "lu_solve",
        "a overwrite_a lwork mode pivoting check_finite": "qr",
        "a b lower overwrite_a overwrite_b debug check_finite assume_a": "solve",
        "a b trans lower unit_diagonal overwrite_b debug check_finite": "solve_triangular",
        "a full_matrices compute_uv overwrite_a check_finite lapack_driver": "svd",
    },
    "jax.scipy.special": {"x series_order": "log_ndtr"},
    "jax.scipy.stats.multivariate_normal": {"x mean cov allow_singular": "logpdf"},
}
"""By module: all positional arguments, where omitted ones are among them, and the functions."""

SHARDED: dict[str, dict[str, str]] = {
    "jax.numpy": {
        "out_sharding": "array asarray bincount full_like ones_like zeros_like ravel repeat "
                        "percentile broadcast_to",
    },
    "jax.random": {
        "out_sharding": "ball bernoulli beta bits categorical cauchy chisquare dirichlet "
                        "exponential f gamma generalized_normal geometric gumbel laplace loggamma "
                        "logistic lognormal maxwell multivariate_normal normal orthogonal pareto "
                        "permutation poisson rademacher randint rayleigh t triangular "
                        "truncated_normal uniform wald",
    },
    "jax.ops": {"out_sharding": "segment_max segment_min segment_prod segment_sum"},
    "jax.nn.initializers": {"out_sharding": "ones zeros"},
    "jax.lax": {
        "out_sharding": "broadcast broadcast_in_dim conv_general_dilated empty ragged_dot reduce "
                        "reduce_sum rng_bit_generator",
        "sharding": "full full_like",
    },
}
"""By module: arguments that say how a result is divided, and the functions that take them."""
# fmt: on


def _keys(table: dict[str, dict[str, str]], module: str, name: str) -> list[str]:
    """The words of the rows that a function is in."""
    rows = table.get(module, {}).items()
    return [key for keys, names in rows if name in names.split() for key in keys.split()]


def omitted(module: str, name: str) -> frozenset[str]:
    """The keywords of a function of JAX that tfn's has not.

    Example:
        >>> sorted(omitted("jax.numpy", "inner"))
        ['precision', 'preferred_element_type']
    """
    return frozenset(
        key for table in (IGNORED, ONLY_NONE, SHARDED) for key in _keys(table, module, name)
    )


def positions(module: str, name: str) -> tuple[str, ...]:
    """The positional arguments of a function of JAX, if omitted ones are among them.

    Example:
        >>> positions("jax.random", "choice")
        ('key', 'a', 'shape', 'replace', 'p', 'axis', 'mode')
    """
    return tuple(_keys(POSITIONS, module, name))


def adapted(module: str, name: str, function: Any) -> Any:
    """A function that takes all of JAX's arguments, and keys where it moves elements; else itself.

    Example:
        >>> import tfn.numpy as tnp
        >>> x = tnp.array([1, 2])
        >>> int(adapted("jax.numpy", "inner", tnp.inner)(x, x, precision="highest"))
        5
    """
    if module == "jax.numpy" and name in PAIRS:
        function = with_methods(name, function)
    if name in MOVES.get(module, ()):
        function = moving_keys(function)
    for names, with_keys in OF_KEYS.items():
        if (module, name) in names:
            function = with_keys(function)
    others = omitted(module, name)
    order = positions(module, name)
    if not (others or order) or not callable(function):
        return function
    empty, sharded = (set(_keys(table, module, name)) for table in (ONLY_NONE, SHARDED))
    call = _taking(function, f"{module}.{name}", others, empty, sharded, order)
    call.__module__, call.__qualname__ = module, name  # where pickle finds it
    return call


def _asks_for_nothing(key: str, value: object) -> bool:
    """Whether an argument is a default, or a sharding that divides nothing."""
    spec = getattr(value, "spec", None)
    undivided = isinstance(spec, PartitionSpec) and not any(spec)
    default = key in _DEFAULTS and value is _DEFAULTS[key]
    return value is None or default or (isinstance(value, tuple) and not value) or undivided


def _taking(
    function: Callable[..., Any],
    title: str,
    others: frozenset[str],
    empty: set[str],
    sharded: set[str],
    order: tuple[str, ...] = (),
) -> Callable[..., Any]:
    # The arguments that both have at the same places are passed on by position.
    same = 0
    if order:
        own = list(inspect.signature(function).parameters)
        while same < min(len(order), len(own)) and order[same] == own[same]:
            same += 1

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        place = None
        if order and len(args) > same:
            if len(args) > len(order):
                raise TypeError(f"{title}() takes {len(order)} positional arguments")
            kwargs |= dict(zip(order[same:], args[same:]))
            args = args[:same]
        for key in kwargs.keys() & others:
            value = kwargs.pop(key)
            if key in sharded:
                place = value
            elif key in empty and not _asks_for_nothing(key, value):
                raise NotAvailableError(
                    f"{title} has no {key}", got=f"{key}={shown(value)}", hint="leave it out"
                )
        if place is not None:
            return resolved(place, lambda: function(*args, **kwargs))
        return function(*args, **kwargs)

    return call
