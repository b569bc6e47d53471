"""Executor: programs are run on concrete arrays, on the devices that these are on.

This module is the runtime that the language asks: see `tfn.trace.runtime`.  Two caches::

    (op, argument, shapes and dtypes)  ->  its Jaxpr and native entry      eager operations
    (function, device)                 ->  the loaded program              programs: see `loading`
"""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Sequence
from itertools import repeat
from math import prod
from typing import Any

from tfn import eager, lower
from tfn._support import events
from tfn._support.cache import Cache
from tfn.array import Array
from tfn.config import config
from tfn.eager import constants, nans, operators, platforms
from tfn.eager.arrays import concrete, traced
from tfn.eager.arrays import weaken as weaken
from tfn.eager.conversion import adopt as adopt
from tfn.eager.conversion import asarray as asarray
from tfn.eager.conversion import duplicate as duplicate
from tfn.eager.conversion import read as read
from tfn.eager.loading import cache_info as cache_info
from tfn.eager.loading import check_layouts as check_layouts
from tfn.eager.loading import check_place as check_place
from tfn.eager.loading import clear_caches as clear_caches
from tfn.eager.loading import compile_stats as compile_stats
from tfn.eager.loading import load as load
from tfn.eager.loading import place as place
from tfn.eager.loading import ready as ready
from tfn.eager.registry import device as device
from tfn.eager.registry import synchronize as synchronize
from tfn.errors import OutOfMemoryError, place_of, user_place
from tfn.hw.buffer import Buffer
from tfn.hw.device import EntryForm, EntryInput, EntryOutput
from tfn.hw.memory import COPY_TWICE_MAX_BYTES
from tfn.lower.program import Footprint, Space
from tfn.trace import oracle, runtime, source_lines, traces
from tfn.trace.argument import Param
from tfn.trace.aval import kind_of
from tfn.trace.build import several
from tfn.trace.jaxpr import Jaxpr, function, param
from tfn.trace.op import SEVERAL, Op
from tfn.trace.runtime import Entry
from tfn.trace.uop import UOp

Ready = tuple[Jaxpr, Entry | None]


def ready_bytes(ready: Ready) -> int:
    """Memory of a cached eager operation, estimated."""
    return runtime.ENTRY_BYTES + compile_stats(ready[0]).size_bytes


_EAGER: Cache[Ready] = Cache("eager operations", ready_bytes)  # by op, argument, kinds, device
_YOUNG = _EAGER.young


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
            runtime.check_share(alone, new_bytes)
    in_place = lower.in_place.in_place_outputs(program, sorted(donated))
    given = (*given, *loaded.kept(given[len(given) - jaxpr.captured :], platform))
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
    """A native function that runs a Jaxpr on arguments as they are; see `runtime.Runtime`."""
    if config.debug_nans or (platforms.CONTROLLERS and platforms.controller(kinds, on)):
        return None
    jaxpr, platform, alone, results = place(jaxpr, kinds, on)
    if alone is not None and config.memory_limit_bytes and config.devices > 1:
        return None  # each call checks the memory of the device
    loaded, run = ready(jaxpr, platform, name, alone)
    program = loaded.program
    kept = loaded.kept(captured[len(captured) - jaxpr.captured :], platform)
    captured = (*captured, *kept)
    weakness = (*given, *[None] * len(captured))
    kinds = [*kinds, *(x.kind for x in kept)] if kinds else []
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
    return run.entry(
        EntryForm(inputs, outputs, takes, gives, captured, keep=(loaded, known), number=number)
    )


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
        known = constants.computed(jaxpr, operands)
        if known is not None:
            results = list(map(weaken, known, repeat(weak)))
            return results if op in SEVERAL else results[0]
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


def wrap(
    uop: UOp, trace: traces.Trace, known: bool, weak: bool = False, derived: bool = False
) -> Array:
    """An Array that is a value of a running trace; see `runtime.Runtime`."""
    if traces.LAYOUTS.exist:
        eager.layout_rules.check(uop, trace, derived)
    place = place_of(uop.op)
    trace.places.setdefault(uop, place)
    if source_lines.recorded():
        # `place` may be that of another frame of the user, from which the present one was called.
        source_lines.cover([uop], user_place())
    return traced(uop, trace, known, weak)
