"""Python functions applied to arrays: vectorize, apply_along_axis, ufuncs of two numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import update_wrapper
from typing import Any

from tfn._support.validate import a_function, integer, shown
from tfn.array import Array, ArrayLike, Axes
from tfn.dtypes import DTypeLike
from tfn.eager.operands import array_of, broadcast_shape, one_axis, some_axes
from tfn.errors import ArgumentError, ShapeError
from tfn.numpy.concatenation import concatenate
from tfn.numpy.creation import asarray, full
from tfn.numpy.index_grids import indices
from tfn.numpy.indexing import getitem
from tfn.numpy.logic import where
from tfn.numpy.manipulation import broadcast_to, expand_dims, moveaxis
from tfn.numpy.updates import update
from tfn.trace.op import Shape
from tfn.transforms.vmap import vmap

_NAME = r"\s*\w+\s*"
_CORE = rf"\(\s*(?:{_NAME}(?:,{_NAME})*,?)?\s*\)"
_SIDE = rf"\s*{_CORE}(?:\s*,\s*{_CORE})*\s*"


def _parsed(signature: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """The names of the axes of each argument and of each result."""
    if not isinstance(signature, str) or not re.fullmatch(rf"{_SIDE}->{_SIDE}", signature):
        raise ArgumentError(
            "vectorize needs a signature such as '(m,n),(n)->(m)'",
            got=f"signature={shown(signature)}",
            hint="name the axes of each argument and of each result; () is a scalar",
        )
    sides = []
    for side in signature.split("->"):
        cores = re.findall(r"\(([^)]*)\)", side)
        sides.append([tuple(n.strip() for n in c.split(",") if n.strip()) for c in cores])
    return sides[0], sides[1]


def vectorize(
    pyfunc: Callable[..., Any] | None = None,
    *,
    excluded: Iterable[int | str] = (),
    signature: str | None = None,
) -> Any:
    """A function of single elements, or of axes that a signature names, applied to whole arrays.

    All other axes of the arguments are broadcast and mapped over by `vmap`.

    Args:
        pyfunc: the function; None gives a decorator.
        excluded: positions and names of arguments that are passed on as they are.
        signature: axes of arguments and results, such as ``"(m,n),(n)->(m)"``; None is scalars
            only.

    Returns:
        A function with the name and docstring of `pyfunc`.

    Raises:
        ArgumentError: for a signature that cannot be read, or another number of arguments.
        ShapeError: when called, for arrays that do not have the axes of the signature.

    Example:
        >>> import tfn.numpy as tnp
        >>> @vectorize(signature="(n),(n)->()")
        ... def distance(x, y):
        ...     return abs(x - y).max()
        >>> distance(tnp.ones((4, 1, 3)), tnp.zeros((2, 3))).shape
        (4, 2)
    """
    if pyfunc is None:
        return lambda f: vectorize(f, excluded=excluded, signature=signature)
    a_function("vectorize", "pyfunc", pyfunc)
    function, left_out = pyfunc, set(excluded)
    cores = None if signature is None else _parsed(signature)

    def mapped(*args: object, **kwargs: object) -> Any:
        named = [name for name in kwargs if name not in left_out]
        if named:
            raise ArgumentError(
                "vectorize maps over positional arguments",
                got=", ".join(named),
                hint="pass them by position, or name them in excluded",
            )
        places = [i for i in range(len(args)) if i not in left_out]

        def core(*values: object) -> Any:
            full_args = list(args)
            for i, value in zip(places, values, strict=True):
                full_args[i] = value
            return function(*full_args, **kwargs)

        return _mapped(core, [array_of("vectorize", args[i]) for i in places], cores)

    return update_wrapper(mapped, function)


def _mapped(core: Callable[..., Any], arrays: Sequence[Array], cores: Any) -> Any:
    inputs = [()] * len(arrays) if cores is None else cores[0]
    if len(inputs) != len(arrays):
        raise ArgumentError(
            "vectorize needs as many arguments as its signature",
            got=f"{len(arrays)} for {len(inputs)}",
            hint="name the axes of each argument, () for a scalar; excluded ones do not count",
        )
    sizes: dict[str, int] = {}
    for x, names in zip(arrays, inputs, strict=True):
        if x.ndim < len(names):
            raise ShapeError(
                f"vectorize needs the axes ({','.join(names)}) of its signature",
                got=shown(x),
                hint="x[None] adds an axis; () in the signature takes scalars",
            )
        for name, size in zip(names, x.shape[x.ndim - len(names) :], strict=True):
            expected = int(name) if name.isdigit() else sizes.setdefault(name, size)
            if expected != size:
                raise ShapeError(
                    "vectorize needs one size for each name of its signature",
                    got=f"{name} is {expected} and {size}",
                    hint="give axes that differ in size different names",
                )
    batches = [x.shape[: x.ndim - len(names)] for x, names in zip(arrays, inputs, strict=True)]
    batch = broadcast_shape("vectorize", *batches)
    function: Callable[..., Any] = core
    for depth in range(1, len(batch) + 1):  # the last axis is mapped innermost
        axes = [0 if _has(b, depth) else None for b in batches]
        function = vmap(function, in_axes=tuple(axes), axis_size=batch[-depth])
    shaped = []
    for x, own in zip(arrays, batches, strict=True):  # axes of size 1 are dropped, not repeated
        batch_shape = tuple(n for i, n in enumerate(own) if _has(own, len(own) - i))
        shaped.append(x.reshape(batch_shape + x.shape[len(own) :]))
    return function(*shaped)


def _has(batch: Shape, depth: int) -> bool:
    return len(batch) >= depth and batch[-depth] != 1


def apply_along_axis(
    func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: object, **kwargs: object
) -> Array:
    """The results of a function of vectors on all vectors along an axis.

    Args:
        func1d: function from a vector to an array.
        axis: axis of the vectors, counted from the end if negative.
        arr: array of one axis at least.
        *args: further arguments of the function, passed on as they are.
        **kwargs: keyword arguments of the function.

    Returns:
        An array with the axes of the result in place of the axis.

    Raises:
        AxisError: if the array has no such axis.
        ArgumentError: unless `func1d` can be called.

    Example:
        >>> import tfn.numpy as tnp
        >>> apply_along_axis(tnp.cumsum, 1, tnp.ones((2, 3)))
        Array([[1., 2., 3.],
               [1., 2., 3.]], dtype=float32)
    """
    a_function("apply_along_axis", "func1d", func1d)
    x = array_of("apply_along_axis", arr)
    at = one_axis("apply_along_axis", axis, x.ndim)
    function: Callable[..., Any] = lambda line: func1d(line, *args, **kwargs)
    for _ in range(x.ndim - 1):
        function = vmap(function)
    result: Array = function(moveaxis(x, at, -1))
    front = x.ndim - 1
    results = tuple(range(front, result.ndim))
    return moveaxis(result, results, tuple(range(at, at + len(results))))


def apply_over_axes(func: Callable[[Any, int], Any], a: ArrayLike, axes: Axes) -> Array:
    """A reduction over one axis after another, each of which keeps size 1.

    Args:
        func: function of an array and an axis.
        a: array of any shape.
        axes: axis or axes, negative ones counted from the end; None takes all.

    Returns:
        An array of as many axes as `a`.

    Raises:
        AxisError: if the array has no such axis, or one is named twice.
        ArgumentError: unless `func` can be called.

    Example:
        >>> import tfn.numpy as tnp
        >>> apply_over_axes(tnp.sum, tnp.ones((2, 3, 4)), (0, 2)).tolist()
        [[[8.0], [8.0], [8.0]]]
    """
    a_function("apply_over_axes", "func", func)
    x = array_of("apply_over_axes", a)
    for axis in some_axes("apply_over_axes", axes, x.ndim):
        reduced = array_of("apply_over_axes", func(x, axis))
        x = reduced if reduced.ndim == x.ndim else expand_dims(reduced, axis)
    return x


def fromfunction(
    function: Callable[..., Any], shape: object, *, dtype: DTypeLike = float, **kwargs: object
) -> Any:
    """The result of a function of the coordinates of every element of an array of a shape.

    Args:
        function: function of as many arrays as there are axes, each of the shape.
        shape: tuple of sizes, or one size.
        dtype: dtype of the coordinates, float32 by default.
        **kwargs: keyword arguments of the function.

    Raises:
        ArgumentError: unless `function` can be called.

    Example:
        >>> fromfunction(lambda i, j: i + j, (2, 2), dtype=int)
        Array([[0, 1],
               [1, 2]], dtype=int32)
    """
    a_function("fromfunction", "function", function)
    grid = indices(shape).astype(dtype)
    return function(*[grid[i] for i in range(grid.shape[0])], **kwargs)


def piecewise(
    x: ArrayLike, condlist: Any, funclist: Sequence[object], *args: object, **kwargs: object
) -> Array:
    """The elements by the function, or the number, of the last condition that holds for each.

    Args:
        x: array or number.
        condlist: boolean arrays of the shape of `x`, in a list, or along the first axis of one
            array.
        funclist: functions of `x`, or numbers, one for each condition; one more is for the elements
            of no condition, which otherwise become 0.
        *args: further arguments of the functions.
        **kwargs: keyword arguments of the functions.

    Returns:
        An array of the shape and dtype of `x`.

    Raises:
        ArgumentError: for another number of functions.

    Example:
        >>> import tfn.numpy as tnp
        >>> piecewise(tnp.array([-2.0, 3.0]), [tnp.array([True, False])], [0, lambda x: x * x])
        Array([0., 9.], dtype=float32)
    """
    x = array_of("piecewise", x)
    single = not isinstance(condlist, (list, tuple))
    rows = list(asarray(condlist)) if single and asarray(condlist).ndim > x.ndim else condlist
    conditions = [asarray(c) for c in ([rows] if single and rows is condlist else rows)]
    functions = list(funclist)
    if len(functions) == len(conditions) + 1:
        functions = [functions[-1], *functions[:-1]]
    elif len(functions) == len(conditions):
        functions = [0, *functions]
    else:
        raise ArgumentError(
            "piecewise needs a function for each condition, and at most one more",
            got=f"{len(functions)} functions for {len(conditions)} conditions",
            hint="the one more is for elements of which no condition holds",
        )
    values = [f(x, *args, **kwargs) if callable(f) else f for f in functions]
    result = broadcast_to(asarray(values[0], x.dtype), x.shape)
    for condition, value in zip(conditions, values[1:], strict=True):
        result = where(condition, asarray(value, x.dtype), result)
    return result


class ufunc:
    """A function of two numbers, vectorised, with the methods of NumPy's ufuncs.

    Attributes:
        nin: the number of arguments.
        nout: the number of results, 1.
        identity: result of reductions of no elements; None if there is none.
    """

    __slots__ = ("__wrapped__", "identity", "nin", "nout")

    def __init__(
        self, function: Callable[..., Any], nin: int, nout: int = 1, identity: Any = None
    ) -> None:
        if nout != 1:
            raise ArgumentError(
                "frompyfunc needs a function of one result",
                got=f"nout={nout}",
                hint="vectorize takes functions of several results",
            )
        a_function("frompyfunc", "func", function)
        integer("frompyfunc", "nin", nin, 1)
        self.__wrapped__, self.nin, self.nout, self.identity = function, nin, nout, identity

    def __call__(self, *args: object) -> Any:
        """The function of the elements at each index of the broadcast arguments."""
        return vectorize(self.__wrapped__)(*args)

    def reduce(
        self, a: ArrayLike, axis: int = 0, keepdims: bool = False, initial: Any = None
    ) -> Array:
        """The function of the first two elements of an axis, of that and the third, and so on.

        Args:
            a: array of one axis at least.
            axis: axis to reduce, counted from the end if negative; the first by default.
            keepdims: whether the axis stays, with size 1.
            initial: value before the first element; None takes the identity, for an empty axis
                only.

        Returns:
            An array without the axis, or with size 1 there.

        Raises:
            ArgumentError: for an empty axis, if there is no identity and no initial value.
            AxisError: if the array has no such axis.
        """
        line = self.accumulate(a, axis)
        at = one_axis("reduce", axis, line.ndim)
        if line.shape[at]:
            total = getitem(line, (slice(None),) * at + (-1,))
            total = total if initial is None else self(initial, total)
        else:
            start = self.identity if initial is None else initial
            if start is None:
                raise ArgumentError(
                    "reduce of nothing needs an identity or an initial value",
                    got=f"{shown(line)}, axis={axis}",
                    hint="pass initial=, or identity= to frompyfunc",
                )
            shape = tuple(n for i, n in enumerate(line.shape) if i != at)
            total = full(shape, start, line.dtype)
        return expand_dims(total, at) if keepdims else total

    def accumulate(self, a: ArrayLike, axis: int = 0) -> Array:
        """The results of `reduce` for the elements up to each one.

        Args:
            a: array of one axis at least.
            axis: axis of the elements, counted from the end if negative; the first by default.

        Returns:
            An array of the shape of `a`.

        Raises:
            AxisError: if the array has no such axis.
        """
        x = array_of("accumulate", a)
        at = one_axis("accumulate", axis, x.ndim)
        if x.shape[at] < 2:
            return x
        rows = moveaxis(x, at, 0)
        total, prefixes = rows[0], [rows[:1]]
        for i in range(1, x.shape[at]):
            total = self(total, rows[i])
            prefixes.append(total[None])
        return moveaxis(concatenate(prefixes), 0, at)

    def outer(self, a: ArrayLike, b: ArrayLike) -> Array:
        """The function of all pairs of an element of `a` and one of `b`.

        Args:
            a: first array.
            b: second array.

        Returns:
            An array of the shape ``a.shape + b.shape``.
        """
        x, y = array_of("outer", a), array_of("outer", b)
        result: Array = self(x.reshape(*x.shape, *(1,) * y.ndim), y)
        return result

    def at(self, a: ArrayLike, indices: Any, b: ArrayLike) -> Array:
        """A new array with the elements at indices replaced by the function of them and of `b`.

        Args:
            a: array whose elements are replaced in the result.
            indices: integers, slices, index arrays, or a tuple of these.
            b: array or number that broadcasts to the indexed shape.

        Returns:
            An array of the shape and dtype of `a`.
        """
        x = array_of("at", a)
        return update(x, indices, self(getitem(x, indices), b), "set")


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """A function of numbers as a ufunc: vectorised, with `reduce`, `accumulate`, `outer` and `at`.

    Args:
        func: function of `nin` numbers.
        nin: number of arguments.
        nout: number of results, which must be 1.
        identity: result of reductions of no elements; None if there is none.

    Raises:
        ArgumentError: for another number of results, or if `func` cannot be called.

    Example:
        >>> import tfn.numpy as tnp
        >>> add = frompyfunc(lambda x, y: x + y, 2, 1)
        >>> add.reduce(tnp.arange(4)).item()
        6
    """
    return ufunc(func, nin, nout, identity)
