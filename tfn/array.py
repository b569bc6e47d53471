"""The public array class: immutable, concrete or a value of a running trace (a tracer).

A concrete Array holds a Buffer of a device.  A traced one holds the UOp that computes it and the
trace it belongs to.  ``isinstance(x, tfn.Array)`` is true for both.

The operations of an Array are functions of `tfn.numpy`, which imports this file; the methods here
call them through `install`, which ``tfn/__init__.py`` calls once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, NoReturn, Protocol, Self

import numpy as np

from tfn._support import dlpack
from tfn.at import At
from tfn.dtypes import BFLOAT16, COMPLEXES, FLOATS, INTEGERS, NARROW, DType, DTypeLike
from tfn.errors import (
    ArgumentError,
    ConcretizationTypeError,
    DTypeError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)
from tfn.hw.buffer import Buffer
from tfn.trace import bind, concretization, runtime, traces
from tfn.trace.aval import Kind
from tfn.trace.op import Shape
from tfn.trace.uop import UOp

Axes = int | Sequence[int] | None


class Function(Protocol):
    """A function of tfn.numpy."""

    def __call__(self, *args: object, **options: object) -> Array:
        """Arrays in, an Array out."""


class Functions(Protocol):
    """The namespace tfn.numpy, as far as this file knows it."""

    def __getattr__(self, name: str) -> Function:
        """A function by its name."""


_FUNCTIONS: list[Functions] = []
_SHARDS: list[Callable[[], Any]] = []  # the module tfn.eager.shards
_BITS: list[Callable[[], Any]] = []  # the module tfn.lax.bits
SCALAR = "x[None] has one axis, and item() takes the element"
_VERSIONS = (None, "2021.12", "2022.12", "2023.12", "2024.12")  # of the array API standard


def install(functions: Functions, shards: Callable[[], Any], bits: Callable[[], Any]) -> None:
    """Install the functions behind the methods; done once, by ``tfn/__init__.py``."""
    _FUNCTIONS[:], _SHARDS[:], _BITS[:] = [functions], [shards], [bits]


def _operator(name: str, swapped: bool = False) -> Callable[[Array, Any], Array]:
    def method(self: Array, other: object) -> Array:
        if not isinstance(other, _OPERANDS) and not hasattr(other, "__jax_array__"):
            return NotImplemented  # type: ignore[no-any-return]
        function: Function = getattr(_FUNCTIONS[0], name)
        return function(other, self) if swapped else function(self, other)

    return method


def _method(name: str, says: str) -> Callable[..., Array]:
    def method(self: Array, *args: object, **options: object) -> Array:
        function: Function = getattr(_FUNCTIONS[0], name)
        return function(self, *args, **options)

    method.__name__, method.__qualname__, method.__doc__ = name, f"Array.{name}", says
    return method


def _writes(name: str) -> property:
    """A method of NumPy that changes its array, which no array of tfn has."""

    def refuse(self: Array) -> NoReturn:
        raise concretization.immutable(self, f"{name} is not a method of it", name)

    return property(refuse, doc=f"Missing: `{name}` would change the array.")


class Array:
    """An n-dimensional array of one dtype.  Made by the functions of `tfn.numpy`; immutable.

    Attributes:
        shape: sizes of the axes.
        dtype: a ``numpy.dtype``.
        weak_type: whether the dtype gives way to others, as that of a Python scalar does.
        kind: shape and dtype as one object; None if traced.
    """

    # Native code fills the slots too: `tfn/hw/cpu/pytrees.ll`.
    __slots__ = (
        "__weakref__",
        "buffer",
        "dtype",
        "kind",
        "known",
        "owner",
        "shape",
        "uop",
        "weak_type",
    )
    __array_priority__ = 100  # so that NumPy's operators leave the work to ours
    __hash__ = None  # type: ignore[assignment]  # ``==`` is elementwise
    shape: Shape
    dtype: DType
    weak_type: bool
    kind: Kind | None
    buffer: Buffer | None  # None if traced or deleted
    uop: UOp | None  # None if concrete, like the trace, but for numbers of a compiled function
    owner: traces.Trace | None  # the trace that has the value
    known: bool  # whether a traced value can be computed now

    def __new__(cls, *args: object, **options: object) -> Self:
        """Raises an error: arrays are made by the functions of `tfn.numpy`."""
        raise ArgumentError(
            "Array is a class to ask for, not a function that makes arrays",
            hint="tfn.numpy.array(values) makes one",
        )

    def unsafe_buffer_pointer(self) -> int:
        """The address of the elements in memory; they must not be changed.

        Raises:
            ConcretizationTypeError: for a value that is being traced.
        """
        address = getattr(self.buffer, "address", None)  # a view would keep it from being donated
        return int(np.asarray(self).ctypes.data if address is None else address)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise concretization.immutable(self, f"its {name} cannot be set", name)

    def __delattr__(self, name: str) -> NoReturn:
        raise concretization.immutable(self, f"its {name} cannot be deleted", name)

    # The value.

    def concrete(self) -> Array:
        """This array with its data: itself, or the value of a known trace.

        Raises:
            ConcretizationTypeError: while only shape and dtype are known.
            DeletedArrayError: after donation.
        """
        if self.owner is None:
            if self.buffer is None:
                raise concretization.deleted(self)
            return self
        bind.check_live(self)
        if not self.known:
            raise concretization.error(
                self, ConcretizationTypeError, "its value", concretization.STATIC
            )
        self.owner.concretized = True
        assert self.uop is not None
        value: Array = bind.run_now(self.uop, self.owner)
        return value

    def _data(self, error: type[ConcretizationTypeError], need: str, hint: str) -> Any:
        """The value as a read-only NumPy array, or an error that says what needed it."""
        if self.owner is not None and self.owner.live and not self.known:
            raise concretization.error(self, error, need, hint)
        return runtime.installed().read(self.concrete())

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        data = self._data(
            TracerArrayConversionError, "a NumPy array of its value", concretization.NUMPY
        )
        array: np.ndarray = data
        return array if dtype is None and not copy else np.array(array, dtype, copy=copy)

    def __dlpack__(
        self,
        *,
        stream: object = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return dlpack.export(self.__array__(), stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU

    def __array_namespace__(self, api_version: str | None = None) -> Any:
        if api_version not in _VERSIONS:
            raise ArgumentError(
                f"tfn.numpy is not the array API {api_version}",
                got=f"api_version={api_version}",
                hint=f"it is {_VERSIONS[-1]}",
            )
        return _FUNCTIONS[0]

    @property
    def device(self) -> Any:
        """The device of the array, or its sharding if it is divided among several."""
        return _SHARDS[0]().device_of(self)

    @property
    def sharding(self) -> Any:
        """The devices of the array, and its division among them: see `tfn.sharding`."""
        return _SHARDS[0]().sharding_of(self)

    def devices(self) -> set[Any]:
        """The devices that have parts of the array."""
        return set(self.sharding.device_set)

    @property
    def committed(self) -> bool:
        """Whether the array was put on its devices; others follow those they are combined with."""
        return self.kind is not None and self.kind.sharding is not None

    is_fully_addressable = property(lambda self: self.sharding.is_fully_addressable)
    """Whether all parts are in this process."""
    is_fully_replicated = property(lambda self: self.sharding.is_fully_replicated)
    """Whether each device has the whole array."""

    @property
    def addressable_shards(self) -> list[Any]:
        """The parts of the array in this process: a `tfn.sharding.Shard` for each device."""
        return list(_SHARDS[0]().shards(self))

    global_shards = addressable_shards

    def addressable_data(self, index: int) -> Any:
        """The part of the array on the device of a number."""
        return self.addressable_shards[index].data

    def copy_to_host_async(self) -> None:
        """Nothing: the data are in the memory of the host."""

    def to_device(self, device: object, /, *, stream: object = None) -> Array:
        """This array on a device.

        Raises:
            DeviceError: if there is no such device.
        """
        return _FUNCTIONS[0].asarray(self, device=device)

    def _only(self, error: type[ConcretizationTypeError], need: str, hint: str) -> Any:
        """The one element."""
        if self.dtype in COMPLEXES and need in ("int()", "float()"):
            raise DTypeError(
                f"{need} needs a real number",
                got=concretization.show(self),
                hint="take its .real part, or use complex()",
            )
        if prod(self.shape) != 1:
            raise ArgumentError(
                f"{need} needs an array of one element",
                got=concretization.show(self),
                hint="reduce it, as .all(), .any() or .sum() do",
            )
        return self._data(error, need, hint).reshape(())[()]

    def __bool__(self) -> bool:
        return bool(self._only(TracerBoolConversionError, "its truth", concretization.BRANCH))

    def __int__(self) -> int:
        return int(self._only(ConcretizationTypeError, "int()", concretization.CAST))

    def __float__(self) -> float:
        return float(self._only(ConcretizationTypeError, "float()", concretization.CAST))

    def __complex__(self) -> complex:
        return complex(self._only(ConcretizationTypeError, "complex()", concretization.CAST))

    def __index__(self) -> int:
        if self.dtype not in INTEGERS or self.shape:
            problem = "only an integer scalar can be used as an index"
            raise ArgumentError(
                problem, got=concretization.show(self), hint="int(x) makes an int of one"
            )
        return int(
            self._only(TracerIntegerConversionError, "a Python integer", concretization.INTEGER)
        )

    def item(self, *index: int) -> Any:
        """The only element, or the one at `index`, as a Python scalar; one number counts flat."""
        flat = len(index) == 1 and self.ndim != 1
        chosen = self.reshape(-1)[index] if flat else self[index] if index else self
        return chosen._only(ConcretizationTypeError, ".item()", concretization.CAST).item()

    def tolist(self) -> Any:
        """Nested lists of Python scalars."""
        return self._data(ConcretizationTypeError, ".tolist()", concretization.STATIC).tolist()

    def __repr__(self) -> str:
        if self.owner is not None:
            return f"Traced<{concretization.show(self)} of {self.owner.name}>"
        if self.buffer is None or (self.committed and not _SHARDS[0]().is_readable(self)):
            state = "deleted" if self.buffer is None else "over processes"
            return f"Array({state}, {concretization.show(self)})"
        end = f", dtype={self.dtype.name}" + (", weak_type=True" if self.weak_type else "") + ")"
        data = runtime.installed().read(self)
        if self.dtype in NARROW or self.dtype == BFLOAT16:
            data = data.astype(np.float32 if self.dtype in FLOATS else np.int32)
        text = np.array2string(data, separator=", ", prefix="Array(", suffix=",")
        shape = f", shape={self.shape}" if data.size == 0 and data.shape != (0,) else ""
        last = f"Array({text}{shape}{end}".rpartition("\n")[2]
        room = len(last) <= np.get_printoptions()["linewidth"]
        return f"Array({text}{shape}{end if room else end.replace(' ', chr(10) + '      ', 1)}"

    def __str__(self) -> str:
        if self.owner is not None or (self.committed and not _SHARDS[0]().is_readable(self)):
            return repr(self)
        return str(self._data(ConcretizationTypeError, "its text", concretization.PRINT))

    def __format__(self, spec: str) -> str:
        if not spec or self.shape:
            return format(str(self), spec)
        return format(
            self._data(ConcretizationTypeError, "its text", concretization.PRINT).item(), spec
        )

    def __reduce__(self) -> tuple[Any, ...]:
        data = self._data(
            ConcretizationTypeError, "its value, to pickle it,", concretization.STATIC
        )
        return _unpickle, (np.array(data), self.weak_type)

    def __copy__(self) -> Array:
        return self

    def __deepcopy__(self, memo: object) -> Array:
        return self if self.owner is not None else self.copy()

    def block_until_ready(self) -> Array:
        """This array, when its value has been computed.  Traced values are ready."""
        if self.owner is None:
            self.concrete()
            runtime.installed().synchronize()
        return self

    def delete(self) -> None:
        """Give the memory back now; the array cannot be used afterwards."""
        object.__setattr__(self, "buffer", None)

    def is_deleted(self) -> bool:
        """Whether the memory was given back or donated."""
        return self.owner is None and self.buffer is None

    # The type.

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return prod(self.shape) * self.dtype.itemsize

    def on_device_size_in_bytes(self) -> int:
        """Bytes of all elements."""
        return self.nbytes

    def is_ready(self) -> bool:
        """True: a value has been computed when a call returns it."""
        return True

    # Elements.

    def __len__(self) -> int:
        if self.shape:
            return self.shape[0]
        raise ArgumentError("a 0-d array has no length", got=concretization.show(self), hint=SCALAR)

    def __iter__(self) -> Iterator[Array]:
        if not self.shape:
            raise ArgumentError(
                "a 0-d array cannot be iterated", got=concretization.show(self), hint=SCALAR
            )
        return (self[i] for i in range(self.shape[0]))

    def __getitem__(self, index: object) -> Array:
        return _FUNCTIONS[0].getitem(self, index)

    def __contains__(self, value: object) -> bool:
        return bool((self == value).any())

    def __setitem__(self, index: object, value: object) -> NoReturn:
        raise concretization.immutable(self, "its elements cannot be set")

    @property
    def at(self) -> At[Array]:
        """New arrays with some elements changed: ``x.at[index].set(value)``."""
        return At(self)

    # fmt: off
    __add__, __radd__ = _operator("add"), _operator("add", swapped=True)
    __sub__, __rsub__ = _operator("subtract"), _operator("subtract", swapped=True)
    __mul__, __rmul__ = _operator("multiply"), _operator("multiply", swapped=True)
    __truediv__, __rtruediv__ = _operator("divide"), _operator("divide", swapped=True)
    __floordiv__, __rfloordiv__ = (
        _operator("floor_divide"), _operator("floor_divide", swapped=True))
    __mod__, __rmod__ = _operator("remainder"), _operator("remainder", swapped=True)
    __pow__, __rpow__ = _operator("power"), _operator("power", swapped=True)
    __matmul__, __rmatmul__ = _operator("matmul"), _operator("matmul", swapped=True)
    __and__, __rand__ = _operator("bitwise_and"), _operator("bitwise_and", swapped=True)
    __or__, __ror__ = _operator("bitwise_or"), _operator("bitwise_or", swapped=True)
    __xor__, __rxor__ = _operator("bitwise_xor"), _operator("bitwise_xor", swapped=True)
    __lshift__, __rlshift__ = _operator("left_shift"), _operator("left_shift", swapped=True)
    __rshift__, __rrshift__ = _operator("right_shift"), _operator("right_shift", swapped=True)
    __lt__, __le__ = _operator("less"), _operator("less_equal")
    __gt__, __ge__ = _operator("greater"), _operator("greater_equal")
    __eq__, __ne__ = _operator("equal"), _operator("not_equal")  # type: ignore[assignment]
    # fmt: on

    def __divmod__(self, other: object) -> tuple[Array, Array]:
        return self // other, self % other

    def __rdivmod__(self, other: object) -> tuple[Array, Array]:
        return other // self, other % self

    def __neg__(self) -> Array:
        return _FUNCTIONS[0].negative(self)

    def __pos__(self) -> Array:
        return _FUNCTIONS[0].positive(self)

    def __abs__(self) -> Array:
        return _FUNCTIONS[0].abs(self)

    def __invert__(self) -> Array:
        return _FUNCTIONS[0].invert(self)

    def __round__(self, decimals: int = 0) -> Array:
        return _FUNCTIONS[0].round(self, decimals)

    # Methods of NumPy that write to the array.

    fill, put = _writes("fill"), _writes("put")
    partition, resize = _writes("partition"), _writes("resize")

    # Methods that call the function of tfn.numpy of the same name.

    def astype(self, dtype: DTypeLike, copy: bool = False, **options: Any) -> Array:
        """The values in another dtype."""
        return _FUNCTIONS[0].astype(self, dtype, copy=copy, **options)

    def view(self, dtype: DTypeLike | None = None) -> Array:
        """The bytes of the elements as those of another dtype."""
        viewed: Array = _BITS[0]().view(self, dtype)
        return viewed

    def tobytes(self, order: str = "C") -> bytes:
        """The bytes of all elements in order."""
        data = self._data(ConcretizationTypeError, ".tobytes()", concretization.STATIC)
        return bytes(data.tobytes(order))

    def copy(self) -> Array:
        """An array with memory of its own."""
        return _FUNCTIONS[0].copy(self)

    def reshape(self, *shape: Any, order: str = "C", **options: Any) -> Array:
        """The elements in order under another shape, one size of which may be -1."""
        given = shape[0] if len(shape) == 1 else shape
        return _FUNCTIONS[0].reshape(self, given, order=order, **options)

    def ravel(self, order: str = "C") -> Array:
        """All elements along one axis."""
        return _FUNCTIONS[0].ravel(self, order=order)

    flatten = ravel

    def transpose(self, *axes: object) -> Array:
        """Axes in another order, reversed if none is given."""
        listed = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return _FUNCTIONS[0].transpose(self, listed or None)

    @property
    def T(self) -> Array:
        """Axes in reverse order."""
        return _FUNCTIONS[0].transpose(self)

    @property
    def mT(self) -> Array:
        """The last two axes exchanged."""
        return _FUNCTIONS[0].matrix_transpose(self)

    @property
    def real(self) -> Array:
        """The real part; of a real array itself."""
        return _FUNCTIONS[0].real(self)

    @property
    def imag(self) -> Array:
        """The imaginary part; of a real array zeros."""
        return _FUNCTIONS[0].imag(self)

    def conj(self) -> Array:
        """The complex conjugate; of a real array itself."""
        return _FUNCTIONS[0].conj(self)

    conjugate = conj

    def nonzero(self, **options: Any) -> tuple[Array, ...]:
        """The indices of elements that are not zero, a vector for an axis."""
        return _FUNCTIONS[0].nonzero(self, **options)  # type: ignore[return-value]

    def compress(self, condition: ArrayLike, axis: int | None = None, **options: Any) -> Array:
        """The parts along an axis for which a condition is true."""
        return _FUNCTIONS[0].compress(condition, self, axis, **options)

    swapaxes = _method("swapaxes", "Two axes exchanged.")
    squeeze = _method("squeeze", "Without axes of size 1.")
    repeat = _method("repeat", "Each element several times.")
    take = _method("take", "Elements at indices along an axis.")
    diagonal = _method("diagonal", "The diagonal of two axes.")
    dot = _method("dot", "The product as `tfn.numpy.dot` defines it.")
    clip = _method("clip", "Values not below `min` and not above `max`.")
    round = _method("round", "Rounded, halves to even.")
    sort = _method("sort", "Sorted along an axis, NaN last.")
    argsort = _method("argsort", "The indices that sort.")
    sum = _method("sum", "The sum over axes.")
    prod = _method("prod", "The product over axes.")
    mean = _method("mean", "The mean over axes.")
    var = _method("var", "The variance over axes.")
    std = _method("std", "The standard deviation over axes.")
    max = _method("max", "The largest over axes, NaN if there is one.")
    min = _method("min", "The smallest over axes, NaN if there is one.")
    any = _method("any", "Whether one element over axes is true.")
    all = _method("all", "Whether all elements over axes are true.")
    argmax = _method("argmax", "The first index of the largest.")
    argmin = _method("argmin", "The first index of the smallest.")
    cumsum = _method("cumsum", "The sums of the elements before each one and of itself.")
    cumprod = _method("cumprod", "The products of the elements before each one and of itself.")
    ptp = _method("ptp", "The largest minus the smallest over axes.")
    argpartition = _method("argpartition", "The indices that put the k smallest first.")
    choose = _method("choose", "The element of the choice that each number of this array names.")
    trace = _method("trace", "The sum of the diagonal of two axes.")
    searchsorted = _method("searchsorted", "The places of values in this sorted vector.")


ArrayLike = Array | np.ndarray | np.generic | bool | int | float | complex
"""The arguments of functions of tfn.numpy; lists are refused, since they cost time per element."""

_OPERANDS = (Array, bool, int, float, complex, np.ndarray, np.generic, list, tuple)


def _unpickle(data: np.ndarray, weak_type: bool) -> Array:
    x: Array = runtime.installed().weaken(runtime.installed().asarray(data), weak_type)
    return x
