"""Comparisons, logic, bits and choice, one element at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tfn._support.validate import no_out
from tfn.array import Array, ArrayLike
from tfn.dtypes import (
    BOOL,
    COMPLEXES,
    FLOATS,
    INEXACT,
    INTEGERS,
    SIGNED,
    DType,
    KeyType,
    finfo,
    part,
    promote,
)
from tfn.eager.arrays import weaken
from tfn.eager.operands import (
    apply,
    array_of,
    broadcast_shape,
    counted,
    fit,
    need,
    need_real,
    numbers_as,
    operands_of,
    together,
    type_of,
    values_of,
)
from tfn.errors import ArgumentError, ShapeError
from tfn.numpy.arithmetic import BITS, binary, ordered, signed
from tfn.trace.bind import bind
from tfn.trace.build import complex_, eq, full_like, imag, ne, real, reduce, unary
from tfn.trace.build import where as choose
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, const


def compare(op: Op, name: str, x: ArrayLike, y: ArrayLike) -> Array:
    """A comparison of two operands, arrays or numbers, which are promoted and broadcast.

    Args:
        op: the op.
        name: name of the function that was called, for errors.
        x: array or number.
        y: array or number, broadcast with `x`.

    Returns:
        A boolean array of the broadcast shape.

    Raises:
        ShapeError: if the shapes do not broadcast.
    """
    same = type(x) is Array and type(y) is Array and x.dtype is y.dtype and x.shape == y.shape
    if same and x.dtype not in COMPLEXES:  # type: ignore[union-attr]
        result: Array = bind(op, x, y)
        return result
    operands, dtype, _ = together(name, x, y)
    shape = broadcast_shape(name, operands[0].shape, operands[1].shape)
    return apply(_compare, operands, op, dtype, shape)


def _compare(x: UOp, y: UOp, op: Op, dtype: DType, shape: Shape) -> UOp:
    return ordered(op, fit(x, dtype, shape), fit(y, dtype, shape))


def less(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether x < y.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> less(tnp.array([1, 2, 3]), 2)
        Array([ True, False, False], dtype=bool)
    """
    return compare(Op.LT, "less", x, y)


def less_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether x <= y.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> less_equal(tnp.array([1, 2, 3]), 2)
        Array([ True,  True, False], dtype=bool)
    """
    return compare(Op.LE, "less_equal", x, y)


def greater(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether x > y.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> greater(tnp.array([1, 2, 3]), 2)
        Array([False, False,  True], dtype=bool)
    """
    return compare(Op.LT, "greater", y, x)


def greater_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether x >= y.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> greater_equal(tnp.array([1, 2, 3]), 2)
        Array([False,  True,  True], dtype=bool)
    """
    return compare(Op.LE, "greater_equal", y, x)


def equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether x == y; NaN equals nothing.  Random keys can be compared too.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> equal(tnp.array([1.0, float("nan")]), tnp.array([1.0, float("nan")]))
        Array([ True, False], dtype=bool)
    """
    if isinstance(getattr(x, "dtype", None), KeyType):
        same: Array = x == y  # type: ignore[assignment]  # keys compare as arrays do
        return same
    return compare(Op.EQ, "equal", x, y)


def not_equal(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether x != y.  Random keys can be compared too.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> not_equal(tnp.array([1, 2]), 2)
        Array([ True, False], dtype=bool)
    """
    if isinstance(getattr(x, "dtype", None), KeyType):
        return logical_not(equal(x, y))
    return compare(Op.NE, "not_equal", x, y)


def truth(u: UOp) -> UOp:
    """A node as booleans: whether it is not zero."""
    return u if u.dtype == BOOL else ne(u, full_like(u, 0))


def _logical(op: Op, name: str, x: ArrayLike, y: ArrayLike) -> Array:
    operands = [array_of(name, v) for v in (x, y)]
    shape = broadcast_shape(name, operands[0].shape, operands[1].shape)
    return apply(_logic, operands, op, shape)


def _logic(x: UOp, y: UOp, op: Op, shape: Shape) -> UOp:
    return UOp(op, (fit(truth(x), BOOL, shape), fit(truth(y), BOOL, shape)))


def logical_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether both x and y are true: not zero.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> logical_and(tnp.array([0, 2]), True)
        Array([False,  True], dtype=bool)
    """
    return _logical(Op.AND, "logical_and", x, y)


def logical_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether x or y is true: not zero.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> logical_or(tnp.array([0, 2]), False)
        Array([False,  True], dtype=bool)
    """
    return _logical(Op.OR, "logical_or", x, y)


def logical_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """Whether exactly one of x and y is true: not zero.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> logical_xor(tnp.array([0, 2]), True)
        Array([ True, False], dtype=bool)
    """
    return _logical(Op.XOR, "logical_xor", x, y)


def logical_not(x: ArrayLike, /) -> Array:
    """Whether x is false: zero.

    Example:
        >>> import tfn.numpy as tnp
        >>> logical_not(tnp.array([0.0, 0.5]))
        Array([ True, False], dtype=bool)
    """
    return apply(_not, (array_of("logical_not", x),))


def _not(x: UOp) -> UOp:
    return unary(Op.NOT, truth(x))


def bitwise_and(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The bits that are set in both x and y; of booleans logical and.

    Raises:
        DTypeError: unless both are integers or booleans.
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> bitwise_and(0b1100, 0b1010).item() == 0b1000
        True
    """
    return binary(Op.AND, "bitwise_and", x, y, BITS, "integers or booleans")


def bitwise_or(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The bits that are set in x or y; of booleans logical or.

    Raises:
        DTypeError: unless both are integers or booleans.
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> bitwise_or(0b1100, 0b1010).item() == 0b1110
        True
    """
    return binary(Op.OR, "bitwise_or", x, y, BITS, "integers or booleans")


def bitwise_xor(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The bits in which x and y differ; of booleans logical exclusive or.

    Raises:
        DTypeError: unless both are integers or booleans.
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> bitwise_xor(0b1100, 0b1010).item() == 0b0110
        True
    """
    return binary(Op.XOR, "bitwise_xor", x, y, BITS, "integers or booleans")


def invert(x: ArrayLike, /) -> Array:
    """The number with all bits inverted; of booleans logical not.

    Raises:
        DTypeError: unless `x` holds integers or booleans.

    Example:
        >>> import tfn.numpy as tnp
        >>> invert(tnp.array([0, 5])), invert(True).item()
        (Array([-1, -6], dtype=int32), False)
    """
    x = array_of("invert", x)
    need("invert", x.dtype, BITS, "integers or booleans")
    result: Array = bind(Op.NOT, x, weak=x.weak_type)
    return result


def left_shift(x: ArrayLike, y: ArrayLike, /) -> Array:
    """The bits of x shifted up by y positions, zeros from below.

    Raises:
        DTypeError: unless both are integers or booleans.
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> left_shift(3, 2).item()
        12
    """
    x, y = counted(x, y)
    return binary(Op.SHL, "left_shift", x, y, INTEGERS, "integers")


def right_shift(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """The bits of x1 shifted down by x2 positions; the sign stays.

    Raises:
        DTypeError: unless both are integers or booleans.
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> right_shift(-8, 1).item()
        -4
    """
    x1, x2 = counted(x1, x2)
    return binary(Op.SHR, "right_shift", x1, x2, INTEGERS, "integers")


def where(condition: ArrayLike, x: ArrayLike, y: ArrayLike, /) -> Array:
    """The elements of `x` where a condition holds, else those of `y`.

    Args:
        condition: array or number; what is not zero is true.
        x: value where it holds, array or number.
        y: value where it does not, array or number; all three are broadcast.

    Returns:
        An array of the broadcast shape and the dtype that `x` and `y` promote to.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> where(True, 1.0, 2)
        Array(1., dtype=float32, weak_type=True)
    """
    test = array_of("where", condition)
    values = values_of("where", x, y)
    dtype, weak = promote(tuple([type_of(v) for v in values]))
    operands = numbers_as([test, *values], dtype)
    shape = broadcast_shape("where", *[v.shape for v in operands])
    return apply(_where, operands, dtype, shape, weak=weak)


def _where(condition: UOp, x: UOp, y: UOp, dtype: DType, shape: Shape) -> UOp:
    return choose(fit(truth(condition), BOOL, shape), fit(x, dtype, shape), fit(y, dtype, shape))


def select(condlist: list[Array], choicelist: list[ArrayLike], default: ArrayLike = 0) -> Array:
    """For each element the choice of the first condition that holds, else the default.

    Args:
        condlist: list of boolean arrays.
        choicelist: list of as many arrays or numbers, broadcast with them.
        default: value where no condition holds, array or number; 0 by default.

    Returns:
        An array of the broadcast shape and the dtype that choices and default promote to.

    Raises:
        ArgumentError: if there are not as many conditions as choices.
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> x = tnp.arange(5)
        >>> select([x < 2, x > 3], [x, x * 10], -1)
        Array([ 0,  1, -1, -1, 40], dtype=int32)
    """
    if len(condlist) != len(choicelist) or not choicelist:
        raise ArgumentError(
            "select needs one choice for each condition, and one at least",
            got=f"{len(condlist)} conditions, {len(choicelist)} choices",
            hint="what no condition chooses is `default`",
        )
    *parts, result = operands_of("select", *choicelist, default)
    for condition, choice in zip(reversed(condlist), reversed(parts)):
        result = where(condition, choice, result)
    return result


def _test(name: str, x: ArrayLike, body: Callable[[UOp], UOp]) -> Array:
    return apply(body, (array_of(name, x),))


def isnan(x: ArrayLike, /) -> Array:
    """Whether an element is NaN.

    Example:
        >>> import tfn.numpy as tnp
        >>> isnan(tnp.array([1.0, float("nan")]))
        Array([False,  True], dtype=bool)
    """
    return _test("isnan", x, _isnan)


def _isnan(x: UOp) -> UOp:
    return ne(x, x)


def isinf(x: ArrayLike, /) -> Array:
    """Whether an element is infinite, of either sign.

    Example:
        >>> import tfn.numpy as tnp
        >>> isinf(tnp.array([1.0, -float("inf")]))
        Array([False,  True], dtype=bool)
    """
    return _test("isinf", x, _isinf)


def _isinf(x: UOp) -> UOp:
    if x.dtype not in INEXACT:
        return const(False, BOOL, x.shape)
    if x.dtype not in FLOATS:
        return _isinf(real(x)) | _isinf(imag(x))
    return eq(unary(Op.ABS, x), full_like(x, np.inf))


def isfinite(x: ArrayLike, /) -> Array:
    """Whether an element is neither infinite nor NaN.

    Example:
        >>> import tfn.numpy as tnp
        >>> isfinite(tnp.array([1.0, float("inf"), float("nan")]))
        Array([ True, False, False], dtype=bool)
    """
    return _test("isfinite", x, _isfinite)


def _isfinite(x: UOp) -> UOp:
    if x.dtype not in INEXACT:
        return const(True, BOOL, x.shape)
    if x.dtype not in FLOATS:
        return _isfinite(real(x)) & _isfinite(imag(x))
    return unary(Op.ABS, x) < float(np.inf)


def isposinf(x: ArrayLike, /, out: None = None) -> Array:
    """Whether an element is plus infinity.

    Raises:
        DTypeError: for complex numbers.

    Example:
        >>> import tfn.numpy as tnp
        >>> isposinf(tnp.array([float("inf"), -float("inf")]))
        Array([ True, False], dtype=bool)
    """
    no_out("isposinf", out)
    need_real("isposinf", x)
    return equal(x, float(np.inf))


def isneginf(x: ArrayLike, /, out: None = None) -> Array:
    """Whether an element is minus infinity.

    Raises:
        DTypeError: for complex numbers.

    Example:
        >>> import tfn.numpy as tnp
        >>> isneginf(tnp.array([float("inf"), -float("inf")]))
        Array([False,  True], dtype=bool)
    """
    no_out("isneginf", out)
    need_real("isneginf", x)
    return equal(x, -float(np.inf))


def signbit(x: ArrayLike, /) -> Array:
    """Whether the sign is minus; true of -0.0.

    Raises:
        DTypeError: for complex numbers.

    Example:
        >>> import tfn.numpy as tnp
        >>> signbit(tnp.array([-0.0, 0.0]))
        Array([ True, False], dtype=bool)
    """
    need_real("signbit", x)
    return _test("signbit", x, _signbit)


def _signbit(x: UOp) -> UOp:
    if x.dtype in FLOATS:
        return signed(x)
    return x < 0 if x.dtype in SIGNED else const(False, BOOL, x.shape)


def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:
    """The elements, but NaN and infinities replaced by finite numbers.

    Complex numbers are changed in each part; integers and booleans stay as they are.

    Args:
        x: array or number, of any shape.
        copy: accepted as in NumPy, and changes nothing.
        nan: number in place of NaN, 0 by default.
        posinf: number in place of infinity; None takes the largest finite one of the dtype.
        neginf: number in place of minus infinity; None takes the smallest finite one of the dtype.

    Returns:
        An array of the shape and dtype of `x`.

    Example:
        >>> import tfn.numpy as tnp
        >>> nan_to_num(tnp.array([float("nan"), 1.0]), nan=-1.0)
        Array([-1.,  1.], dtype=float32)
    """
    x = array_of("nan_to_num", x)
    if x.dtype not in INEXACT:
        return x
    if x.dtype not in FLOATS:
        parts = [nan_to_num(u, copy, nan, posinf, neginf) for u in (x.real, x.imag)]
        return apply(complex_, parts)
    info = finfo(x.dtype)
    x = where(isnan(x), nan, x)
    x = where(isposinf(x), float(info.max) if posinf is None else posinf, x)
    x = where(isneginf(x), float(info.min) if neginf is None else neginf, x)
    return weaken(x, False)


def isclose(
    a: ArrayLike, b: ArrayLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether ``|a - b| <= atol + rtol * |b|``; equal infinities are close.

    Args:
        a: array or number.
        b: array or number, broadcast with `a`.
        rtol: tolerance relative to `b`, a number or an array; 1e-5 by default.
        atol: absolute tolerance, a number or an array; 1e-8 by default.
        equal_nan: whether NaN counts as equal to NaN.

    Returns:
        A boolean array of the broadcast shape.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> isclose(tnp.array([1.0, 1.1]), 1.0)
        Array([ True, False], dtype=bool)
    """
    operands, dtype, _ = together("isclose", a, b, floating=True)
    shape = broadcast_shape("isclose", operands[0].shape, operands[1].shape)
    operands_and_limits = numbers_as([*operands, rtol, atol], part(dtype))
    return apply(_isclose, operands_and_limits, dtype, shape, bool(equal_nan))


def _isclose(
    x: UOp, y: UOp, rtol: UOp, atol: UOp, dtype: DType, shape: Shape, equal_nan: bool
) -> UOp:
    x, y = fit(x, dtype, shape), fit(y, dtype, shape)
    rtol, atol = fit(rtol, part(dtype), shape), fit(atol, part(dtype), shape)
    near = unary(Op.ABS, x - y) <= atol + rtol * unary(Op.ABS, y)
    close = (near & _isfinite(x) & _isfinite(y)) | eq(x, y)
    return close | (_isnan(x) & _isnan(y)) if equal_nan else close


def allclose(
    a: ArrayLike, b: ArrayLike, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Array:
    """Whether all elements are close, as a boolean without axes; see `isclose`.

    Args:
        a: array or number.
        b: array or number, broadcast with `a`.
        rtol: tolerance relative to `b`, a number or an array; 1e-5 by default.
        atol: absolute tolerance, a number or an array; 1e-8 by default.
        equal_nan: whether NaN counts as equal to NaN.

    Raises:
        ShapeError: if the shapes do not broadcast.

    Example:
        >>> import tfn.numpy as tnp
        >>> allclose(tnp.array([1.0, 2.0]), tnp.array([1.0, 2.0 + 1e-7])).item()
        True
    """
    return apply(_all, (isclose(a, b, rtol, atol, equal_nan),))


def _all(x: UOp) -> UOp:
    return reduce(x, Op.MIN, range(x.ndim))


def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Whether two arrays have one shape and equal elements, as a boolean without axes.

    Args:
        a1: array or number.
        a2: array or number.
        equal_nan: whether NaN counts as equal to NaN.

    Example:
        >>> import tfn.numpy as tnp
        >>> array_equal(tnp.array([1, 2]), tnp.array([1, 2])).item()
        True
    """
    a1, a2 = operands_of("array_equal", a1, a2)
    if a1.shape != a2.shape:
        return array_of("array_equal", np.bool_(False))
    same = equal(a1, a2)
    if equal_nan:
        same = logical_or(same, logical_and(isnan(a1), isnan(a2)))
    return apply(_all, (same,))


def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Whether two arrays are equal when broadcast; false if they cannot be.

    Example:
        >>> import tfn.numpy as tnp
        >>> array_equiv(tnp.array([1, 1]), tnp.array([[1, 1], [1, 1]])).item()
        True
    """
    a1, a2 = array_of("array_equiv", a1), array_of("array_equiv", a2)
    try:
        broadcast_shape("array_equiv", a1.shape, a2.shape)
    except ShapeError:
        return array_of("array_equiv", np.bool_(False))
    return apply(_all, (equal(a1, a2),))


bitwise_not, bitwise_invert = invert, invert
bitwise_left_shift, bitwise_right_shift = left_shift, right_shift
