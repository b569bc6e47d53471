"""A device that tfn does not have: a grid of groups of four threads, interpreted in lockstep.

It is what CONTRIBUTING.md says a device is, made outside of the package with `tfn.extend` alone: a
target, a language whose passes are those of grids, a compiler of nothing, and a queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tests.lower import grid_interpreter
from tfn import extend

TARGET = extend.Target(
    "toy",
    "four threads",
    "",
    vector_bytes=4,
    lacks=frozenset({extend.Op.LDEXP, extend.Op.MMA, extend.Op.FMA}),
    grid=extend.Grid(warp_threads=1, group_threads=4, cores=1, local_bytes=4096),
)


def kernel_text(name: str, items: Sequence[extend.UOp]) -> str:
    """Each node with its sources by number, for people; no compiler reads it."""
    number = {u: i for i, u in enumerate(extend.walk(items))}
    lines = (f"{u.op.value} {u.arg} {u.dtype} {[number[s] for s in u.src]}" for u in number)
    return "\n".join((f"kernel {name}", *lines, f"run {[number[u] for u in items]}"))


def language() -> extend.Language:
    """The text, and the passes of grids as they are."""
    grid = extend.grids.passes.GRID
    return extend.Language(kernel_text, extend.no_driver, "", passes=grid, name="toy")


class Compiler:
    """Texts as they are."""

    def __init__(self) -> None:
        self.counts = extend.object_cache.Counts()

    def compile(self, text: str, target: extend.Target, level: int = 2) -> bytes:
        """The text."""
        return text.encode()

    def compile_all(
        self, texts: Sequence[str], target: extend.Target, level: int = 2
    ) -> list[bytes]:
        """The texts."""
        return [text.encode() for text in texts]


class Executable:
    """The launches of a program, one after the other."""

    def __init__(self, program: extend.Program) -> None:
        self.program, self.launches = program, extend.commands.record(program)
        self.items = {k.name: extend.pipeline.instructions(k, TARGET) for k in program.kernels}

    def __call__(self, inputs: Sequence[extend.Buffer], outputs: Sequence[extend.Buffer]) -> None:
        """Run it once."""
        arena = extend.memory.HostMemory().allocate(self.program.arena_bytes)
        buffers = [*inputs, *outputs, arena]
        for launch in self.launches:
            items = self.items[launch.kernel]
            kinds = {u.arg.index: u for u in extend.walk(items) if u.op is extend.Op.PARAM}
            operands = []
            for i, address in enumerate(launch.operands):
                u = kinds[i]
                whole = buffers[address.base]
                data = whole.view((whole.size_bytes,), np.dtype(np.uint8))[address.offset :]
                operands.append(data[: u.size * u.dtype.itemsize].view(u.dtype))
            grid_interpreter.grid(items, launch.groups, launch.threads, operands)

    def with_callbacks(self, functions: Sequence[object]) -> Executable:
        """Itself: it calls no functions of the host."""
        return self

    entry, on_share = extend.no_entry, extend.no_share


class Queue:
    """Runs programs."""

    def serve(self, array: type, learn: extend.Learn | None = None) -> None:
        """Nothing: there are no native entries."""

    def load(self, program: extend.Program, objects: Mapping[str, bytes]) -> Executable:
        """An executable."""
        return Executable(program)

    def synchronize(self) -> None:
        """Nothing: every call has finished when it returns."""


def device() -> extend.Device:
    """The five parts."""
    return extend.Device("toy", TARGET, Compiler(), extend.memory.HostMemory(), Queue())
