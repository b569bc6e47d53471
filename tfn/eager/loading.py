"""Loading: a Jaxpr is lowered, compiled and loaded once, for the devices of its arguments."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import Any
from weakref import WeakValueDictionary, ref

from tfn import eager, lower
from tfn._support import cache, events
from tfn._support.cache import Cache, CacheInfo
from tfn.array import Array
from tfn.config import config, watch
from tfn.eager import registry
from tfn.eager.arrays import concrete
from tfn.hw.compile.object_cache import Counts
from tfn.hw.cpu.target import configured
from tfn.hw.device import Executable
from tfn.lower.program import Program
from tfn.trace import runtime, traces
from tfn.trace.aval import Kind, kind_of
from tfn.trace.digest import digest
from tfn.trace.inline import for_grid, inspects, names_devices, runnable
from tfn.trace.jaxpr import Jaxpr
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
        for name, current in registry.DEVICES.items()
        if (target := configured(current.target)) != current.target
    }
    if changed:
        registry.DEVICES.update(changed)
        clear_caches()


class Loaded:
    """A program ready to run, its tables, and the statistics of making it."""

    __slots__ = (
        "__weakref__",
        "_made",
        "_prelude",
        "agreed",
        "compile_stats",
        "program",
        "run",
        "tables",
    )

    def __init__(
        self,
        program: Program,
        run: Executable,
        compile_stats: runtime.CompileStats,
        tables: Sequence[Array] = (),
        prelude: Executable | None = None,
    ) -> None:
        self.program, self.run, self.compile_stats = program, run, compile_stats
        self.tables = tables
        self.agreed: set[Any] = set()  # messages with which all processes have it
        self._prelude = prelude
        self._made: list[ref[Array]] = []  # captured arrays, then what was made of them

    def kept(self, captured: Sequence[Array], platform: str | None) -> list[Array]:
        """The last inputs of the program: its tables, and results of its prelude.

        The caller keeps them; while they live, a call for the same captured arrays gets the same.
        """
        if self._prelude is None:
            return [*self.tables]
        known = [x for made in self._made if (x := made()) is not None]
        same = len(known) == len(self._made) and all(a is b for a, b in zip(known, captured))
        if known and same:
            return [*self.tables, *known[len(captured) :]]
        prelude = self.program.prelude
        assert prelude is not None
        inputs = [x.concrete().buffer for x in (*captured, *self.tables)]
        results = _results(prelude, self._prelude, inputs, platform)
        self._made = [*map(ref, (*captured, *results))]
        return [*self.tables, *results]


# By function and device: programs that are referred to anywhere, and those used recently.
_LOADED: WeakValueDictionary[tuple[Jaxpr, str], Loaded] = WeakValueDictionary()

_RECENT: Cache[Loaded] = Cache("programs", lambda loaded: loaded.compile_stats.size_bytes)


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
    """See `runtime.Runtime`."""
    if not traces.LAYOUTS.exist or all(kind.sharding is None for kind in kinds):
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
    return _loaded(_runnable(jaxpr, platform)[0], platform)


def _runnable(jaxpr: Jaxpr, platform: str | None) -> tuple[Jaxpr, tuple[Any, ...]]:
    """See `trace.inline.runnable`; on a grid, a routine that has a program is that."""
    plain, hosts = runnable(jaxpr.function)
    if any(hasattr(h, "grid_program") for h in hosts) and registry.device(platform).target.grid:
        plain, hosts = runnable(for_grid(jaxpr.function) or jaxpr.function)
    return replace(jaxpr, function=plain), hosts


def _loaded(jaxpr: Jaxpr, platform: str | None, name: str = "") -> Loaded:
    on = registry.device(platform)
    key = jaxpr, on.name
    loaded = _RECENT.find(key)
    if loaded is None:
        loaded = _LOADED.get(key)
        if loaded is not None:
            _RECENT.keep(key, loaded)
    if loaded is None:
        begin_ns = time.perf_counter_ns()
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
        prelude = None if program.prelude is None else on.load(program.prelude)
        tables = [] if program.tables is None else _computed(program.tables, platform)
        after = on.compiler.counts if on.compiler else before
        size_bytes = PROGRAM_BYTES + len(program.text)
        size_bytes += sum(len(kernel.text) for kernel in program.kernels)
        size_bytes += sum(x.size * x.dtype.itemsize for x in tables)
        compile_stats = runtime.CompileStats(
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
        loaded = Loaded(program, run, compile_stats, tables, prelude)
        _LOADED[key] = _RECENT.keep(key, loaded)
    return loaded


def _computed(function: UOp, platform: str | None) -> list[Array]:
    """The results of a function without parameters."""
    loaded = _loaded(Jaxpr(function), platform)
    return _results(loaded.program, loaded.run, [], platform)


def _results(
    program: Program, run: Executable, inputs: Sequence[Any], platform: str | None
) -> list[Array]:
    """The results of a program in memory of their own."""
    memory, types = registry.device(platform).memory, program.outputs
    sizes = [prod(shape) * dtype.itemsize for shape, dtype in types]
    memory.check_room(sum(sizes) + program.footprint.temporary_bytes)
    outputs = [*map(memory.allocate, sizes)]
    run(inputs, outputs)
    return [concrete(b, s, d) for b, (s, d) in zip(outputs, types, strict=True)]


def ready(
    jaxpr: Jaxpr, platform: str | None = None, name: str = "", alone: Any = None
) -> tuple[Loaded, Executable]:
    """The program of a Jaxpr, and its executable with the Jaxpr's host callbacks bound.

    A program that is committed to one device of several runs on the threads of this one.

    Raises:
        ProgramMismatchError: if it has messages, and other processes are about to run another one.
    """
    plain, hosts = _runnable(jaxpr, platform)
    loaded = _loaded(plain, platform, name)
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


def clear_caches() -> None:
    """Drop every trace, program and kernel of this process; arrays, and the caches on disk, stay.

    Example:
        >>> import tfn
        >>> tfn.clear_caches()
        >>> sum(tfn.run.cache_info().entries.values())
        0
    """
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


def compile_stats(jaxpr: Jaxpr, kinds: Sequence[Any] = (), on: Any = None) -> runtime.CompileStats:
    """Statistics of making the program of a Jaxpr; all zero if none has been made."""
    jaxpr, platform, _, _ = place(jaxpr, kinds, on)
    loaded = _LOADED.get((_runnable(jaxpr, platform)[0], platform or config.device))
    return loaded.compile_stats if loaded else runtime.CompileStats()


def _unlowered(jaxpr: Jaxpr) -> Program:
    """A program without code, for a device that evaluates functions."""
    inputs = tuple((p.shape, p.dtype) for p in jaxpr.params)
    outputs = tuple((u.shape, u.dtype) for u in jaxpr.outputs)
    return Program("main", jaxpr.function, (), 0, inputs, outputs, (), 0, 0, "", False)
