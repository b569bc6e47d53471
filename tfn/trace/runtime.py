"""Runtime interface: what traces and transforms ask of the layers that run programs.

A higher layer installs it, so that the language need not know how programs are compiled and run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from tfn.dtypes import DType
from tfn.trace.aval import Kind
from tfn.trace.jaxpr import Jaxpr
from tfn.trace.op import Op, Shape
from tfn.trace.traces import Trace
from tfn.trace.uop import UOp


class Typed(Protocol):
    """An array, a node or a type: anything with shape and dtype."""

    @property
    def shape(self) -> Shape:
        """Sizes of the axes."""

    @property
    def dtype(self) -> DType:
        """The type of the elements."""


class Value(Protocol):
    """The part of `tfn.Array` that tracing and transforms use."""

    shape: Shape
    dtype: DType
    weak_type: bool
    kind: Kind | None  # shape and dtype as one object; None if traced
    uop: UOp | None  # None if concrete
    owner: Trace | None  # None if concrete
    known: bool  # whether it can be computed now


Entry = Callable[..., Any]
"""A native entry point: a compiled program as a function of the user's arguments."""

ENTRY_BYTES = 3_000
"""Memory of a native entry point and of its row in a cache, estimated."""


class CompileStats(NamedTuple):
    """Compile statistics of a program.

    Attributes:
        trace_ns, lower_ns, compile_ns: time from the user's function to a graph, to text, to
            machine code that is loaded.
        kernels: the number of distinct kernels of the program.
        compiled: the number of objects that had to be compiled.
        from_disk: the number of objects that were read from disk; others were in memory already.
        size_bytes: its memory while it is cached, estimated.
    """

    trace_ns: int = 0
    lower_ns: int = 0
    compile_ns: int = 0
    kernels: int = 0
    compiled: int = 0
    from_disk: int = 0
    size_bytes: int = 0


class Runtime(Protocol):
    """The runtime interface: conversion, execution and compilation of Values."""

    def asarray(self, value: Any, dtype: Any = None) -> Any:
        """A Value from an array, a number or a nested list."""

    def adopt(self, data: np.ndarray) -> Any:
        """A Value that shares the memory of a NumPy array.  Raises ArgumentError if it cannot."""

    def read(self, value: Any) -> Any:
        """The data of a concrete Value, as a read-only NumPy array."""

    def weaken(self, value: Any, weak: bool) -> Any:
        """The same Value with another weakness of its dtype."""

    def wrap(
        self, uop: UOp, trace: Trace, known: bool, weak: bool = False, derived: bool = False
    ) -> Any:
        """A Value of a running trace.

        One that is `derived` from a graph, not from an operation of the user, need not follow the
        rules of explicit shardings.
        """

    def check_room(self, size_bytes: int) -> None:
        """Raise OutOfMemoryError if there is not enough free memory."""

    def synchronize(self) -> None:
        """Wait until all programs that were started, on any device, have finished."""

    def evaluate(self, uop: UOp) -> Any:
        """The Value of a graph without leaves, now, without compiling anything."""

    def execute(self, op: Op, arg: object, operands: Sequence[Any], weak: bool = False) -> Any:
        """One op, now, on concrete Values."""

    def call(
        self,
        jaxpr: Jaxpr,
        operands: Sequence[Any],
        donated: frozenset[int] = frozenset(),
        on: Any = None,
        name: str = "",
    ) -> list[Any]:
        """A whole closed function, now, compiled, on concrete Values.

        Those whose numbers are `donated` are deleted; results may take their memory.  It runs on
        the devices that the values are committed to, or else on those that `on` asks for.  `name`
        is for the profiler.
        """

    def compile_stats(
        self, jaxpr: Jaxpr, kinds: Sequence[Any] = (), on: Any = None
    ) -> CompileStats:
        """The compile statistics of its program for arguments of these kinds.

        All zero if none has been made.
        """

    def footprint(
        self,
        jaxpr: Jaxpr,
        donated: frozenset[int] = frozenset(),
        kinds: Sequence[Any] = (),
        on: Any = None,
    ) -> Any:
        """The memory that a run takes, known before it runs: a `Footprint`."""

    def place(self, jaxpr: Jaxpr, kinds: Sequence[Any] = (), on: Any = None) -> Any:
        """The program of a closed function on devices, their platform, the kinds of its results."""

    def check_place(self, what: str, kinds: Sequence[Any]) -> None:
        """Raise DeviceError if arguments of these kinds are on different devices."""

    def check_layouts(self, jaxpr: Jaxpr, kinds: Sequence[Any]) -> bool:
        """Raise ShardingTypeError if no sharding of a result follows from explicit ones.

        False if a wider operation says what the sharding is: then the rules do not count.
        """

    def duplicate(self, value: Any) -> Any:
        """A concrete Value in memory of its own."""

    def entry(
        self,
        jaxpr: Jaxpr,
        takes: Sequence[Any],
        gives: Any,
        given: Sequence[bool | None],
        made: Sequence[bool],
        captured: Sequence[Any] = (),
        donated: frozenset[int] = frozenset(),
        kinds: Sequence[Any] = (),
        on: Any = None,
        name: str = "",
    ) -> Entry | None:
        """A native entry point for a closed function, if the device has one.

        `takes` and `gives` are the trees of the arguments and of the result, with indices of
        parameters and of outputs as leaves; `given` and `made` say which of them are weak, None
        for either; `captured` are the last parameters; parameters whose indices are in `donated`
        lose their memory; `kinds` are those of all parameters, where one of them is committed to
        devices, and `on` says where it runs if none is; `name` is for the profiler.  The entry
        point returns NotImplemented, and has done nothing, if its arguments do not match.
        """


class Transfer(Protocol):
    """The transfer interface: Values brought to devices."""

    def device_put(self, x: Any, device: Any) -> Any:
        """A tree of Values on devices, or divided among them as shardings say."""

    def memory_stats(self, device: Any) -> dict[str, int]:
        """The memory of a device, under the names of JAX."""

    def live_buffers(self, device: Any) -> list[Any]:
        """The concrete Values that have a part on a device."""

    def check_share(self, device: Any, size_bytes: int) -> None:
        """Raise OutOfMemoryError if a device has no room for more in its share of the limit."""


_RUNTIME: list[Callable[[], Runtime]] = []

_TRANSFER: list[Callable[[], Transfer]] = []

_VIEW: list[Callable[[Jaxpr, Sequence[Kind]], Any]] = []


def install(
    runtime: Callable[[], Runtime],
    view: Callable[[Jaxpr, Sequence[Kind]], Any],
    transfer: Callable[[], Transfer],
) -> None:
    """Install the runtime, the view of programs and transfers, once, by ``tfn/__init__.py``."""
    _RUNTIME[:], _VIEW[:], _TRANSFER[:] = [runtime], [view], [transfer]


def device_put(x: Any, device: Any) -> Any:
    """A tree of Values on devices, or divided among them as shardings say."""
    return _TRANSFER[0]().device_put(x, device)


def memory_stats(device: Any) -> dict[str, int]:
    """The memory of a device, under the names of JAX."""
    return _TRANSFER[0]().memory_stats(device)


def live_buffers(device: Any) -> list[Any]:
    """The concrete Values that have a part on a device."""
    return _TRANSFER[0]().live_buffers(device)


def check_share(device: Any, size_bytes: int) -> None:
    """Raise OutOfMemoryError if a device has no room for more in its share of the limit."""
    _TRANSFER[0]().check_share(device, size_bytes)


@cache
def installed() -> Runtime:
    """The installed runtime, loaded at the first use."""
    return _RUNTIME[0]()


def view(jaxpr: Jaxpr, kinds: Sequence[Kind] = ()) -> Any:
    """The stages of its compilation for arguments of these kinds; see `tfn.inspect.show`."""
    return _VIEW[0](jaxpr, kinds)
