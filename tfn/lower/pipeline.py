"""Compiler pipeline: a function goes through the passes and becomes a Program.

`lower` drives the table of `passes.py`::

    Jaxpr  ->  kernels over ranges       once per function
           ->  split, linearized, text   once per distinct kernel, process and target
           ->  Program                   memory is planned, and the driver is rendered

The text is LLVM IR unless another `Language` is passed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cache, partial
from math import prod
from typing import Protocol

from tfn._support.cache import Cache
from tfn._support.lazy import by_name
from tfn.errors import CompileError, SplitError
from tfn.lower.codegen.legalize import legalized
from tfn.lower.codegen.partial_vectors import split_partial_vectors
from tfn.lower.codegen.render import driver
from tfn.lower.codegen.sort import sort
from tfn.lower.fuse import boundaries, prelude, ranges
from tfn.lower.graph import complex_pairs, constants
from tfn.lower.index import simplify
from tfn.lower.languages import LLVM, Language, architecture, language_of, no_driver, passes_of
from tfn.lower.loops import heuristics, loop_nest, opt_ops
from tfn.lower.memory import schedule
from tfn.lower.memory.planner import Schedule
from tfn.lower.passes import Passes, tile_count
from tfn.lower.program import (
    CachedKernel,
    Kernel,
    Program,
    Slot,
    Space,
    all_launches,
    is_worth_threads,
)
from tfn.lower.target.grid import local_layout
from tfn.lower.target.target import Target
from tfn.trace.argument import CustomKernel
from tfn.trace.digest import digest
from tfn.trace.jaxpr import Jaxpr
from tfn.trace.op import Op
from tfn.trace.uop import UOp

CUSTOM_KERNEL_BYTES_PER_NS = 10
"""Bytes of arguments and results that a custom kernel is assumed to process in a nanosecond.

Its text is not analysed; 10 GB/s is what a core streams from memory.
"""

KERNEL_BYTES = 10_000
"""Estimated bytes of a kernel beside its text: its body, before and after it was split."""

_PIPELINED: Callable[[str, str, int], str] = by_name("tfn.lower.pack.pipelined.pipelined")

_KERNELS: Cache[Kernel] = Cache("kernels", lambda kernel: KERNEL_BYTES + len(kernel.text))


def lower(
    jaxpr: Jaxpr, target: Target, language: Language | None = None, hoist: bool = False
) -> Program:
    """The program of a function for a target, in its own language unless another is passed.

    No device is needed.  With `hoist`, costly values that depend on no argument become inputs, the
    `tables`, and so do values that depend on those and on captured arrays: the `prelude` has them.
    """
    language = language or language_of(target)
    if not hoist:
        return program(jaxpr, scheduled(jaxpr, target, language), language)
    reduced, tables = without_tables(jaxpr, target, language)
    target = _restricted(target, language)
    real = language.passes.complex_pairs(reduced.function, target)
    lowering, first = _lowering(language), len(jaxpr.params) - jaxpr.captured
    late, early = prelude.split(lowering.cut(real, target), first)
    before = None
    if early is not None:
        plan = schedule.schedule(early, target, lowering, [True] * len(early.src), is_cut=True)
        before = replace(program(Jaxpr(early), plan, language), function=jaxpr.function)
    plan = schedule.schedule(late, target, lowering, _is_written(real), is_cut=True)
    return program(jaxpr, plan, language, reduced, tables, before)


def with_bodies(program: Program, target: Target) -> Program:
    """The program with the bodies of its kernels, which one from the disk has not: it is lowered.

    Both have the same kernels and steps, and one name.
    """
    if all(kernel.body is not None for kernel in program.kernels):
        return program
    hoist = program.tables is not None or program.prelude is not None
    return lower(Jaxpr(program.function, program.captured), target, hoist=hoist)


def without_tables(jaxpr: Jaxpr, target: Target, language: Language) -> tuple[Jaxpr, UOp | None]:
    """A function whose last parameters are its tables, and the function of those, if any."""
    reduced, tables = constants.hoist(
        language.passes.complex_pairs(jaxpr.function, _restricted(target, language))
    )
    return (jaxpr, None) if tables is None else (Jaxpr(reduced), tables)


def aliases(jaxpr: Jaxpr) -> tuple[tuple[int, Slot], ...]:
    """The outputs that are an input, or an earlier output, and what they are."""
    aliased: list[tuple[int, Slot]] = []
    first: dict[UOp, int] = {}
    for i, u in enumerate(jaxpr.outputs):
        if u.op is Op.PARAM:
            aliased.append((i, Slot(Space.INPUT, u.arg.index)))
        elif first.setdefault(u, i) != i:
            aliased.append((i, Slot(Space.OUTPUT, first[u])))
    return tuple(aliased)


def scheduled(jaxpr: Jaxpr, target: Target, language: Language | None = None) -> Schedule:
    """The steps of a function, with an address for every value."""
    language = language or language_of(target)
    target = _restricted(target, language)
    real = language.passes.complex_pairs(jaxpr.function, target)
    return schedule.schedule(real, target, _lowering(language), _is_written(real))


def _is_written(function: UOp) -> list[bool]:
    """For each output of a function, whether it is no input and no earlier output."""
    aliased = dict(aliases(Jaxpr(function)))
    return [i not in aliased for i in range(len(function.src))]


@cache
def _lowering(language: Language) -> schedule.Lowering:
    """The parts of a language: always the same object, since schedules are cached by it."""
    is_driven = language.driver is not no_driver
    return schedule.Lowering(
        language.passes.boundaries, partial(kernel, language=language), is_driven
    )


def program(
    jaxpr: Jaxpr,
    plan: Schedule,
    language: Language = LLVM,
    reduced: Jaxpr | None = None,
    tables: UOp | None = None,
    before: Program | None = None,
) -> Program:
    """The scheduled steps, with the driver that runs them.

    Their last inputs are the `tables`, then the outputs of the prelude, which runs `before`.

    Of a `reduced` function, an output may be a table.
    """
    routine = plan.routine
    steps = routine.steps
    inputs = [(p.shape, p.dtype) for p in jaxpr.params]
    inputs += [(u.shape, u.dtype) for u in (tables.src if tables else ())]
    inputs += before.outputs if before else ()
    launches = tuple(all_launches(steps))
    name, text = language.name_by_digest(
        "p", lambda name: language.driver(name, steps, len(inputs))
    )
    return Program(
        name,
        jaxpr.function,
        steps,
        routine.work_ns,
        tuple(inputs),
        tuple((u.shape, u.dtype) for u in jaxpr.outputs),
        aliases(Jaxpr(complex_pairs.lower_complex((reduced or jaxpr).function))),
        routine.arena_bytes,
        driver.sync_bytes(launches),
        text,
        is_worth_threads(steps),
        tables,
        jaxpr.captured,
        before,
    )


def kernel(body: UOp, target: Target, language: Language = LLVM) -> Kernel:
    """The kernel of a body over ranges, lowered once per process, target and language."""
    key = body, target, language
    cached = _KERNELS.find(key)
    if cached is None:
        cached = _KERNELS.keep(key, replace(_load_or_lower(*key), source=body))
        for listener in _LISTENERS:
            listener(cached)
    return cached


_LISTENERS: list[Callable[[Kernel], None]] = []


@contextmanager
def announced(listener: Callable[[Kernel], None]) -> Iterator[None]:
    """A block in which each kernel that is new to this process is passed on as soon as it is there.

    Those that another thread lowers meanwhile are passed on too.
    """
    _LISTENERS.append(listener)
    try:
        yield
    finally:
        _LISTENERS.remove(listener)


def _load_or_lower(body: UOp, target: Target, language: Language) -> Kernel:
    """The kernel from the disk cache; or else lowered, and stored there."""
    # An entry is the text and the opt-ops of a nest, so sorts and custom kernels have none.
    # It is found by body and target, so it is what the passes of the target make of these.
    own = language.kernel is LLVM.kernel and language.passes is passes_of(target)
    if not _CACHES or not own or body.op is not Op.SINK:
        return _lower_kernel(body, target, language)
    disk, body_digest = _CACHES[0], digest(body)
    cached = disk.find(body_digest, target)
    if cached is not None:
        with suppress(SplitError):  # stored by another version
            opts = opt_ops.from_rows(cached.opts)
            return Kernel(cached.name, body, opts, cached.tiles, cached.text, cached.work_ns)
    lowered = _lower_kernel(body, target, language)
    rows = opt_ops.to_rows(lowered.opts)
    entry = CachedKernel(lowered.name, rows, lowered.tiles, lowered.text, lowered.work_ns)
    disk.keep(body_digest, target, entry)
    return lowered


def instructions(
    kernel: Kernel, target: Target, language: Language | None = None
) -> tuple[UOp, ...]:
    """The instructions that a kernel's text was rendered from; kernels do not keep them.

    Raises:
        CompileError: if there are none: it is a custom kernel, written as text.
    """
    language = language or language_of(target)
    for items in _possible_instructions(kernel, _restricted(target, language), language.passes):
        render = partial(_render_kernel, language, target, items, opt_ops.stages(kernel.opts))
        if language.name_by_digest("k", render)[0] == kernel.name:
            return items  # the name is a digest of the text that they become
    raise CompileError(
        f"the instructions of the kernel {kernel.name} are not known",
        got="a kernel that was written as text",
        hint="its LLVM IR is all that there is: at='llvm'",
    )


def _restricted(target: Target, language: Language) -> Target:
    """The target without the instructions that the language cannot express."""
    return replace(target, lacks=target.lacks | language.lacks) if language.lacks else target


def _render_kernel(
    language: Language, target: Target, items: Sequence[UOp], stages: int, name: str
) -> str:
    if not language.takes_llvm:
        return language.kernel(name, legalized(items))
    # In C a partial vector is a word of its own.
    text = language.kernel(name, split_partial_vectors(legalized(items), target))
    if not stages:
        return text
    return _PIPELINED(text, architecture(target), stages)


def _possible_instructions(
    kernel: Kernel, target: Target, passes: Passes
) -> Iterator[tuple[UOp, ...]]:
    """The instructions of a kernel, lowered again from its source.

    Schedules end by simplification.  Kernels whose opt-ops were given by hand may lack it, which
    their records do not say.
    """
    body = kernel.source
    assert body is not None, "a kernel of `pipeline.kernel`"
    if body.op is Op.SINK:
        plain = loop_nest.nest(passes.decompose(body, target))
        n = opt_ops.replay(plain, kernel.opts)
        yield _instructions_of_nest(loop_nest.simplified(n), target, passes)
        with suppress(SplitError):
            yield _instructions_of_nest(n, target, passes)
    else:
        for step in passes.of_kernel(body):
            yield step(body, target)


def _custom_kernel(body: UOp, target: Target, language: Language) -> Kernel:
    """A kernel of the user, written as text."""
    arg: CustomKernel = body.src[0].src[0].arg
    if not language.takes_llvm:
        raise CompileError(
            f"the kernel {arg.name} is written in LLVM IR for a processor, and the program is to "
            f"be in {language.name}",
            hint="write it over ranges",
        )
    name, text = language.name_by_digest("k", lambda _: arg.text)
    size_bytes = sum(prod(shape) * dtype.itemsize for shape, dtype in (*arg.takes, *arg.results))
    return Kernel(name, body, (), arg.tiles, text, size_bytes // CUSTOM_KERNEL_BYTES_PER_NS)


class KernelCache(Protocol):
    """A cache across processes: lowered kernels, and the opt-ops of earlier searches."""

    def tuned(self, name: str, target: Target) -> Sequence[opt_ops.Row] | None:
        """The tuned opt-ops for the kernel that the heuristics give this name, if any."""

    def find(self, body: str, target: Target) -> CachedKernel | None:
        """The kernel of a body, by its digest, if it is in the cache."""

    def keep(self, body: str, target: Target, kernel: CachedKernel) -> None:
        """Stores the kernel of a body."""


_CACHES: list[KernelCache] = []
"""The installed cache, if there is one: lowering itself knows no file system."""


def install_cache(cache: KernelCache) -> None:
    """Installs the cache that kernels are looked up in before they are lowered."""
    _CACHES[:] = [cache]


def forget() -> None:
    """Drop all that this process has lowered: the cache may hold other opt-ops by now."""
    _KERNELS.clear()
    for table in (
        complex_pairs.lower_complex,
        boundaries.insert_barriers,
        ranges.indexed_kernels,
        schedule.routine_schedule,
    ):
        table.cache_clear()
    simplify.forget()


def bodies(program: Program, target: Target) -> dict[str, UOp]:
    """The bodies over ranges of the scheduled kernels of a program, by the kernels' names."""
    return {
        kernel.name: body
        for (body, other, _), kernel in _KERNELS.items()
        if other == target and kernel in program.kernels and kernel.opts
    }


def _lower_kernel(body: UOp, target: Target, language: Language) -> Kernel:
    passes = language.passes
    kernel_passes = passes.of_kernel(body)
    if not kernel_passes:
        return _custom_kernel(body, target, language)
    if kernel_passes == (passes.sort,):
        items = passes.sort(body, target)
        render = partial(_render_kernel, language, target, items, 0)
        name, text = language.name_by_digest("k", render)
        shape = _threads(items), _local_bytes(items)
        return Kernel(name, body, (), tile_count(body), text, sort.work(body), None, *shape)
    decomposed = passes.decompose(body, _restricted(target, language))
    plain = loop_nest.nest(decomposed)
    work_ns = heuristics.estimated_ns(plain, target)
    kernel = kernel_of_nest(passes.split(decomposed, target), target, language, work_ns)
    for installed in _CACHES:
        # Tuned opt-ops are stored under the name of the kernel that the heuristics give.
        rows = installed.tuned(kernel.name, target)
        if rows is not None:
            with suppress(SplitError):  # stored by another version
                n = opt_ops.replay(plain, opt_ops.from_rows(rows))
                kernel = kernel_of_nest(loop_nest.simplified(n), target, language, work_ns)
    return kernel


def kernel_of_nest(
    n: loop_nest.Nest, target: Target, language: Language | None = None, work_ns: int = 0
) -> Kernel:
    """The kernel of a nest whose opt-ops have been applied."""
    language = language or language_of(target)
    items = _instructions_of_nest(n, target, language.passes)
    render = partial(_render_kernel, language, target, items, opt_ops.stages(n.opts))
    name, text = language.name_by_digest("k", render)
    threads, local_bytes = _threads(items), _local_bytes(items)
    return Kernel(name, n.body, n.opts, tile_count(n), text, work_ns, None, threads, local_bytes)


def _threads(items: Sequence[UOp]) -> int:
    """The threads of a group that instructions are for: 1 where none asks for its number.

    The text of a kernel for a grid says how many they are, too.
    """
    return max([s.arg.size for u in items for s in u.src if s.op is Op.RANGE], default=1)


def _local_bytes(items: Sequence[UOp]) -> int:
    """The bytes of local memory of a group."""
    memories = dict.fromkeys(s for u in items for s in u.src if s.op is Op.LOCAL_MEMORY)
    return local_layout(memories)[1]


def _instructions_of_nest(n: loop_nest.Nest, target: Target, passes: Passes) -> tuple[UOp, ...]:
    items: tuple[UOp, ...] = passes.prefetch(passes.linearize(n, target), target)
    return items
