"""Derivatives of functions of sparse arrays: by the stored elements alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfn import tree, vmap
from tfn.errors import ArgumentError
from tfn.experimental.sparse.bcoo import BCOO
from tfn.experimental.sparse.bcsr import BCSR
from tfn.experimental.sparse.matrices import COO, CSC, CSR
from tfn.extend import wraps
from tfn.transforms import grad as tfn_grad
from tfn.transforms import jacobian as tfn_jacobian

JAXSparse = BCOO | BCSR | COO | CSR | CSC
"""The classes of sparse arrays, for ``isinstance``."""

Function = Callable[..., Any]


def is_sparse(x: object) -> bool:
    """Whether a value is a sparse array."""
    return isinstance(x, JAXSparse)


def _by_elements(
    transform: Function, fun: Function, argnums: int | Sequence[int], options: dict[str, Any]
) -> Function:
    """A transform that takes positions of arrays, of a function of trees with sparse ones.

    The function becomes one of the data of the sparse arrays, and of the other leaves.
    """
    at = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    @wraps(fun)
    def run(*args: Any, **kwargs: Any) -> Any:
        if any(not -len(args) <= i < len(args) for i in at):
            raise ArgumentError(
                "argnums names an argument that is not there", got=f"{at} of {len(args)}"
            )
        chosen = [args[i] for i in at]
        leaves, structure = tree.flatten(chosen, is_leaf=is_sparse)
        elements = [x.data if is_sparse(x) else x for x in leaves]

        def of_elements(elements: Sequence[Any], *rest: Any, **others: Any) -> Any:
            filled = list(rest)
            parts = tree.unflatten(structure, list(map(with_data, leaves, elements)))
            for i, part in zip(at, parts, strict=True):
                filled[i] = part
            return fun(*filled, **others)

        def back(slopes: Sequence[Any]) -> Any:
            found = tree.unflatten(structure, list(map(slope_like, leaves, slopes)))
            return found[0] if isinstance(argnums, int) else tuple(found)

        out = transform(of_elements, **options)(elements, *args, **kwargs)
        return out, back, elements

    return run


def with_data(x: Any, data: Any) -> Any:
    """A sparse array with other data; of a dense one, the data."""
    if not is_sparse(x):
        return data
    leaves, structure = tree.flatten(x)
    return tree.unflatten(structure, [data, *leaves[1:]])


def slope_like(x: Any, slope: Any) -> Any:
    """The derivative by a sparse array as one: axes of the result in front are batch axes."""
    make: Function = lambda data: with_data(x, data)
    if is_sparse(x):
        for _ in range(slope.ndim - x.data.ndim):
            make = vmap(make)
    return make(slope)


def value_and_grad(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Function:
    """`tfn.value_and_grad` of a function of sparse arrays: gradients have their indices.

    Args:
        fun: with a scalar result.
        argnums: positions of the arguments.
        has_aux: whether `fun` returns a pair, of which the first is differentiated.
        kwargs: as `tfn.value_and_grad` takes them.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> x = sparse.BCOO.fromdense(tnp.arange(4.0))
        >>> value, slope = value_and_grad(lambda x, y: x @ y)(x, 2 * tnp.ones(4))
        >>> float(value), slope, slope.data.tolist()
        (12.0, BCOO(float32[4], nse=3), [2.0, 2.0, 2.0])
    """
    options = {"has_aux": has_aux, **kwargs}
    run = _by_elements(tfn_grad.value_and_grad, fun, argnums, options)

    @wraps(fun)
    def value_and_slopes(*args: Any, **kwargs: Any) -> Any:
        (value, slopes), back, _ = run(*args, **kwargs)
        return value, back(slopes)

    return value_and_slopes


def grad(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Function:
    """`tfn.grad` of a function of sparse arrays: gradients have their indices.

    Args:
        fun: with a scalar result.
        argnums: positions of the arguments.
        has_aux: whether `fun` returns a pair, of which the first is differentiated.
        kwargs: as `tfn.grad` takes them.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> x = sparse.BCOO.fromdense(tnp.arange(4.0))
        >>> grad(lambda x, y: x @ y)(x, 2 * tnp.ones(4)).data.tolist()
        [2.0, 2.0, 2.0]
    """
    run = value_and_grad(fun, argnums, has_aux, **kwargs)

    @wraps(fun)
    def slopes(*args: Any, **kwargs: Any) -> Any:
        value, found = run(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return slopes


def _jacobian(transform: Function, fun: Function, argnums: Any, options: dict[str, Any]) -> Any:
    run = _by_elements(transform, fun, argnums, options)

    @wraps(fun)
    def jac(*args: Any, **kwargs: Any) -> Any:
        out, back, elements = run(*args, **kwargs)
        found, aux = out if options["has_aux"] else (out, None)
        slots = tree.structure(elements)
        outer = tree.structure(tree.map(lambda x: 0, found, is_leaf=lambda x: type(x) is list))
        parts = tree.flatten_up_to(outer, found)
        whole = tree.unflatten(outer, [back(tree.flatten_up_to(slots, part)) for part in parts])
        return (whole, aux) if options["has_aux"] else whole

    return jac


def jacfwd(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Function:
    """`tfn.jacfwd` of a function of sparse arrays, with a dense result.

    Args:
        fun: with a dense result.
        argnums: positions of the arguments.
        has_aux: whether `fun` returns a pair, of which the first is differentiated.
        kwargs: as `tfn.jacfwd` takes them.

    Returns:
        A sparse array with the axes of the result as batch axes in front.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> jacfwd(lambda m: m @ tnp.ones(3))(sparse.BCOO.fromdense(tnp.eye(2, 3)))
        BCOO(float32[2, 2, 3], nse=2, n_batch=1)
    """
    return _jacobian(tfn_jacobian.jacfwd, fun, argnums, {"has_aux": has_aux, **kwargs})  # type: ignore[no-any-return]


def jacrev(
    fun: Function, argnums: int | Sequence[int] = 0, has_aux: bool = False, **kwargs: Any
) -> Function:
    """`tfn.jacrev` of a function of sparse arrays, with a dense result: see `jacfwd`.

    Args:
        fun: with a dense result.
        argnums: positions of the arguments.
        has_aux: whether `fun` returns a pair, of which the first is differentiated.
        kwargs: as `tfn.jacrev` takes them.

    Example:
        >>> import tfn.numpy as tnp
        >>> from tfn.experimental import sparse
        >>> jacrev(lambda m: m @ tnp.ones(3))(sparse.BCOO.fromdense(tnp.eye(2, 3)))
        BCOO(float32[2, 2, 3], nse=2, n_batch=1)
    """
    return _jacobian(tfn_jacobian.jacrev, fun, argnums, {"has_aux": has_aux, **kwargs})  # type: ignore[no-any-return]


jacobian = jacrev
