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

from tfn.lower import choose, cut, decompose, linearize, plan, ranges, split
from tfn.lower.kernel import Kernel, Launch, Program, Slot, Space, Target
from tfn.lower.ranges import Stage
from tfn.lower.render import driver, llvm, sort
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
    function = PASSES[0].run(jaxpr.function, target)
    stages: list[Stage] = PASSES[1].run(function, target)
    kernels = [kernel(stage.body, target) for stage in stages]
    outputs: dict[UOp, int] = {}
    aliases: list[tuple[int, Slot]] = []
    for i, value in enumerate(function.src):
        if value.op is Op.PARAM:
            aliases.append((i, Slot(Space.INPUT, value.arg.index)))
        elif outputs.setdefault(value, i) != i:
            aliases.append((i, Slot(Space.OUTPUT, outputs[value])))
    offsets, arena_bytes = plan.arena(plan.lives(stages, set(outputs)))
    launches: list[Launch] = []
    memory = plan.Memory()
    for stage, made in zip(stages, kernels, strict=True):
        slots = [_slot(u, outputs, offsets) for u in stage.operands]
        barrier = memory.must_wait(
            slots, [plan.size_bytes(u) for u in stage.operands], stage.written
        )
        launches.append(Launch(made, tuple(slots), barrier))
    inputs = tuple((p.shape, p.dtype) for p in jaxpr.params)
    text = driver.driver_text("@", launches, len(inputs))
    name = "p" + hashlib.sha256(text.encode()).hexdigest()[:20]
    return Program(
        name, jaxpr.function, tuple(launches), inputs,
        tuple((u.shape, u.dtype) for u in jaxpr.outputs), tuple(aliases),
        arena_bytes, driver.sync_bytes(launches), text.replace("@@", f"@{name}"),
        sum(k.work for k in kernels if k.tiles > 1) > choose.PARALLEL_NS,
    )  # fmt: skip


def _slot(u: UOp, outputs: dict[UOp, int], offsets: dict[UOp, int]) -> Slot:
    if u.op is Op.PARAM:
        return Slot(Space.INPUT, u.arg.index)
    return Slot(Space.OUTPUT, outputs[u]) if u in outputs else Slot(Space.ARENA, offsets[u])


def kernel(body: UOp, target: Target) -> Kernel:
    """The kernel of a body over ranges, made once per process and target."""
    found = _KERNELS.get((body, target))
    if found is None:
        found = _KERNELS[body, target] = _kernel(body, target)
    return found


def _kernel(body: UOp, target: Target) -> Kernel:
    if body.op is Op.TUPLE:
        return sort.kernel(body)
    value: Any = body
    for step in PASSES[2:4]:
        value = step.run(value, target)
    nest: split.Nest = value
    items = PASSES[4].run(nest, target)
    first = nest.loops[0] if nest.loops else None
    tiles = first.arg.size if first is not None and first.arg.place is Place.PARALLEL else 1
    text = llvm.kernel_text("@", items)
    name = "k" + hashlib.sha256(text.encode()).hexdigest()[:20]
    work = choose.work(split.nest(PASSES[2].run(body, target)), target)
    return Kernel(name, nest.body, nest.opts, tiles, text.replace("@@", f"@{name}"), work)
