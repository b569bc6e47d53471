"""Dispatch of operations: record a node in a trace, or execute at once.

Every operation of the public functions goes through `bind`.  If an operand belongs to a running
trace, a node is recorded; otherwise the runtime, which `install` sets, executes the op now.

A trace is known when its inputs are concrete arrays (under `grad`, `jvp`, `vjp`, `linearize`
outside `jit`): then any value in it can be computed when Python needs it, and `if x > 0` works.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from tfn.dtypes import DType
from tfn.errors import Line, UnexpectedTracerError, show_line, user_line
from tfn.trace.argument import Host, Leaf
from tfn.trace.aval import Kind
from tfn.trace.inline import has, inlined
from tfn.trace.jaxpr import Jaxpr, alone, close, inline
from tfn.trace.loop_cleanup import tidy
from tfn.trace.op import LOOPS, SEVERAL, Op, Shape
from tfn.trace.uop import UOp, substitute, walk


class Cell(Protocol):
    """State that a program reads and writes: a reference, or the order of its side effects.

    In each trace it is a value that the trace takes and one that it returns; see `trace.effects`.
    """

    @property
    def lasting(self) -> bool:
        """Whether it outlives all traces, so that a program that uses it can be kept."""

    def read(self) -> Any:
        """The current Value, in the innermost running trace."""

    def write(self, value: Any) -> None:
        """Set the current Value, in the trace that it belongs to."""


class Trace:
    """One run of a Python function on abstract values.

    Attributes:
        name: of the function, for messages.
        depth: the nesting depth: 1 for the outermost trace.
        live: whether the function is still running.
        concretized: whether Python used a concrete value, so that the graph depends on values.
        captured: the leaf of each array from outside the trace, by identity.
        apart: whether operations on outer values alone are recorded too, and outer values told
            apart by identity, so that two that are computed in the same way, and constants, are
            captured each on its own.
        places: the user's line that made each value.
        memo: values already computed in a known trace.
        inner: the trace of a branch that runs inside: it records operations on values of this
            trace too, so that they are executed only if the branch is chosen.
        known: whether its inputs may have values.
        uses_axes: whether it used a named axis from outside, so that the graph depends on its size.
        layouts: how values are divided over explicit axes of a mesh: see `transforms.shard.layout`.
        cells: the state that it uses: the first and the current node of each; see `trace.effects`.
    """

    __slots__ = (
        "name",
        "depth",
        "live",
        "apart",
        "concretized",
        "captured",
        "memo",
        "inner",
        "where",
        "known",
        "uses_axes",
        "cells",
        "places",
        "layouts",
    )

    def __init__(self, name: str, depth: int, known: bool = True) -> None:
        self.name, self.depth, self.known = name, depth, known
        self.cells: dict[Cell, tuple[UOp, UOp]] = {}
        self.live, self.concretized, self.uses_axes, self.apart = True, False, False, False
        self.captured: dict[int | UOp, UOp] = {}
        self.memo: dict[UOp, Any] = {}  # a Value, or a list of the results of a node of several
        self.inner: Trace | None = None
        self.places: dict[UOp, Line] = {}
        self.layouts: dict[UOp, Any] = {}
        self.where = user_line()

    @property
    def main(self) -> Trace:
        """This trace: what libraries that compare traces of JAX ask for."""
        return self

    @property
    def written(self) -> list[Cell]:
        """The state that it has changed."""
        return [cell for cell, (first, now) in self.cells.items() if first is not now]


APART: list[Trace] = []
"""The traces of all threads that record operations on concrete arrays: usually none."""


class Layouts:
    """Whether any mesh has explicit axes, whose shardings are a part of types.

    Attributes:
        exist: once a mesh has them.
    """

    __slots__ = ("exist",)

    def __init__(self) -> None:
        self.exist = False


LAYOUTS = Layouts()


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
    trace: Trace | None  # None if concrete
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
_LOCAL = threading.local()


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
def runtime() -> Runtime:
    """The installed runtime, loaded at the first use."""
    return _RUNTIME[0]()


def view(jaxpr: Jaxpr, kinds: Sequence[Kind] = ()) -> Any:
    """The stages of its compilation for arguments of these kinds; see `tfn.inspect.show`."""
    return _VIEW[0](jaxpr, kinds)


def traces() -> list[Trace]:
    """The traces that run in this thread, the outermost first."""
    stack: list[Trace] | None = getattr(_LOCAL, "stack", None)
    if stack is None:
        stack = _LOCAL.stack = []
    return stack


@contextmanager
def tracing(
    name: str, branch: bool = False, known: bool = True, apart: bool = False
) -> Iterator[Trace]:
    """A trace that runs during the block; see `Trace.inner` for that of a branch."""
    stack = traces()
    trace = Trace(name, len(stack) + 1, known)
    trace.apart = apart or (bool(stack) and stack[-1].apart)
    before = [(outer, outer.inner) for outer in stack] if branch or trace.apart else []
    for outer, _ in before:
        outer.inner = trace
    stack.append(trace)
    if trace.apart:
        APART.append(trace)
    try:
        yield trace
    finally:
        stack.remove(trace)
        if trace.apart:
            APART.remove(trace)
        for outer, inner in before:
            outer.inner = inner
        trace.live = False
        trace.captured.clear()


@contextmanager
def outside_traces() -> Iterator[None]:
    """A block in which what does not depend on traced values is computed, and not recorded."""
    stack, _LOCAL.stack = traces(), []
    try:
        yield
    finally:
        _LOCAL.stack = stack


def new_leaf(
    trace: Trace,
    shape: Shape,
    dtype: DType,
    name: str,
    value: Value | None = None,
    weak: bool = False,
) -> Any:
    """An input of a trace, as a Value; `value` is the concrete or outer value it represents."""
    uop = UOp(Op.LEAF, (), Leaf(shape, dtype, value, name, is_input=True))
    known = value is not None and (value.trace is None or value.known)
    return runtime().wrap(uop, trace, known, weak)


def lift(value: Value, trace: Trace) -> UOp:
    """The node of a value in a trace: its own, or the leaf of a value captured from outside.

    A value of an outer trace is captured like a concrete array, so that the graph of a trace
    ends at its own leaves and a transform never walks into the graphs around it.
    """
    owner = value.trace
    if owner is trace:
        return value.uop  # type: ignore[return-value]  # traced, so there is one
    key: int | UOp = id(value)
    if owner is not None:
        check_live(value)
        assert value.uop is not None
        if not trace.apart:
            key = outer = value.uop
            if outer.op is Op.CONST or outer.op is Op.IOTA:
                return outer
    leaf = trace.captured.get(key)
    if leaf is None:
        leaf = UOp(Op.LEAF, (), Leaf(value.shape, value.dtype, value, "a captured array"))
        trace.captured[key] = leaf
    return leaf


def check_live(value: Value) -> None:
    """Raise if the trace of a value has ended.

    Raises:
        UnexpectedTracerError: naming the function it leaked from.
    """
    assert value.trace is not None and value.uop is not None
    if not value.trace.live:
        raise UnexpectedTracerError(
            f"a traced value was used after {value.trace.name} had returned: it leaked",
            got=f"{value!r}, made at {show_line(value.trace.places.get(value.uop))}, "
            f"in the trace that began at {value.trace.where}",
            hint="return the value from the function instead of storing it elsewhere",
        )


def bind(op: Op, *operands: Any, arg: object = None, weak: bool = False) -> Any:
    """The op on Values: recorded if one of them is being traced, else executed.

    `weak` says whether the dtype of the result is.
    """
    trace: Trace | None = None
    known = True
    for value in operands:
        owner = value.trace
        if owner is not None:
            if not owner.live:
                check_live(value)
            if trace is None or owner.depth > trace.depth:
                trace = owner
            known = known and value.known
    if trace is None and APART:
        trace = recorder()
    if trace is None:
        return runtime().execute(op, arg, operands, weak)
    if trace.inner is not None:
        trace = trace.inner
    uop = UOp(op, tuple([v.uop if v.trace is trace else lift(v, trace) for v in operands]), arg)
    return runtime().wrap(uop, trace, known, weak)


def recorder() -> Trace | None:
    """The trace that records operations on concrete arrays, if the innermost one does."""
    stack = traces()
    return stack[-1] if stack and stack[-1].apart else None


def innermost(values: Sequence[Value]) -> Trace | None:
    """The deepest live trace among values, or the branch inside it; None if all are concrete."""
    deepest = recorder() if APART else None
    for value in values:
        if value.trace is not None:
            check_live(value)
            if deepest is None or value.trace.depth > deepest.depth:
                deepest = value.trace
    return deepest if deepest is None or deepest.inner is None else deepest.inner


def evaluate(outputs: Sequence[UOp], trace: Trace, weak: Sequence[bool] = ()) -> list[Any]:
    """The values of graphs over leaves that all have a value.

    Inside an outer trace the leaves are replaced by the values they represent, and nothing runs.
    Otherwise the graph is compiled whole, or, if Python has used a value of `trace`, run op by op,
    because such a graph is different each time.  `weak` says which outputs are weak.  The effects
    of the trace happen too, or become those of the outer trace.
    """
    weak = weak or (False,) * len(outputs)
    cells = trace.written
    if not cells:
        return _evaluate(outputs, trace, weak)
    last = [trace.cells[cell][1] for cell in cells]
    values = _evaluate([*outputs, *last], trace, (*weak, *(False for _ in cells)))
    for cell, value in zip(cells, values[len(outputs) :], strict=True):
        cell.write(value)
    return values[: len(outputs)]


def _evaluate(outputs: Sequence[UOp], trace: Trace, weak: Sequence[bool]) -> list[Any]:
    order = list(walk(outputs))
    if any(node.op in LOOPS for node in order):
        outputs = tidy(outputs, order)
        order = list(walk(outputs))
    used = [node for node in order if node.op is Op.LEAF]
    outer = innermost([leaf.arg.value for leaf in used])
    if outer is not None:
        replace = {leaf: lift(leaf.arg.value, outer) for leaf in used}
        unknown = {n for n in used if n.arg.value.trace is not None and not n.arg.value.known}
        if unknown:
            for node in order:
                if not unknown.isdisjoint(node.src):
                    unknown.add(node)
        return [
            runtime().wrap(new, outer, old not in unknown, is_weak, True)
            for old, new, is_weak in zip(
                outputs, substitute(outputs, replace, order), weak, strict=True
            )
        ]
    if any(node.op is Op.FUNCTION for node in order) and has(outputs, Op.CUSTOM):
        outputs = tidy(inlined(outputs))
    # An output that is an array already is that array, or at least shares its memory.
    values = {u: u.arg.value for u in outputs if u.op is Op.LEAF}
    rest = list(dict.fromkeys(u for u in outputs if u not in values))
    if trace.concretized:
        values |= {u: run_now(u, trace) for u in rest}
        trace.memo.clear()
    elif rest:
        jaxpr, captured = close(rest, [])
        values |= zip(
            rest, runtime().call(jaxpr, [leaf.arg.value for leaf in captured]), strict=True
        )
    return [runtime().weaken(values[u], is_weak) for u, is_weak in zip(outputs, weak, strict=True)]


def call(
    jaxpr: Jaxpr, operands: Sequence[Value], weak: Sequence[bool], cells: Sequence[Cell] = ()
) -> list[Any]:
    """A closed function on Values: inlined into the innermost trace among them, or run now.

    The values of `cells` are among the operands, and its first outputs are the next ones, which are
    not among the results.
    """
    trace, weak = innermost(operands), [*(False for _ in cells), *weak]
    if trace is None:
        results = runtime().call(jaxpr, operands)
        results = [runtime().weaken(x, is_weak) for x, is_weak in zip(results, weak, strict=True)]
    else:
        known = all(value.trace is None or value.known for value in operands)
        uops = inline(jaxpr, [lift(value, trace) for value in operands])
        results = [
            runtime().wrap(u, trace, known, w, True) for u, w in zip(uops, weak, strict=True)
        ]
    for cell, value in zip(cells, results):
        cell.write(value)
    return results[len(cells) :]


def call_host(host: Host, operands: Sequence[Value]) -> list[Any]:
    """The results of a function of the host, called now, on concrete Values."""
    results = [np.empty(shape, dtype) for shape, dtype in host.results]
    host.run(results, [runtime().read(x) for x in operands])
    return [runtime().asarray(x) for x in results]


def run_now(uop: UOp, trace: Trace) -> Any:
    """The value of one node of a known trace, op by op, each node once."""
    memo = trace.memo
    for node in walk([uop], lambda node: node not in memo):
        if node in memo:
            continue
        if node.op is Op.LEAF:
            value = node.arg.value
            memo[node] = value if value.trace is None else run_now(value.uop, value.trace)
        elif node.op is Op.FUNCTION:
            continue
        elif node.op is Op.HOST:
            memo[node] = call_host(node.arg, [memo[s] for s in node.src])
        elif node.op in SEVERAL:
            jaxpr, operands = alone(node)
            memo[node] = runtime().call(jaxpr, [memo[s] for s in operands])
        elif node.op is Op.GET:
            memo[node] = memo[node.src[0]][node.arg]
        else:
            memo[node] = runtime().execute(node.op, node.arg, [memo[s] for s in node.src])
    return memo[uop]
