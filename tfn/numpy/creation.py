"""New arrays: from values, filled, counted.

An array that depends on no other belongs to the running trace, if there is one, so that a jitted
function computes it inside; otherwise its graph is evaluated at once, without compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from tfn import eager
from tfn._support.dlpack import HAS_VERSIONS
from tfn._support.validate import integer, shown, unfit
from tfn.array import Array, ArrayLike
from tfn.dtypes import (
    BOOL,
    DEFAULTS,
    FLOAT64,
    INTEGERS,
    DType,
    DTypeLike,
    as_number_of,
    canonical,
    promote,
)
from tfn.eager.arrays import weaken
from tfn.eager.operands import (
    a_shape,
    alias,
    apply,
    array_of,
    broadcast_shape,
    fit,
    scalar_kind,
    together,
    type_of,
    values_of,
)
from tfn.errors import ArgumentError
from tfn.trace import bind, casts, runtime, traces
from tfn.trace.build import cast, concat, reshape
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, const

T = TypeVar("T")


def make(body: Callable[..., UOp], *static: Any, weak: bool = False) -> Array:
    """The value of ``body(*static)``, which takes no arrays.

    Args:
        body: function from static values to a node; one of a module, since it is part of a cache's
            key.
        *static: hashable arguments of the function.
        weak: whether the dtype of the result gives way to others.
    """
    running = traces.running()
    if running:
        traced: Array = runtime.installed().wrap(body(*static), running[-1], True, weak)
        return traced
    return weaken(runtime.installed().evaluate(body(*static)), weak)


def on_device(x: T, device: Any) -> T:
    """Arrays that were made for a device, on this device.

    Raises:
        DeviceError: if there is no such device.
    """
    result: T = runtime.device_put(x, device)
    return result


def resolved(out_sharding: Any, make: Callable[[], T]) -> T:
    """The result of a function, divided as `out_sharding` says, where operands do not say it.

    Raises:
        ArgumentError: for what is no sharding, and for a spec without a mesh.

    Example:
        >>> from tfn.trace.named_sharding import SingleDeviceSharding
        >>> from tfn.trace.mesh import Device
        >>> place = SingleDeviceSharding(Device("cpu", 0))
        >>> resolved(place, lambda: zeros(2)).sharding == place
        True
    """
    with eager.layout.resolved_outside():
        return on_device(make(), out_sharding)


def array(
    object: Any,
    dtype: DTypeLike | None = None,
    *,
    copy: bool | None = True,
    order: str = "K",
    ndmin: int = 0,
    device: Any = None,
) -> Array:
    """An array of a number, a NumPy array, an Array, or nested lists of these.

    Python numbers become 32 bits wide; NumPy arrays keep their dtype.

    Args:
        object: number, Array, NumPy array, object with `__array__`, or nested lists and tuples of
            these.
        dtype: dtype of the result; None keeps that of arrays, and makes Python's ints, floats and
            complex numbers int32, float32 and complex64.
        copy: True copies always; None copies everything but an Array, which never changes; False
            copies nothing: the result is the Array itself, or shares the memory of a NumPy array,
            and then sees what is written there.
        order: accepted as in NumPy, and changes nothing.
        ndmin: least number of axes; missing ones of size 1 are put in front.
        device: a device, its name or a sharding; None for the default device.

    Returns:
        An Array of the shape of `object`.

    Raises:
        ArgumentError: for ragged lists, elements that are no numbers, or a copy that is needed and
            forbidden: memory is shared if it is contiguous, aligned to 16 bytes, and of the dtype
            asked for.
        DTypeError: if there is no such dtype.
        NumberError: for a number that the dtype does not hold.
        DeviceError: if there is no such device.

    Example:
        >>> array([[1, 2], [3, 4]])
        Array([[1, 2],
               [3, 4]], dtype=int32)
    """
    if device is not None:
        return on_device(array(object, dtype, copy=copy, order=order, ndmin=ndmin), device)
    kind = None if dtype is None else canonical(dtype)
    if copy is False and not (
        isinstance(object, (Array, np.ndarray)) and kind in (None, object.dtype)
    ):
        raise ArgumentError(
            "array needs a copy here, which copy=False forbids",
            got=f"{type(object).__name__}, copy=False",
            hint="copy=None copies only where it is needed",
        )
    if isinstance(object, (list, tuple, range)):
        result = _of_list(object, kind)
    elif isinstance(object, np.ndarray) and copy is False:
        result = runtime.installed().adopt(object)
    else:
        result = array_of("array", object) if kind is None else _of_one(object, kind)
        result = result if not copy or result is not object else duplicate(result)
    if kind is not None:
        result = astype(result, kind)
    if result.ndim < integer("array", "ndmin", ndmin, 0):
        result = alias(result, (1,) * (ndmin - result.ndim) + result.shape, result.weak_type)
    return result


def asarray(
    a: Any,
    dtype: DTypeLike | None = None,
    order: str = "K",
    *,
    copy: bool | None = None,
    device: Any = None,
) -> Array:
    """An Array as it is, anything else as by `array`: NumPy arrays are copied.

    Later writes to a NumPy array are not seen, unless ``copy=False`` asks for its memory.

    Args:
        a: number, Array, NumPy array, object with `__array__`, or nested lists and tuples of
            these.
        dtype: dtype of the result; None as for `array`.
        order: accepted as in NumPy, and changes nothing.
        copy: None copies everything but an Array; True and False as for `array`.
        device: a device, its name or a sharding; None for the default device.

    Returns:
        An Array of the shape of `a`.

    Raises:
        ArgumentError: as `array`.

    Example:
        >>> import numpy as np
        >>> data = np.zeros(3)
        >>> x = asarray(data)
        >>> data[0] = 1
        >>> x
        Array([0., 0., 0.], dtype=float64)
    """
    return array(a, dtype, copy=copy, device=device)


def _of_one(value: object, dtype: DType) -> Array:
    is_number = scalar_kind(value) is not None
    result: Array = (
        runtime.installed().asarray(value, dtype) if is_number else array_of("array", value)
    )
    return result


def _of_list(listed: Sequence[object], dtype: DType | None) -> Array:
    flat = list(_flatten(listed))
    if not any(isinstance(v, (Array, np.ndarray)) for v in flat):
        try:
            data = np.array(listed)
        except ValueError:
            data = np.array(None)
        if data.dtype.kind in "Of" and data.ndim and all(isinstance(v, int) for v in flat):
            data = _large(listed, flat, dtype or DEFAULTS[int])
        if data.dtype.kind not in "biufcV":
            raise ArgumentError(
                "array needs lists of numbers, all rows of one length",
                got=shown(listed),
                hint="pad short rows, or keep the arrays apart in a list, which is a tree",
            )
        result: Array = runtime.installed().asarray(_narrow(data, flat, dtype))
        return result
    kind, weak = promote(tuple(dict.fromkeys(map(type_of, values_of("array", *flat)))))
    parts = [
        _of_list(v, dtype or kind) if isinstance(v, (list, tuple, range)) else v for v in listed
    ]
    operands, _, _ = together("array", *parts)
    first = operands[0].shape
    if any(x.shape != first for x in operands):
        raise unfit(
            "array needs parts of one shape", operands, "broadcast_to and reshape change shapes"
        )
    return apply(stacked, operands, 0, kind, weak=weak)


def _flatten(listed: Any) -> Any:
    for v in listed:
        if isinstance(v, (list, tuple, range)):
            yield from _flatten(v)
        else:
            yield v


def _large(listed: object, flat: list[Any], dtype: DType) -> np.ndarray[Any, Any]:
    """An array of integers of which some are too large for int64."""
    for v in flat:
        as_number_of(dtype, v)
    return np.array(listed, dtype if dtype in INTEGERS else FLOAT64)


def _narrow(data: np.ndarray[Any, Any], flat: list[Any], dtype: DType | None) -> Any:
    """Python numbers in their default width, unless NumPy scalars or the user say otherwise.

    Beside NumPy scalars they are weak.
    """
    if dtype is None:
        if any(isinstance(v, np.generic) and scalar_kind(v) is None for v in flat):
            kinds = ((v.dtype, False) if scalar_kind(v) is None else type_of(v) for v in flat)
            dtype = promote(tuple(dict.fromkeys(kinds)))[0]
        else:
            scalar = {"b": bool, "f": float, "c": complex}.get(data.dtype.kind, int)
            dtype = DEFAULTS[scalar if flat else float]
    if dtype in INTEGERS or data.dtype.kind == "c":
        for extreme in (data.min(), data.max()) if data.size else ():  # NaN is both
            as_number_of(dtype, extreme.item())
    return casts.cast(dtype, data)


def stacked(*parts_and_static: Any) -> UOp:
    """Nodes of one shape joined along a new axis; the last two arguments are axis and dtype."""
    *parts, axis, dtype = parts_and_static
    shape = parts[0].shape
    grown = (*shape[:axis], 1, *shape[axis:])
    return concat([reshape(cast(u, dtype), grown) for u in parts], axis)


def duplicate(x: Array) -> Array:
    """The same values in memory of their own."""
    if x.owner is not None:
        return alias(x, x.shape, x.weak_type)
    copied: Array = runtime.installed().duplicate(x.concrete())
    return copied


def copy(a: ArrayLike) -> Array:
    """The same values in memory of their own.

    Example:
        >>> import tfn.numpy as tnp
        >>> copy(tnp.array([1, 2]))
        Array([1, 2], dtype=int32)
    """
    return duplicate(array_of("copy", a))


def astype(x: ArrayLike, dtype: DTypeLike, /, *, copy: bool = False, device: Any = None) -> Array:
    """The values in another dtype; float to integer truncates and saturates, NaN becomes 0.

    Args:
        x: array or number, of any shape.
        dtype: dtype of the result.
        copy: whether the result has memory of its own if the dtype is already that of `x`.
        device: a device, its name or a sharding; None for the default device.

    Returns:
        An array of the shape of `x`.

    Raises:
        DTypeError: if there is no such dtype.
        DeviceError: if there is no such device.

    Example:
        >>> import tfn.numpy as tnp
        >>> astype(tnp.array([1.7, -1.7]), "int32")
        Array([ 1, -1], dtype=int32)
    """
    if device is not None:
        return on_device(astype(x, dtype, copy=copy), device)
    x = array_of("astype", x)
    kind = canonical(dtype)
    if kind == x.dtype:
        return duplicate(x) if copy else alias(x, x.shape) if x.weak_type else x
    result: Array = bind.bind(Op.CAST, x, arg=kind)
    return result


def full(
    shape: Any,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """An array of a shape with one value everywhere.

    Args:
        shape: tuple of sizes, or one size.
        fill_value: number, or array that broadcasts to `shape`.
        dtype: dtype of the result; None takes that of the value, 32 bits for Python numbers.
        device: a device, its name or a sharding; None for the default device.
        out_sharding: the sharding of the result, in the place of `device`.

    Raises:
        ShapeError: if a size is negative, or the value does not broadcast to the shape.
        NumberError: for a number that the dtype does not hold.
        DeviceError: if there is no such device.

    Example:
        >>> full((2,), 7, "int8")
        Array([7, 7], dtype=int8)
    """
    if (place := device if out_sharding is None else out_sharding) is not None:
        return on_device(full(shape, fill_value, dtype), place)
    sizes = a_shape("full", shape)
    kind = scalar_kind(fill_value)
    if kind is not None:
        target = kind if dtype is None else canonical(dtype)
        fill_value = as_number_of(target, fill_value)
        return make(_constant, fill_value, target, sizes, weak=dtype is None and kind != BOOL)
    value = array_of("full", fill_value)
    broadcast_shape("full", value.shape, sizes)
    return apply(fit, (value,), value.dtype if dtype is None else canonical(dtype), sizes)


def _constant(value: Any, dtype: DType, shape: Shape) -> UOp:
    return const(casts.cast(dtype, np.asarray(value))[()], dtype, shape)


def zeros(
    shape: Any, dtype: DTypeLike | None = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """An array of a shape with zeros everywhere.

    Args:
        shape: tuple of sizes, or one size.
        dtype: dtype of the result, float32 for None.
        device: a device, its name or a sharding; None for the default device.
        out_sharding: the sharding of the result, in the place of `device`.

    Raises:
        ShapeError: if a size is negative.
        DeviceError: if there is no such device.

    Example:
        >>> zeros(3)
        Array([0., 0., 0.], dtype=float32)
    """
    if (place := device if out_sharding is None else out_sharding) is not None:
        return on_device(zeros(shape, dtype), place)
    kind = DEFAULTS[float] if dtype is None else canonical(dtype)
    return make(_constant, 0, kind, a_shape("zeros", shape))


def ones(
    shape: object, dtype: DTypeLike | None = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """An array of a shape with ones everywhere.

    Args:
        shape: tuple of sizes, or one size.
        dtype: dtype of the result, float32 for None.
        device: a device, its name or a sharding; None for the default device.
        out_sharding: the sharding of the result, in the place of `device`.

    Raises:
        ShapeError: if a size is negative.
        DeviceError: if there is no such device.

    Example:
        >>> ones((2, 2), "int8").tolist()
        [[1, 1], [1, 1]]
    """
    if (place := device if out_sharding is None else out_sharding) is not None:
        return on_device(ones(shape, dtype), place)
    kind = DEFAULTS[float] if dtype is None else canonical(dtype)
    return make(_constant, 1, kind, a_shape("ones", shape))


def empty(
    shape: object, dtype: DTypeLike | None = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """An array of a shape with zeros everywhere: there is no array without values.

    Args:
        shape: tuple of sizes, or one size.
        dtype: dtype of the result, float32 for None.
        device: a device, its name or a sharding; None for the default device.
        out_sharding: the sharding of the result, in the place of `device`.

    Raises:
        ShapeError: if a size is negative.
        DeviceError: if there is no such device.

    Example:
        >>> empty((2, 3)).shape
        (2, 3)
    """
    return zeros(shape, dtype, device=device, out_sharding=out_sharding)


def full_like(
    a: ArrayLike,
    fill_value: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: Any = None,
    *,
    device: Any = None,
) -> Array:
    """An array of the shape and dtype of `a` with one value everywhere, divided like `a`.

    Args:
        a: array or number, or anything with `shape` and `dtype`, such as a ShapeDtypeStruct.
        fill_value: number, or array that broadcasts to the shape.
        dtype: dtype of the result; None takes that of `a`.
        shape: tuple of sizes, or one size; None takes the shape of `a`.
        device: a device, its name or a sharding; None for the default device.

    Raises:
        ShapeError: if the value does not broadcast to the shape.
        NumberError: for a number that the dtype does not hold.

    Example:
        >>> import tfn.numpy as tnp
        >>> full_like(tnp.array([1, 2]), 7)
        Array([7, 7], dtype=int32)
    """
    kind, sizes = _like("full_like", a, dtype, shape)
    if device is None and isinstance(a, Array) and a.committed and sizes == a.shape:
        device = a.sharding
    weak = getattr(a, "weak_type", scalar_kind(a) not in (None, BOOL))
    return weaken(full(sizes, fill_value, kind, device=device), dtype is None and weak)


def zeros_like(
    a: ArrayLike, dtype: DTypeLike | None = None, shape: object = None, *, device: object = None
) -> Array:
    """An array of the shape and dtype of `a` with zeros everywhere.

    Args:
        a: array or number, or anything with `shape` and `dtype`, such as a ShapeDtypeStruct.
        dtype: dtype of the result; None takes that of `a`.
        shape: tuple of sizes, or one size; None takes the shape of `a`.
        device: a device, its name or a sharding; None for the default device.

    Example:
        >>> import tfn.numpy as tnp
        >>> zeros_like(tnp.array([2, 3]), shape=(1, 2))
        Array([[0, 0]], dtype=int32)
    """
    return full_like(a, 0, dtype, shape, device=device)


def ones_like(
    a: ArrayLike, dtype: DTypeLike | None = None, shape: object = None, *, device: object = None
) -> Array:
    """An array of the shape and dtype of `a` with ones everywhere.

    Args:
        a: array or number, or anything with `shape` and `dtype`, such as a ShapeDtypeStruct.
        dtype: dtype of the result; None takes that of `a`.
        shape: tuple of sizes, or one size; None takes the shape of `a`.
        device: a device, its name or a sharding; None for the default device.

    Example:
        >>> import tfn.numpy as tnp
        >>> ones_like(tnp.array([2.5, 3.5]))
        Array([1., 1.], dtype=float32)
    """
    return full_like(a, 1, dtype, shape, device=device)


def empty_like(
    prototype: ArrayLike,
    dtype: DTypeLike | None = None,
    shape: object = None,
    *,
    device: object = None,
) -> Array:
    """An array of the shape and dtype of `prototype` with zeros everywhere.

    Args:
        prototype: array or number, or an object with `shape` and `dtype`: a ShapeDtypeStruct.
        dtype: dtype of the result; None takes that of `prototype`.
        shape: tuple of sizes, or one size; None takes the shape of `prototype`.
        device: a device, its name or a sharding; None for the default device.

    Example:
        >>> import tfn.numpy as tnp
        >>> empty_like(tnp.ones((2, 3)), dtype="int8").dtype
        dtype('int8')
    """
    return full_like(prototype, 0, dtype, shape, device=device)


def _like(name: str, x: object, dtype: DTypeLike | None, shape: object) -> tuple[DType, Shape]:
    if not (hasattr(x, "shape") and hasattr(x, "dtype")):  # a ShapeDtypeStruct will do
        x = array_of(name, x)
    kind = canonical(x.dtype if dtype is None else dtype)
    return kind, tuple(x.shape) if shape is None else a_shape(name, shape)


def from_dlpack(x: object, /, *, device: object = None, copy: bool | None = None) -> Array:
    """The array of another library, copied, or with ``copy=False`` in the memory that it has.

    Args:
        x: array with `__dlpack__`, in the memory of the CPU.
        device: a device, its name or a sharding; None for the default device.
        copy: as for `asarray`; shared memory must not be written while the result is in use.

    Returns:
        An Array of the shape and dtype of `x`.

    Raises:
        ArgumentError: for an object without DLPack, and for memory that cannot be shared; see
            `array`.
        BufferError: from the other library, for what it cannot export: memory of another device, or
            a dtype that DLPack does not have.
        DeviceError: if there is no such device.

    Example:
        >>> import numpy as np
        >>> from_dlpack(np.arange(3.0))
        Array([0., 1., 2.], dtype=float64)
    """
    if device is not None:
        return on_device(from_dlpack(x, copy=copy), device)
    if isinstance(x, Array):
        return asarray(x, copy=copy)
    if not hasattr(x, "__dlpack__"):
        raise ArgumentError(
            "from_dlpack needs an array of a library that speaks DLPack",
            got=shown(x),
            hint="tfn.numpy.asarray takes numbers and what has __array__",
        )
    # NumPy 2.0 cannot pass `copy` on, but makes no copies itself.
    options: Any = {"copy": False} if copy is False and HAS_VERSIONS else {}
    return asarray(np.from_dlpack(x, **options), copy=copy)


def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    """The elements of an object with Python's buffer protocol, such as bytes, in a new vector.

    Args:
        buffer: bytes, bytearray, memoryview or the like.
        dtype: dtype of the elements, float32 by default.
        count: number of elements, all of them for -1.
        offset: bytes before the first element.

    Raises:
        ArgumentError: if the buffer is too short, or its size is no multiple of that of an element.

    Example:
        >>> frombuffer(b"\\x01\\x00\\x02\\x00", "int16")
        Array([1, 2], dtype=int16)
    """
    kind = canonical(dtype)
    try:
        data = np.frombuffer(buffer, kind, count, offset)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"frombuffer cannot read {kind.name} elements",
            got=f"{shown(buffer)}, count={count}, offset={offset}: {error}",
            hint=f"pass bytes whose size from the offset on is a multiple of {kind.itemsize}",
        ) from None
    return array_of("frombuffer", data)


def fromfile(file: Any, dtype: DTypeLike = float, count: int = -1, sep: str = "") -> Array:
    """The vector of the numbers in a file, as bytes or as text.

    Args:
        file: path, or open file.
        dtype: dtype of the elements.
        count: number of elements read, all of them for -1.
        sep: text between numbers; "" for bytes.

    Raises:
        ArgumentError: if the file has no such elements.
        OSError: if the system refuses.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryFile() as file:
        ...     _ = file.write(bytes([1, 0, 2, 0])), file.seek(0)
        ...     fromfile(file, "int16").tolist()
        [1, 2]
    """
    kind = canonical(dtype)
    try:
        data = np.fromfile(file, kind, count, sep)
    except (TypeError, ValueError, DeprecationWarning) as error:
        raise ArgumentError(
            f"fromfile cannot read {kind.name} elements", got=f"count={count}, sep={sep!r}: {error}"
        ) from None
    return array_of("fromfile", data)


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """The vector of the numbers in a text.

    Args:
        string: the text.
        dtype: dtype of the elements.
        count: number of elements read, all of them for -1.
        sep: text between numbers.

    Raises:
        ArgumentError: if the text has other words, or `sep` is empty.

    Example:
        >>> fromstring("1, 2", "int32", sep=",").tolist()
        [1, 2]
    """
    kind = canonical(dtype)
    try:
        if not sep:
            raise ValueError("frombuffer reads bytes")
        data = np.fromstring(string, kind, count, sep=sep)
    except (TypeError, ValueError, DeprecationWarning) as error:
        raise ArgumentError(
            f"fromstring cannot read {kind.name} elements", got=f"{shown(string)}: {error}"
        ) from None
    return array_of("fromstring", data)


def fromiter(iterable: Any, dtype: DTypeLike, count: int = -1) -> Array:
    """The vector of the numbers that an iterable yields.

    Args:
        iterable: iterable of numbers.
        dtype: dtype of the result.
        count: number of elements taken, all of them for -1.

    Raises:
        ArgumentError: if there are fewer elements, or one is no number.

    Example:
        >>> fromiter((n * n for n in range(4)), "int32")
        Array([0, 1, 4, 9], dtype=int32)
    """
    kind = canonical(dtype)
    try:
        data = np.fromiter(iterable, kind, count)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"fromiter cannot make {kind.name} elements",
            got=f"{shown(iterable)}, count={count}: {error}",
            hint="pass an iterable of at least `count` numbers; count=-1 takes all",
        ) from None
    return array_of("fromiter", data)
