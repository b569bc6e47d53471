"""The compiler as one table.

`PASSES` is the way of a kernel from the graph to text: each pass names the stage it reads and the
stage it makes, and tests run the spec and the oracle after every one.  `lower` drives it: a
function is cut into kernels once, then each distinct kernel goes through the rest, once per
process and target; then memory is planned and the driver is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tfn.lower import choose, cut, decompose, linearize, pairs, ranges, schedule, sort, split
from tfn.lower.kernel import Kernel, Program, Slot, Space, Target, flatten
from tfn.lower.render import driver, llvm
from tfn.lower.schedule import Schedule
from tfn.trace.jaxpr import Jaxpr
from tfn.trace.op import Op, Place
from tfn.trace.uop import UOp


@dataclass(frozen=True, slots=True)
class Pass:
    """One step: what it is called, what it does, and the stages before and after."""

    name: str
    run: Callable[[Any, Target], Any]
    before: str
    after: str


# fmt: off
PASSES = (
    Pass("pairs",     lambda u, target: pairs.pairs(u),          "JAXPR",   "JAXPR"),
    Pass("cut",       lambda u, target: cut.kernels(u, target),  "JAXPR",   "KERNELS"),
    Pass("ranges",    lambda u, target: ranges.stages(u),        "KERNELS", "RANGES"),
    # From here on, for each kernel.
    Pass("decompose", lambda u, target: decompose.decompose([u])[0], "RANGES",  "RANGES"),
    Pass("split",     lambda u, target: choose.choose(split.nest(u), target), "RANGES", "SPLIT"),
    Pass("linearize", lambda n, target: linearize.linearize(n),  "SPLIT",   "LINEAR"),
)
# fmt: on

_KERNELS: dict[tuple[UOp, Target], Kernel] = {}


def lower(jaxpr: Jaxpr, target: Target) -> Program:
    """The program of a closed function, for a target; no device is needed."""
    return program(jaxpr, scheduled(jaxpr, target))


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


def scheduled(jaxpr: Jaxpr, target: Target) -> Schedule:
    """The steps of a closed function, with a place for every value."""
    real = Jaxpr(PASSES[0].run(jaxpr.function, target))
    shared = dict(aliases(real))
    own = [i not in shared for i in range(len(real.outputs))]
    return schedule.schedule(real.function, target, kernel, own)


def program(jaxpr: Jaxpr, plan: Schedule) -> Program:
    """The steps with the driver that runs them."""
    routine = plan.routine
    steps = routine.steps
    inputs = tuple((p.shape, p.dtype) for p in jaxpr.params)
    launches = tuple(flatten(steps))
    text = driver.driver_text("@", steps, len(inputs))
    name = "p" + hashlib.sha256(text.encode()).hexdigest()[:20]
    return Program(
        name, jaxpr.function, steps, routine.work, inputs,
        tuple((u.shape, u.dtype) for u in jaxpr.outputs),
        aliases(Jaxpr(pairs.pairs(jaxpr.function))),
        routine.arena_bytes, driver.sync_bytes(launches), text.replace("@@", f"@{name}"),
        routine.work > choose.PARALLEL_NS and any(launch.kernel.tiles > 1 for launch in launches),
    )  # fmt: skip


def kernel(body: UOp, target: Target) -> Kernel:
    """The kernel of a body over ranges, made once per process and target."""
    found = _KERNELS.get((body, target))
    if found is None:
        found = _KERNELS[body, target] = _kernel(body, target)
    return found


def _kernel(body: UOp, target: Target) -> Kernel:
    opts: tuple[str, ...] = ()
    if body.op is Op.TUPLE:  # a sort, whose instructions are written by hand
        items, tiles = sort.instructions(body)
        work = sort.work(body.src[0].src[0])
    else:
        simple = PASSES[3].run(body, target)
        nest: split.Nest = PASSES[4].run(simple, target)
        items = PASSES[5].run(nest, target)
        first = nest.loops[0] if nest.loops else None
        tiles = first.arg.size if first is not None and first.arg.place is Place.PARALLEL else 1
        work = choose.work(split.nest(simple), target)
        body, opts = nest.body, nest.opts
    text = llvm.kernel_text("@", items)
    name = "k" + hashlib.sha256(text.encode()).hexdigest()[:20]
    return Kernel(name, body, opts, tiles, text.replace("@@", f"@{name}"), work)
