"""Running traces: runs of Python functions on abstract values, which record operations.

A trace is known when its inputs are concrete arrays (under `grad`, `jvp`, `vjp`, `linearize`
outside `jit`): then any value in it can be computed when Python needs it, and `if x > 0` works.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from tfn.errors import Line, user_line
from tfn.trace.uop import UOp


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

_LOCAL = threading.local()


def running() -> list[Trace]:
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
    stack = running()
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
    stack, _LOCAL.stack = running(), []
    try:
        yield
    finally:
        _LOCAL.stack = stack


def recorder() -> Trace | None:
    """The trace that records operations on concrete arrays, if the innermost one does."""
    stack = running()
    return stack[-1] if stack and stack[-1].apart else None
