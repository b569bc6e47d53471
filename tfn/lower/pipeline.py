"""The compiler as one table.

`passes` are the steps from a graph to the instructions of its kernels: each names the stage that it
reads and the stage that it makes, and tests run the spec and the oracle after every one.  `lower`
drives them: a function is cut into kernels once, then each distinct kernel goes through the rest,
once per process and target; then memory is planned and the driver is written.  The text is LLVM IR
unless another `Language` is asked for.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from math import prod
from typing import Any, Protocol

from tfn._support.cache import Cache
from tfn._support.frozen import frozen
from tfn.errors import CompileError, SplitError
from tfn.lower.codegen import linearize, prefetch
from tfn.lower.codegen.render import driver, llvm
from tfn.lower.codegen.sort import sort
from tfn.lower.fuse import boundaries, ranges
from tfn.lower.graph import complex_pairs
from tfn.lower.index import simplify
from tfn.lower.loops import heuristics, loop_nest, opt_ops
from tfn.lower.math import decompose
from tfn.lower.memory import schedule
from tfn.lower.memory.schedule import Schedule
from tfn.lower.program import (
    Kernel,
    Program,
    Slot,
    Space,
    Step,
    Written,
    flatten,
)
from tfn.lower.target.target import Target
from tfn.trace.argument import Handmade, Place
from tfn.trace.digest import digest
from tfn.trace.jaxpr import Jaxpr
from tfn.trace.op import Op
from tfn.trace.uop import UOp


@frozen
class Pass:
    """One step: its name, its function, and the stages before and after it."""

    name: str
    run: Callable[[Any, Target], Any]
    before: str
    after: str

    def __call__(self, value: Any, target: Target) -> Any:
        """The value after the pass."""
        return self.run(value, target)


@frozen
class Passes:
    """The rows of the compiler by name: ``passes.split(body, target)``."""

    complex_pairs: Pass
    boundaries: Pass
    ranges: Pass
    decompose: Pass
    split: Pass
    linearize: Pass
    prefetch: Pass
    sort: Pass

    def of_kernel(self, body: UOp) -> tuple[Pass, ...]:
        """The passes that a kernel's body goes through, by what it is."""
        if body.op is Op.SINK:
            return self.decompose, self.split, self.linearize, self.prefetch
        return (self.sort,) if body.src[0].src[0].op is Op.SORT else ()


# fmt: off
passes = Passes(**{step.name: step for step in (
    Pass("complex_pairs", lambda u, target: complex_pairs.lower_complex(u),
         "JAXPR", "JAXPR"),
    Pass("boundaries",    lambda u, target: boundaries.insert_barriers(u, target),
         "JAXPR", "KERNELS"),
    Pass("ranges",        lambda u, target: ranges.indexed_kernels(u),     "KERNELS", "RANGES"),
    # From here on, for each kernel.
    Pass("decompose",     lambda u, target: decompose.decompose([u], target.lacks)[0],
         "RANGES", "RANGES"),
    Pass("split",         lambda u, target: heuristics.choose(loop_nest.nest(u), target),
         "RANGES", "SPLIT"),
    Pass("linearize",     lambda n, target: linearize.linearize(n, Op.FMA not in target.lacks),
         "SPLIT", "LINEAR"),
    Pass("prefetch",      lambda u, target: prefetch.insert_prefetches(u, target),
         "LINEAR", "LINEAR"),
    # A kernel that sorts has one pass of its own.
    Pass("sort",          lambda u, target: sort.instructions(u, target)[0], "RANGES", "LINEAR"),
)})
# fmt: on


def tiles(kernel: loop_nest.Nest | UOp) -> int:
    """The number of tiles that threads share: of a nest, or of the body of a sort."""
    if isinstance(kernel, UOp):
        return sort.plan_of(kernel).groups if passes.of_kernel(kernel) == (passes.sort,) else 1
    first = kernel.loops[0] if kernel.loops else None
    return first.arg.size if first is not None and first.arg.place is Place.PARALLEL else 1


@frozen
class Language:
    """What programs are written in.

    Attributes:
        kernel: the text of a function by its name and instructions.
        driver: that of the one function of a program, by its name, steps and number of inputs.
        sign: what stands before the name of every function.
        lacks: basic ops that cannot be said in it, whatever the target.
    """

    kernel: Callable[[str, Sequence[UOp]], str]
    driver: Callable[[str, Sequence[Step], int], str]
    sign: str
    lacks: frozenset[Op] = frozenset()

    def named(self, letter: str, write: Callable[[str], str]) -> tuple[str, str]:
        """A name made of the digest of a text, and the text under that name."""
        text = write("@@"[len(self.sign) :])
        name = letter + hashlib.sha256(text.encode()).hexdigest()[:20]
        return name, text.replace("@@", self.sign + name)


LLVM = Language(llvm.kernel_text, driver.driver_text, "@")
KERNEL_BYTES = 10_000
"""Bytes of a kernel beside its text: its body, before and after it was split."""
_KERNELS: Cache[Kernel] = Cache("kernels", lambda made: KERNEL_BYTES + len(made.text))


def lower(jaxpr: Jaxpr, target: Target, language: Language = LLVM) -> Program:
    """The program of a closed function, for a target; no device is needed."""
    return program(jaxpr, scheduled(jaxpr, target, language), language)


def aliases(jaxpr: Jaxpr) -> tuple[tuple[int, Slot], ...]:
    """Outputs that are an input, or another output."""
    found: list[tuple[int, Slot]] = []
    first: dict[UOp, int] = {}
    for i, u in enumerate(jaxpr.outputs):
        if u.op is Op.PARAM:
            found.append((i, Slot(Space.INPUT, u.arg.index)))
        elif first.setdefault(u, i) != i:
            found.append((i, Slot(Space.OUTPUT, first[u])))
    return tuple(found)


def scheduled(jaxpr: Jaxpr, target: Target, language: Language = LLVM) -> Schedule:
    """The steps of a closed function, with a place for every value."""
    real = Jaxpr(passes.complex_pairs(jaxpr.function, target))
    shared = dict(aliases(real))
    own = [i not in shared for i in range(len(real.outputs))]
    return schedule.schedule(real.function, _able(target, language), _maker(language), own)


@cache
def _maker(language: Language) -> Callable[[UOp, Target], Kernel]:
    """What makes kernels in a language: always the same object, since schedules are kept by it."""
    return partial(kernel, language=language)


def program(jaxpr: Jaxpr, plan: Schedule, language: Language = LLVM) -> Program:
    """The steps with the driver that runs them."""
    routine = plan.routine
    steps = routine.steps
    inputs = tuple((p.shape, p.dtype) for p in jaxpr.params)
    launches = tuple(flatten(steps))
    name, text = language.named("p", lambda name: language.driver(name, steps, len(inputs)))
    return Program(
        name,
        jaxpr.function,
        steps,
        routine.work,
        inputs,
        tuple((u.shape, u.dtype) for u in jaxpr.outputs),
        aliases(Jaxpr(complex_pairs.lower_complex(jaxpr.function))),
        routine.arena_bytes,
        driver.sync_bytes(launches),
        text,
        routine.work > heuristics.MIN_PARALLEL_NS
        and any(launch.kernel.tiles > 1 for launch in launches),
    )


def kernel(body: UOp, target: Target, language: Language = LLVM) -> Kernel:
    """The kernel of a body over ranges, made once per process, target and language."""
    key = body, target, language
    found = _KERNELS.find(key)
    return found or _KERNELS.keep(key, replace(_cached(*key), source=body))


def _cached(body: UOp, target: Target, language: Language) -> Kernel:
    """The kernel as another process has kept it, or else lowered, and kept for others."""
    if not _CACHES or language != LLVM or body.op is not Op.SINK:
        return _kernel(body, target, language)
    kernels, name = _CACHES[0], digest(body)
    kept = kernels.find(name, target)
    if kept is not None:
        with suppress(SplitError):  # kept by another version
            opts = opt_ops.from_rows(kept.opts)
            return Kernel(kept.name, body, opts, kept.tiles, kept.text, kept.work)
    made = _kernel(body, target, language)
    rows = opt_ops.to_rows(made.opts)
    kernels.keep(name, target, Written(made.name, rows, made.tiles, made.text, made.work))
    return made


def instructions(made: Kernel, target: Target, language: Language = LLVM) -> tuple[UOp, ...]:
    """The instructions that a kernel was written from, made again; they are not kept.

    Raises:
        CompileError: if they cannot be: its author has written it as text.
    """
    for items in _made_again(made, _able(target, language)):
        written = partial(_text, language, items)
        if language.named("k", written)[0] == made.name:
            return items  # the name is a digest of the text that they become
    raise CompileError(
        f"the instructions of the kernel {made.name} are not known",
        got="a kernel that was written as text",
        hint="its LLVM IR is all that there is: at='llvm'",
    )


def _able(target: Target, language: Language) -> Target:
    """The target as far as the language can make use of it."""
    return replace(target, lacks=target.lacks | language.lacks) if language.lacks else target


def _text(language: Language, items: Sequence[UOp], name: str) -> str:
    return language.kernel(name, items)


def _made_again(made: Kernel, target: Target) -> Iterator[tuple[UOp, ...]]:
    """What a kernel may have been written from: opt-ops were followed by `simplified`, or not."""
    body = made.source
    assert body is not None, "a kernel that `kernel` has made"
    if body.op is Op.SINK:
        plain = loop_nest.nest(passes.decompose(body, target))
        n = opt_ops.replay(plain, made.opts)
        with suppress(SplitError):
            yield _in_order(n, target)
        yield _in_order(loop_nest.simplified(n), target)
    else:
        for step in passes.of_kernel(body):
            yield step(body, target)


def _handmade(body: UOp, language: Language) -> Kernel:
    """A kernel whose text its author has written."""
    arg: Handmade = body.src[0].src[0].arg
    if not language.sign:
        raise CompileError(
            f"the kernel {arg.name} is written in LLVM IR, and the program is to be in C",
            hint="write it over ranges",
        )
    name, text = language.named("k", lambda _: arg.text)
    size_bytes = sum(prod(shape) * dtype.itemsize for shape, dtype in (*arg.takes, *arg.results))
    return Kernel(name, body, (), arg.tiles, text, size_bytes // 10)


class KernelCache(Protocol):
    """Kernels that other processes have lowered, and opt-ops that a search has found."""

    def tuned(self, name: str, target: Target) -> Sequence[opt_ops.Row] | None:
        """Faster opt-ops for the kernel of this name, which the model makes, if any are known."""

    def find(self, body: str, target: Target) -> Written | None:
        """The kernel of a body, by its digest, if it was kept."""

    def keep(self, body: str, target: Target, written: Written) -> None:
        """Keeps the kernel of a body."""


_CACHES: list[KernelCache] = []


def use(kernels: KernelCache) -> None:
    """Installs the cache that is asked before a kernel is lowered."""
    _CACHES[:] = [kernels]


def forget() -> None:
    """Drop the kernels of this process: opt-ops may be known by now that were not."""
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
    """What the kernels of a program were made from, over ranges, by their names."""
    return {
        made.name: body
        for (body, other, _), made in _KERNELS.items()
        if other == target and made in program.kernels and made.opts
    }


def _kernel(body: UOp, target: Target, language: Language) -> Kernel:
    steps = passes.of_kernel(body)
    if not steps:
        return _handmade(body, language)
    if steps == (passes.sort,):
        items = passes.sort(body, target)
        name, text = language.named("k", lambda name: language.kernel(name, items))
        return Kernel(name, body, (), tiles(body), text, sort.work(body))
    simple = passes.decompose(body, _able(target, language))
    plain = loop_nest.nest(simple)
    work = heuristics.estimated_ns(plain, target)
    chosen = nested(passes.split(simple, target), target, language, work)
    for kept in _CACHES:
        rows = kept.tuned(chosen.name, target)
        if rows is not None:
            with suppress(SplitError):  # found by another version
                n = opt_ops.replay(plain, opt_ops.from_rows(rows))
                chosen = nested(loop_nest.simplified(n), target, language, work)
    return chosen


def nested(n: loop_nest.Nest, target: Target, language: Language = LLVM, work: int = 0) -> Kernel:
    """The kernel of a nest whose opt-ops are decided."""
    items = _in_order(n, target)
    name, text = language.named("k", lambda name: language.kernel(name, items))
    return Kernel(name, n.body, n.opts, tiles(n), text, work)


def _in_order(n: loop_nest.Nest, target: Target) -> tuple[UOp, ...]:
    """The instructions of a nest."""
    items: tuple[UOp, ...] = passes.prefetch(passes.linearize(n, target), target)
    return items
