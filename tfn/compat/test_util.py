"""Derivatives checked against finite differences: ``jax.test_util``.

One random direction is checked: the tangent along it against a central difference, and the
cotangents by the inner product, which must be the same forwards and backwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from tfn import jvp, tree, vjp

TOLERANCE = {2: 1e-1, 4: 2e-3, 8: 1e-5}
"""Relative error that is accepted, by the size in bytes of a real number: that of a central
difference, whose error is the square root of the rounding error at best."""

STEP = 1e-4
"""Step of a central difference: JAX's, which the tolerances of libraries' tests are made for."""


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int,
    modes: Sequence[str] = ("fwd", "rev"),
    atol: Any = None,
    rtol: Any = None,
    eps: float | None = None,
) -> None:
    """Check the derivatives of a function up to an order against finite differences.

    Args:
        f: a function of trees of arrays.
        args: where to check.
        order: of derivatives: 2 checks those of derivatives too.
        modes: ``"fwd"``, ``"rev"`` or both.
        atol, rtol: errors that are accepted, or dicts of them by dtype.
        eps: the step of the difference.

    Raises:
        AssertionError: if they differ.

    Example:
        >>> import tfn.numpy as tnp
        >>> check_grads(tnp.sin, (0.5,), order=2)
    """
    args = tuple(args)
    if "fwd" in modes:
        check_jvp(f, partial(jvp, f), args, atol, rtol, eps)
    if "rev" in modes:
        check_vjp(f, partial(vjp, f), args, atol, rtol, eps)
    if order <= 1:
        return
    draw = np.random.RandomState(0)
    if "fwd" in modes:
        dxs = tree.map(partial(_random_like, draw), args)
        check_grads(lambda *xs: jvp(f, xs, dxs)[1], args, order - 1, modes, atol, rtol, eps)
    if "rev" in modes:
        ct = tree.map(partial(_random_like, draw), f(*args))
        check_grads(lambda *xs: vjp(f, *xs)[1](ct), args, order - 1, modes, atol, rtol, eps)


def check_jvp(
    f: Callable[..., Any],
    f_jvp: Callable[..., Any],
    args: Sequence[Any],
    atol: Any = None,
    rtol: Any = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Check ``f_jvp(args, tangents)`` against a difference of `f` along a random direction.

    Raises:
        AssertionError: if they differ.
    """
    direction = tree.map(partial(_random_like, np.random.RandomState(0)), tuple(args))
    value, tangent = f_jvp(tuple(args), direction)
    _close(value, f(*args), atol, rtol, f"{err_msg} primal")
    _close(tangent, _difference(f, args, direction, eps), atol, rtol, f"{err_msg} tangent")


def check_vjp(
    f: Callable[..., Any],
    f_vjp: Callable[..., Any],
    args: Sequence[Any],
    atol: Any = None,
    rtol: Any = None,
    eps: float | None = None,
    err_msg: str = "",
) -> None:
    """Check ``f_vjp(*args)`` against a difference of `f` along a random direction.

    Raises:
        AssertionError: if they differ.
    """
    draw = partial(_random_like, np.random.RandomState(0))
    value, pull = f_vjp(*args)
    _close(value, f(*args), atol, rtol, f"{err_msg} primal")
    direction = tree.map(draw, tuple(args))
    slope = _difference(f, args, direction, eps)
    ct = tree.map(draw, value)
    back = tree.map(np.conj, pull(tree.map(np.conj, ct)))
    _close(
        _inner(direction, back), _inner(slope, ct), atol, rtol, f"{err_msg} cotangent projection"
    )


def _dtype(x: Any) -> np.dtype[Any]:
    return np.dtype(x.dtype) if hasattr(x, "dtype") else np.asarray(x).dtype


def _random_like(draw: np.random.RandomState, x: Any) -> Any:
    """Random numbers of the shape and dtype of a leaf."""
    dtype, shape = _dtype(x), np.shape(x)
    numbers = np.asarray(draw.randn(*shape))
    if dtype.kind == "c":
        numbers = numbers + 1j * np.asarray(draw.randn(*shape))
    numbers = np.asarray(numbers, dtype)
    return numbers if hasattr(x, "dtype") else numbers.item()


def _difference(
    f: Callable[..., Any], args: Sequence[Any], direction: Any, eps: float | None
) -> Any:
    """The central difference along a direction."""
    h = STEP if eps is None else eps

    def moved(sign: float) -> Any:
        def move(x: Any, dx: Any) -> Any:
            wide = np.asarray(x) + np.asarray(sign * h * np.asarray(dx), _dtype(x))
            return np.asarray(wide, _dtype(x)) if hasattr(x, "dtype") else wide.item()

        return f(*tree.map(move, tuple(args), direction))

    def slope(up: Any, down: Any) -> Any:
        a, b = np.asarray(up), np.asarray(down)
        with np.errstate(invalid="ignore"):
            rise = np.where(a == b, np.zeros((), a.dtype), a - b)
        return np.asarray(rise * (0.5 / h), a.dtype)

    return tree.map(slope, moved(1.0), moved(-1.0))


def _inner(xs: Any, ys: Any) -> Any:
    """The real part of the inner product of two trees."""
    products = tree.map(
        lambda x, y: np.real(np.vdot(np.asarray(x).reshape(-1), np.asarray(y).reshape(-1))), xs, ys
    )
    return reduce(np.add, tree.leaves(products), np.zeros((), "float16"))


def _close(xs: Any, ys: Any, atol: Any, rtol: Any, message: str) -> None:
    tree.map(partial(_close_leaf, atol=atol, rtol=rtol, message=message.strip()), xs, ys)


def _close_leaf(x: Any, y: Any, atol: Any, rtol: Any, message: str) -> None:
    a, b = np.asarray(x), np.asarray(y)
    size = min(d.itemsize // (2 if d.kind == "c" else 1) for d in (a.dtype, b.dtype))
    usual = TOLERANCE.get(size, 0.0)
    absolute, relative = (_tolerance(given, a.dtype, usual) for given in (atol, rtol))
    np.testing.assert_allclose(
        np.asarray(a, _wide(a.dtype)),
        np.asarray(b, _wide(b.dtype)),
        atol=absolute * max(a.size, 1),
        rtol=relative * max(b.size, 1),
        err_msg=message,
    )


def _wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.complex128 if dtype.kind == "c" else np.float64)


def _tolerance(given: Any, dtype: np.dtype[Any], usual: float) -> float:
    if isinstance(given, dict):
        given = {np.dtype(key): value for key, value in given.items()}.get(dtype)
    return usual if given is None else float(given)
