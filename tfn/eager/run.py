"""Executor: a Jaxpr is lowered, compiled and loaded once, and then run on the default device.

Two caches::

    (op, argument, shapes and dtypes)  ->  its Jaxpr and native entry      eager operations
    (function, device)                 ->  the loaded program              programs
"""

from __future__ import annotations

import gc
import sys
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import repeat
from math import prod
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from tfn import dtypes, eager, lower
from tfn._support import cache, events
from tfn._support.cache import Cache, CacheInfo
from tfn.array import Array
from tfn.config import config, watch
from tfn.eager import nans, operators, platforms
from tfn.eager.arrays import concrete, traced
from tfn.eager.arrays import weaken as weaken
from tfn.eager.registry import _DEVICES as _DEVICES
from tfn.eager.registry import device as device
from tfn.errors import ArgumentError, OutOfMemoryError, place_of, user_place
from tfn.hw.buffer import Buffer
from tfn.hw.compile.object_cache import Counts
from tfn.hw.cpu.target import configured
from tfn.hw.device import EntryInput, EntryOutput, Executable
from tfn.hw.memory import COPY_TWICE_MAX_BYTES, unshared
from tfn.lower.program import Footprint, Program, Space
from tfn.trace import bind, oracle, source_lines
from tfn.trace.argument import Param
from tfn.trace.aval import Kind, kind_of
from tfn.trace.bind import Entry
from tfn.trace.build import several
from tfn.trace.digest import digest
from tfn.trace.inline import for_grid, inspects, names_devices, runnable
from tfn.trace.jaxpr import Jaxpr, function, param
from tfn.trace.op import SEVERAL, Op
from tfn.trace.processes import Message, processes
from tfn.trace.uop import UOp

PROGRAM_BYTES = 60_000
"""Memory of a program beside its texts: 35 KB of LLVM for a library, pages of code, graphs."""


def _reconfigure() -> None:
    """Changes the targets of all devices as the settings say; what was made for others is dropped.

    Arrays stay, and so do memories and queues.
    """
    changed = {
        name: replace(current, target=target)
        for name, current in _DEVICES.items()
        if (target := configured(current.target)) != current.target
    }
    if changed:
        _DEVICES.update(changed)
        forget()


class Loaded:
    """A program ready to run, its tables, and the statistics of making it."""

    __slots__ = ("__weakref__", "agreed", "compile_stats", "program", "run", "tables")

    def __init__(
        self,
        program: Program,
        run: Executable,
        compile_stats: bind.CompileStats,
        tables: Sequence[Array] = (),
    ) -> None:
        self.program, self.run, self.compile_stats = program, run, compile_stats
        self.tables = tables
        self.agreed: set[Any] = set()  # messages with which all processes have it


# By function and device: programs that are referred to anywhere, and those used recently.
_LOADED: WeakValueDictionary[tuple[UOp, str], Loaded] = WeakValueDictionary()
_RECENT: Cache[Loaded] = Cache("programs", lambda loaded: loaded.compile_stats.size_bytes)

Ready = tuple[Jaxpr, Entry | None]


def ready_bytes(ready: Ready) -> int:
    """Memory of a cached eager operation, estimated."""
    return bind.ENTRY_BYTES + compile_stats(ready[0]).size_bytes


_EAGER: Cache[Ready] = Cache("eager operations", ready_bytes)  # by op, argument, kinds, device
_YOUNG = _EAGER.young


@contextmanager
def undisturbed() -> Iterator[None]:
    """Switches the garbage collector off: lowering makes many objects, and no garbage."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


Placed = tuple[Jaxpr, str | None, Any, "Sequence[Kind] | None"]
"""A program, its platform, its single device, the kinds of its results: `placement.Placed`."""


def place(jaxpr: Jaxpr, kinds: Sequence[Any] = (), on: Any = None) -> Placed:
    """The program of a function for arguments of these kinds, on the devices that they are on.

    Raises:
        DeviceError: for arguments on different devices.
    """
    for kind in kinds:
        if kind.sharding is not None:
            return eager.placement.placed(jaxpr, kinds, on)
    if on is not None or names_devices(jaxpr.function) or inspects(jaxpr.function):
        unplaced = [kind_of(p.shape, p.dtype) for p in jaxpr.params]
        return eager.placement.placed(jaxpr, unplaced, on)
    return jaxpr, None, None, None


def check_place(what: str, kinds: Sequence[Any]) -> None:
    """Check that arguments of these kinds can be used together, before anything is made for them.

    Raises:
        DeviceError: for arguments on different devices; `what` is the name of the function.
    """
    if any(kind.sharding is not None for kind in kinds):
        eager.placement.common_place(what, kinds)


def check_layouts(jaxpr: Jaxpr, kinds: Sequence[Any]) -> bool:
    """See `bind.Runtime`."""
    if not bind.LAYOUTS.exist or all(kind.sharding is None for kind in kinds):
        return True
    if eager.layout.is_resolved_outside():
        return False
    eager.layout_rules.check_jaxpr(jaxpr, kinds)
    return True


def load(jaxpr: Jaxpr, kinds: Sequence[Any] = (), on: Any = None) -> Loaded:
    """The program of a Jaxpr: lowered, compiled and loaded once.

    Args:
        jaxpr: of whole arrays.
        kinds: of its arguments, whose devices it is for; none for the default device.
        on: the shardings that the user has asked for, a `Request`.
    """
    jaxpr, platform, _, _ = place(jaxpr, kinds, on)
    return _loaded(_runnable(jaxpr.function, platform)[0], platform)


def _runnable(function: UOp, platform: str | None) -> tuple[UOp, tuple[Any, ...]]:
    """See `trace.inline.runnable`; on a grid, a routine that has a program is that."""
    plain, hosts = runnable(function)
    if any(hasattr(h, "grid_program") for h in hosts) and device(platform).target.grid:
        return runnable(for_grid(function) or function)
    return plain, hosts


def _loaded(function: UOp, platform: str | None, name: str = "") -> Loaded:
    on = device(platform)
    key = function, on.name
    loaded = _RECENT.find(key)
    if loaded is None:
        loaded = _LOADED.get(key)
        if loaded is not None:
            _RECENT.keep(key, loaded)
    if loaded is None:
        jaxpr, begin_ns = Jaxpr(function), time.perf_counter_ns()
        before = replace(on.compiler.counts) if on.compiler else Counts()
        with undisturbed(), lower.pipeline.announced(on.expect):
            if on.compiler:
                program = eager.program_cache.lower(jaxpr, on.target)
            else:
                program = _unlowered(jaxpr)
        lowered_ns = time.perf_counter_ns()
        name, said = name or program.name, f"{len(program.kernels)} kernels"
        events.add("lower", name, begin_ns, said, lowered_ns)
        run = on.load(program)
        tables = [] if program.tables is None else _computed(program.tables, platform)
        after = on.compiler.counts if on.compiler else before
        size_bytes = PROGRAM_BYTES + len(program.text)
        size_bytes += sum(len(kernel.text) for kernel in program.kernels)
        size_bytes += sum(x.size * x.dtype.itemsize for x in tables)
        compile_stats = bind.CompileStats(
            0,
            lowered_ns - begin_ns,
            time.perf_counter_ns() - lowered_ns,
            len(program.kernels),
            after.compiled - before.compiled,
            after.from_disk - before.from_disk,
            size_bytes,
        )
        origin = f"{compile_stats.compiled} compiled, {compile_stats.from_disk} from disk"
        events.add("compile", name, lowered_ns, origin)
        loaded = _LOADED[key] = _RECENT.keep(key, Loaded(program, run, compile_stats, tables))
    return loaded


def _computed(function: UOp, platform: str | None) -> list[Array]:
    """The results of a function without parameters."""
    loaded, memory = _loaded(function, platform), device(platform).memory
    types = loaded.program.outputs
    outputs = [memory.allocate(prod(shape) * dtype.itemsize) for shape, dtype in types]
    loaded.run([], outputs)
    return [concrete(b, s, d) for b, (s, d) in zip(outputs, types, strict=True)]


def ready(
    jaxpr: Jaxpr, platform: str | None = None, name: str = "", alone: Any = None
) -> tuple[Loaded, Executable]:
    """The program of a Jaxpr, and its executable with the Jaxpr's host callbacks bound.

    A program that is committed to one device of several runs on the threads of this one.

    Raises:
        ProgramMismatchError: if it has messages, and other processes are about to run another one.
    """
    function, hosts = _runnable(jaxpr.function, platform)
    loaded = _loaded(function, platform, name)
    run = loaded.run
    if alone is not None and config.devices > 1:
        run = run.on_share(alone.local_hardware_id)
    if not hosts:
        return loaded, run
    messages = tuple(
        [(i, h) for i, h in enumerate(hosts) if isinstance(h, Message) and not h.hosts.local]
    )
    if messages and messages not in loaded.agreed:
        _agree(loaded.program, messages, name)
        loaded.agreed.add(messages)
    return loaded, run.with_callbacks(hosts)


def _agree(program: Program, messages: Sequence[tuple[int, Message]], name: str) -> None:
    """Check that all processes have the same program, and exchange messages in the same order."""
    assert processes.agree is not None, "a program of many processes runs after initialize()"
    numbers = {number for number, _ in messages}
    slots = [getattr(call.host.run, "number", None) for call in program.host_calls]
    order = [slot for slot in slots if slot in numbers]
    first = messages[0][1]
    processes.agree(first.hosts, name, digest(program.function), repr((messages, order)))


def forget() -> None:
    """Drop every trace, program and kernel of this process; arrays stay."""
    cache.clear()
    _LOADED.clear()
    lower.pipeline.forget()


watch(_reconfigure)


def cache_info() -> CacheInfo:
    """The number and memory of the traces, programs and kernels that this process caches.

    The least recently used are dropped when all together take `config.cache_limit_bytes`.

    Example:
        >>> from tfn import run
        >>> info = run.cache_info()
        >>> info.size_bytes <= info.limit_bytes
        True
    """
    return cache.info()


def compile_stats(jaxpr: Jaxpr, kinds: Sequence[Any] = (), on: Any = None) -> bind.CompileStats:
    """Statistics of making the program of a Jaxpr; all zero if none has been made."""
    jaxpr, platform, _, _ = place(jaxpr, kinds, on)
    loaded = _LOADED.get((runnable(jaxpr.function)[0], platform or config.device))
    return loaded.compile_stats if loaded else bind.CompileStats()


def _unlowered(jaxpr: Jaxpr) -> Program:
    """A program without code, for a device that evaluates functions."""
    inputs = tuple((p.shape, p.dtype) for p in jaxpr.params)
    outputs = tuple((u.shape, u.dtype) for u in jaxpr.outputs)
    return Program("main", jaxpr.function, (), 0, inputs, outputs, (), 0, 0, "", False)


def call(
    jaxpr: Jaxpr,
    operands: Sequence[Array],
    donated: frozenset[int] = frozenset(),
    on: Any = None,
    name: str = "",
) -> list[Array]:
    """Run a closed function, compiled as a whole, on concrete arrays, on the devices they are on.

    Donated operands are deleted when it begins, whether it succeeds or not: their memory may become
    that of results, if no other array shares it.  It runs on the devices that the `Request` on
    asks for if no operand is committed to any.  The profiler knows the call by its name.

    Raises:
        OutOfMemoryError: before anything runs.
        DeviceError: for operands on different devices.
        NanError: for a NaN in a result, if `config.debug_nans` is on.
    """
    if not config.debug_nans:
        return _call(jaxpr, operands, donated, on, name)
    try:
        results = _call(jaxpr, operands, on=on)
        if nans.any_nan(results):
            raise nans.blame(jaxpr, operands, _call)
        return results
    finally:
        for i in donated:
            operands[i].delete()


def _call(
    jaxpr: Jaxpr,
    operands: Sequence[Array],
    donated: frozenset[int] = frozenset(),
    on: Any = None,
    name: str = "",
) -> list[Array]:
    if platforms.CONTROLLERS and (
        elsewhere := platforms.controller([x.kind for x in operands], on)
    ):
        return elsewhere.call(jaxpr, operands, donated, on, name)
    jaxpr, platform, alone, kinds = place(jaxpr, [x.kind for x in operands], on)
    given = eager.memories.gathered(operands, platform) if platform else operands
    loaded, run = ready(jaxpr, platform, name, alone)
    program, memory = loaded.program, device(platform).memory
    if config.memory_limit_bytes:
        new_bytes = lower.in_place.footprint(program, sorted(donated)).new_bytes
        memory.check_room(new_bytes)
        if alone is not None:
            bind.check_share(alone, new_bytes)
    in_place = lower.in_place.in_place_outputs(program, sorted(donated))
    given = (*given, *loaded.tables)
    inputs: list[Buffer] = [x.concrete().buffer for x in given]  # type: ignore[misc]
    aliases = dict(program.aliases)
    outputs: list[Buffer] = []
    for i, (shape, dtype) in enumerate(program.outputs):
        slot = aliases.get(i)
        if slot is None and i in in_place and _sole(inputs, in_place[i]):
            outputs.append(inputs[in_place[i]])
        elif slot is None:
            outputs.append(memory.allocate(prod(shape) * dtype.itemsize))
        else:
            outputs.append((inputs if slot.space is Space.INPUT else outputs)[slot.at])
    for i in donated:
        operands[i].delete()
    begin_ns = time.perf_counter_ns()
    run(inputs, outputs)
    name = name or _name(jaxpr)
    events.use("read", name, *inputs)
    events.use("write", name, *[buffer for i, buffer in enumerate(outputs) if i not in aliases])
    events.add("program", name, begin_ns)
    if kinds is not None:
        return [concrete(b, k.shape, k.dtype, False, k.sharding) for b, k in zip(outputs, kinds)]
    return [concrete(b, s, d) for b, (s, d) in zip(outputs, program.outputs)]


def _name(jaxpr: Jaxpr) -> str:
    """The name of an eager operation in profiles: that of its last op."""
    outputs = jaxpr.outputs
    return str(outputs[0].op.value) if outputs else "nothing"


def _sole(buffers: Sequence[Buffer], at: int) -> bool:
    """Whether a buffer belongs to one array alone, which was passed once."""
    buffer = buffers[at]
    own_references = 4  # the array, the list, the name above, the argument below
    return buffer.exclusive and sys.getrefcount(buffer) == own_references


def footprint(
    jaxpr: Jaxpr,
    donated: frozenset[int] = frozenset(),
    kinds: Sequence[Any] = (),
    on: Any = None,
) -> Footprint:
    """The memory that a run takes on the devices of its arguments, known before it runs.

    Results that take the memory of donated arguments count as shared.
    """
    return lower.in_place.footprint(load(jaxpr, kinds, on).program, sorted(donated))


def entry(
    jaxpr: Jaxpr,
    takes: Sequence[Any],
    gives: Any,
    given: Sequence[bool | None],
    made: Sequence[bool],
    captured: Sequence[Array] = (),
    donated: frozenset[int] = frozenset(),
    kinds: Sequence[Any] = (),
    on: Any = None,
    name: str = "",
) -> Entry | None:
    """A native function that runs a Jaxpr on arguments as they are; see `bind.Runtime`."""
    if config.debug_nans or (platforms.CONTROLLERS and platforms.controller(kinds, on)):
        return None
    jaxpr, platform, alone, results = place(jaxpr, kinds, on)
    if alone is not None and config.memory_limit_bytes and config.devices > 1:
        return None  # each call checks the memory of the device
    loaded, run = ready(jaxpr, platform, name, alone)
    program = loaded.program
    captured = (*captured, *loaded.tables)
    weakness = (*given, *[None] * len(captured))
    kinds = [*kinds, *(x.kind for x in loaded.tables)] if kinds else []
    kinds = kinds or [kind_of(*kind) for kind in program.inputs]
    results = results or [kind_of(*kind) for kind in program.outputs]
    inputs = [
        EntryInput(kind, weak, i in donated)
        for i, (kind, weak) in enumerate(zip(kinds, weakness, strict=True))
    ]
    aliases = {
        i: slot.at if slot.space is Space.INPUT else len(inputs) + slot.at
        for i, slot in program.aliases
    }
    in_place = lower.in_place.in_place_outputs(program, sorted(donated))
    outputs = [
        EntryOutput(
            kind,
            weak,
            lower.in_place.size_bytes(program.outputs[i]),
            aliases.get(i, -1),
            in_place.get(i, -1),
        )
        for i, (kind, weak) in enumerate(zip(results, made, strict=True))
    ]
    number, known = events.number_of(name or _name(jaxpr), weakref.ref(loaded))
    keep = loaded, known
    return run.entry(inputs, outputs, takes, gives, captured, keep=keep, number=number)


def execute(op: Op, arg: object, operands: Sequence[Array], weak: bool = False) -> Any:
    """Run one operation on concrete arrays; its program is cached by shapes and dtypes."""
    key = op, arg, weak, tuple([x.kind for x in operands]), config.device
    jaxpr, enter = _YOUNG.get(key) or _EAGER.find(key) or (None, None)
    if enter is not None:
        result = enter(*operands)
        if result is not NotImplemented:
            if operators.NOTES:
                operators.note(enter, operands, result)
            return result
    keeps = True
    if jaxpr is None:
        check_place(op.value, key[3])
        params = tuple(Param(i, x.shape, x.dtype) for i, x in enumerate(operands))
        node = UOp(op, tuple(map(param, params)), arg)
        jaxpr = Jaxpr(function(several(node) if op in SEVERAL else [node], params))
        keeps = check_layouts(jaxpr, key[3])
    results = list(map(weaken, call(jaxpr, operands, name=op.value), repeat(weak)))
    if enter is None and keeps:
        takes, gives = range(len(operands)), range(len(results))
        result_tree = list(gives) if op in SEVERAL else 0
        weakness = [None] * len(takes), [weak] * len(gives)
        enter = entry(jaxpr, takes, result_tree, *weakness, kinds=key[3], name=op.value)
        _EAGER.keep(key, (jaxpr, enter))
    if operators.NOTES:
        operators.note(enter, operands, results[0])
    return results if op in SEVERAL else results[0]


LARGEST_FLOAT16 = 65504.0
"""The largest number that every floating dtype holds."""


def check_room(size_bytes: int) -> None:
    """Check that the default device has room for `size_bytes` more.

    Raises:
        OutOfMemoryError: if it has none.
    """
    device().memory.check_room(size_bytes)


def evaluate(uop: UOp) -> Array:
    """The value of a graph that depends on no array, computed by the oracle: nothing is compiled.

    Raises:
        OutOfMemoryError: before anything is computed.
    """
    size_bytes = prod(uop.shape) * uop.dtype.itemsize
    if size_bytes > COPY_TWICE_MAX_BYTES:
        check_room(size_bytes)
    try:
        (value,) = oracle.evaluate([uop], {})
    except MemoryError:
        raise OutOfMemoryError(
            f"{size_bytes:,} bytes, and as much to compute them, do not fit",
            got=f"an array of shape {uop.shape}",
            hint="delete arrays, or compute within tfn.jit, which keeps no intermediate array",
        ) from None
    return asarray(value)


def asarray(value: Any, dtype: Any = None) -> Array:
    """An Array from an Array, a NumPy array or scalar, or a Python scalar (which is weak).

    NumPy arrays are copied, always: an Array never changes, and they may.

    Raises:
        ArgumentError: for anything else, lists included.
        NumberError: for a Python scalar that the dtype does not have.
    """
    if isinstance(value, Array):
        return value
    requested = None if dtype is None else dtypes.canonical(dtype)
    if isinstance(value, np.ndarray):
        return _copied(value, requested)
    if isinstance(value, (bool, int, float, complex)):
        kind = requested or dtypes.number(value)
        number = dtypes.as_number_of(kind, value)
        if kind.kind in "iu":
            data = np.array(number, kind)
        elif abs(number) <= LARGEST_FLOAT16:
            data = np.asarray(number).astype(kind)
        else:
            with np.errstate(over="ignore"):  # numbers that are too large become infinite
                data = np.asarray(number).astype(kind)
        weak = requested is None and not isinstance(value, bool)
        return concrete(device().memory.copy(data), (), kind, weak)
    if hasattr(value, "__jax_array__"):  # the protocol of JAX's libraries
        return asarray(value.__jax_array__(), dtype)
    if hasattr(value, "__array__"):
        return _copied(np.asarray(value), requested)
    raise ArgumentError(
        f"{type(value).__name__} is not an array or a number",
        got=repr(value)[:80],
        hint="use tfn.numpy.array for lists"
        if isinstance(value, (list, tuple))
        else "pass an array or a number",
    )


def _copied(data: np.ndarray[Any, Any], requested: dtypes.DType | None) -> Array:
    """An Array of NumPy's data, in the dtype requested, or in their own."""
    kind = requested or dtypes.canonical(data.dtype)
    if data.dtype != kind:
        data = data.astype(kind)
    return concrete(device().memory.copy(data), data.shape, kind)


def adopt(data: np.ndarray[Any, Any]) -> Array:
    """An Array that shares the memory of a NumPy array, and sees what is written there.

    Raises:
        ArgumentError: if the memory cannot be shared.
    """
    kind = dtypes.canonical(data.dtype)
    if data.dtype != kind:
        raise unshared(f"it holds {data.dtype!r}, not {kind!r}")
    return concrete(device().memory.adopt(data), data.shape, kind)


def read(x: Array) -> np.ndarray[Any, Any]:
    """The data of a concrete Array, as a read-only NumPy array that shares its memory."""
    assert x.buffer is not None and x.kind is not None
    if x.kind.sharding is not None:
        return eager.stacks.read(x, device(eager.stacks.platform_of(x)).memory)
    return device().memory.read(x.buffer, x.shape, x.dtype)


def duplicate(x: Array) -> Array:
    """A concrete Array in memory of its own."""
    return eager.stacks.duplicate(x, device(eager.stacks.platform_of(x)).memory)


def wrap(
    uop: UOp, trace: bind.Trace, known: bool, weak: bool = False, derived: bool = False
) -> Array:
    """An Array that is a value of a running trace; see `bind.Runtime`."""
    if bind.LAYOUTS.exist:
        eager.layout_rules.check(uop, trace, derived)
    place = place_of(uop.op)
    trace.places.setdefault(uop, place)
    if source_lines.enabled():
        # `place` may be that of another frame of the user, from which the present one was called.
        source_lines.cover([uop], user_place())
    return traced(uop, trace, known, weak)
