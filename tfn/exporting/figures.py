"""Figures of a program for a microcontroller: by layer, and of the whole; `print` makes a table.

Multiply-adds, cycles and bytes are counted from the instructions that the text is written from.
Code and the stack are measured by the compiler of the target, where it is installed; else the stack
is counted from the text: all local variables of the functions that call each other, which is more
than any compiler takes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from math import prod

from tfn.exporting.compilers import Built, built
from tfn.exporting.microcontrollers import Core, core_of
from tfn.exporting.signature import Field, Signature
from tfn.extend import (
    Kernel,
    Language,
    Launch,
    Op,
    Program,
    Space,
    Target,
    UOp,
    frozen,
    launch_runs,
    pipeline,
    walk,
)
from tfn.inspect.kernels import KernelWork, by_source

HEADS = ("layer", "operations", "multiply-adds", "weights", "arena", "code", "cycles")
MAX_NAME_CHARACTERS = 40
"""The longest name of a layer or an operation in a table."""
FRAME_BYTES = 128
"""Saved registers and arguments of a call, where no compiler says how many there are."""


@frozen
class Layer:
    """A kernel of a program.

    Attributes:
        name: the named scopes and modules in which most of its work was recorded, as a path.
        operations: the operations of whole arrays that it fuses.
        kernel: the function of the text, which equal layers share.
        runs: how often a call runs it; a loop without a number of trips counts once.
        multiply_adds: of all runs.
        weight_bytes: of the constants that it is the first to read.
        arena_bytes: of the arena that it reads or writes.
        code_bytes: of its function, if it is the first to run it; None without a compiler.
        cycles: of all runs, estimated by the table of the core; None if there is none.
    """

    name: str
    operations: str
    kernel: str
    runs: int
    multiply_adds: int
    weight_bytes: int
    arena_bytes: int
    code_bytes: int | None
    cycles: int | None


@frozen
class Figures:
    """A program for a microcontroller; it prints as a table by layer.

    Attributes:
        layers: in running order.
        arena_bytes: size of the working memory.
        constant_bytes: of weights and tables.
        code_bytes: of all functions; None without a compiler.
        stack_bytes: the most that a call needs, compiled at any level of optimization.
        plain_stack_bytes: the same without optimization.
        compiler: that code and stack were measured with; "" if there is none.
    """

    layers: tuple[Layer, ...]
    arena_bytes: int
    constant_bytes: int
    code_bytes: int | None
    stack_bytes: int
    plain_stack_bytes: int
    compiler: str

    @property
    def multiply_adds(self) -> int:
        """The multiply-adds of a call."""
        return sum(layer.multiply_adds for layer in self.layers)

    @property
    def cycles(self) -> int | None:
        """The estimated cycles of a call; None if the core has no table."""
        counts = [layer.cycles for layer in self.layers if layer.cycles is not None]
        return sum(counts) if len(counts) == len(self.layers) else None

    def __str__(self) -> str:
        rows = [HEADS]
        for x in self.layers:
            names = (_short(x.name), _short(x.operations) + (f" ×{x.runs}" if x.runs > 1 else ""))
            numbers = x.multiply_adds, x.weight_bytes, x.arena_bytes, x.code_bytes, x.cycles
            rows.append((*names, *map(_number, numbers)))  # type: ignore[arg-type]
        totals = (
            self.multiply_adds,
            self.constant_bytes,
            self.arena_bytes,
            self.code_bytes,
            self.cycles,
        )
        rows.append(("all", "", *map(_number, totals)))  # type: ignore[arg-type]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(width) if i < 2 else cell.rjust(width)
                for i, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        how = f"measured with {self.compiler}" if self.compiler else "counted from the text"
        stack = (
            f"{self.stack_bytes:,} bytes at most, {self.plain_stack_bytes:,} without optimization"
        )
        return "\n".join([*lines, f"stack: {stack}, {how}"])


def _short(text: str) -> str:
    return text if len(text) <= MAX_NAME_CHARACTERS else text[: MAX_NAME_CHARACTERS - 1] + "…"


def _number(n: int | None) -> str:
    return "" if n is None else f"{n:,}"


def figures(
    signature: Signature,
    program: Program,
    places: Sequence[Field | bytes],
    language: Language,
    text: str,
    header: str,
) -> Figures:
    """The figures of a program that has been written as `text`, which includes `header`."""
    target = signature.target
    counted = _stack_of_text(text)
    compiled = built(header + text.partition("\n")[2], target)
    known, core = by_source(program, target, language.passes), core_of(target)
    seen: set[object] = set()
    layers = []
    for launch, runs in launch_runs(program.steps):
        body = launch.kernel.source or launch.kernel.body
        assert body is not None, "a program that was lowered here"
        if _is_kept(launch, signature, places):
            runs = 0
        works = known.get(body) or [KernelWork("", "copy", 0.0, 0)]
        work = works.pop(0) if len(works) > 1 else works[0]
        executed = executions(launch.kernel, target, language)
        layers.append(_layer(launch, body, runs, places, work, executed, core, compiled, seen))
    constants = sum(len(place) for place in places if isinstance(place, bytes))
    return Figures(
        tuple(layers),
        signature.arena_bytes,
        constants,
        compiled.code_bytes if compiled else None,
        compiled.stack_bytes if compiled else counted,
        compiled.plain_stack_bytes if compiled else counted,
        compiled.compiler if compiled else "",
    )


def _is_kept(launch: Launch, signature: Signature, places: Sequence[Field | bytes]) -> bool:
    """Whether it copies a state to itself, which is skipped."""
    spaces = [slot.space for slot in launch.operands]
    if spaces != [Space.OUTPUT, Space.INPUT] or not launch.kernel.is_copy:
        return False
    to, source = (slot.at for slot in launch.operands)
    kept = signature.state[to : to + 1]
    return bool(kept) and kept[0].offset is None and kept[0].field is places[source]


def _layer(
    launch: Launch,
    body: UOp,
    runs: int,
    places: Sequence[Field | bytes],
    work: KernelWork,
    executed: Counter[Op],
    core: Core | None,
    compiled: Built | None,
    seen: set[object],
) -> Layer:
    """The row of a launch; `seen` has the constants and functions of the rows before."""
    kernel = launch.kernel
    sizes = {
        u.arg.index: prod(u.shape) * u.dtype.itemsize for u in walk([body]) if u.op is Op.PARAM
    }
    weights, arena = 0, {}
    for i, slot in enumerate(launch.operands):
        place = places[slot.at] if slot.space is Space.INPUT and slot.at < len(places) else None
        if isinstance(place, bytes) and slot.at not in seen:
            seen.add(slot.at)
            weights += len(place)
        if slot.space is Space.ARENA:
            arena[slot.at + slot.offset] = sizes.get(i, 0)
    code = None
    if compiled is not None:
        code = 0 if kernel.name in seen else compiled.functions.get(kernel.name, 0)
    seen.add(kernel.name)
    return Layer(
        work.scope,
        work.title,
        kernel.name,
        runs,
        runs * executed[Op.DOT],
        weights,
        sum(arena.values()),
        code,
        runs * _cycles(executed, core) if core else None,
    )


def executions(kernel: Kernel, target: Target, language: Language) -> Counter[Op]:
    """Executions of each operation in one run of a kernel; DOT stands for multiply-adds.

    Of what is within loops without constant bounds one iteration counts.
    """
    counts: Counter[Op] = Counter()
    trips = [kernel.tiles]
    for u in pipeline.instructions(kernel, target, language):
        if u.op is Op.END:
            trips.pop()
        if u.op is Op.LOOP:
            constant = len(u.src) == 2 and all(s.op is Op.CONST for s in u.src)
            bounds = [int(s.arg.value) for s in u.src] if constant else [0, 1]
            trips.append(trips[-1] * max(bounds[1] - bounds[0], 0))
        counts[u.op] += trips[-1]
        if u.op is Op.ADD:
            sums = any(s.op is Op.ACCUMULATOR for s in u.src)
            counts[Op.DOT] += trips[-1] * (sums and any(s.op is Op.MUL for s in u.src))
        elif u.op is Op.FMA:
            counts[Op.DOT] += trips[-1]
    return counts


def _cycles(executed: Counter[Op], core: Core) -> int:
    """Cycles of operations by the table of a core: of those without a row as of additions."""
    free = executed[Op.DOT] * core.fused
    return sum(core.cycles.get(op, 1) * n for op, n in executed.items()) - free


_FUNCTION = re.compile(
    r"^(?:KERNEL|static|int)\b[^;={}]*?(\w+)\(([^;={}]*)\) \{\n(.*?)^\}", re.M | re.S
)
_LOCAL = re.compile(r"\b(?:[suf](\d+)|_Bool|char \*|unsigned|int) ?(?:\*?const )?(?:\w+)(\[\])? =")


def _stack_of_text(text: str) -> int:
    """The bytes of all local variables of the functions that a call is in at once."""
    frames = {}
    for name, _, body in _FUNCTION.findall(text):
        frames[name] = FRAME_BYTES + 8 * len(_LOCAL.findall(body))
        widest = max(
            (line.count(",") for line in body.splitlines() if "char *const[]" in line), default=0
        )
        frames[name] += 8 * widest
    kernels = [size for name, size in frames.items() if re.fullmatch(r"k[0-9a-f]{20}", name)]
    others = sum(frames.values()) - sum(kernels)
    return max(kernels, default=0) + others
