"""Instructions in the loops they belong to: the innermost that they depend on, and no deeper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from tfn._support.frozen import mutable
from tfn.trace.op import Op
from tfn.trace.uop import UOp

NOWHERE = frozenset({Op.CONST, Op.PARAM, Op.LANES})
"""Values that are no instructions."""


@mutable
class Scope:
    """The instructions of one loop, or of the function."""

    depth: int
    items: list[UOp] = field(default_factory=list)


class Scopes:
    """Loops that are open, one in the other, each with its instructions so far.

    Attributes:
        root: the scope of the function.
        scope: the one that is being filled.
        outside: those around it.
        placed: the scope of each instruction.
    """

    def __init__(self) -> None:
        self.root = self.scope = Scope(0)
        self.outside: list[Scope] = []
        self.placed: dict[UOp, Scope] = {}
        self.count = 0

    def open(self, begin: UOp, *end: UOp) -> UOp:
        """A new loop in the present scope, without an end if it has a LEAVE; gives its counter."""
        self.count += 1
        loop = UOp(Op.LOOP, (begin, *end), self.count)
        self.outside.append(self.scope)
        self.scope = Scope(self.scope.depth + 1, [loop])
        self.placed[loop] = self.scope
        return loop

    def close(self, loop: UOp, carried: Sequence[UOp], following: Sequence[UOp]) -> None:
        """End the loop with the next values of what it carries.

        What was placed around it meanwhile comes before it, since it is put there only now.
        """
        self.scope.items.append(UOp(Op.END, (loop, *carried, *following)))
        inner, self.scope = self.scope, self.outside.pop()
        self.scope.items.extend(inner.items)
        for u in inner.items:  # asked for again, it is another value: accumulators have moved on
            self.placed.pop(u, None)
        for u in carried:  # after the loop they are values of the scope around it
            self.placed[u] = self.scope

    def add(self, u: UOp) -> UOp:
        """Place an instruction in the innermost loop that it depends on; constants need none."""
        if u not in self.placed and u.op not in NOWHERE:
            scope = self.root
            for s in u.src:
                other = self.placed.get(s)
                if other is not None and other.depth > scope.depth:
                    scope = other
            self.placed[u] = scope
            scope.items.append(u)
        return u

    def of(self, u: UOp) -> Scope:
        """Where an instruction is."""
        return self.placed.get(u, self.root)

    def here(self, u: UOp) -> UOp:
        """Place an instruction at the end of the loop that is open."""
        self.placed[u] = self.scope
        self.scope.items.append(u)
        return u
