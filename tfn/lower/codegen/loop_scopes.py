"""Loop-invariant placement: every instruction goes to the innermost loop that it depends on.

    for i: for j: y = sqrt(a[i]) * b[j]   ->   for i: x = sqrt(a[i]);  for j: y = x * b[j]

Loop-invariant code motion is thereby no pass: code is never placed deeper than its operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field

from tfn._support.frozen import mutable
from tfn.trace.op import Op
from tfn.trace.uop import UOp

NOT_INSTRUCTIONS = frozenset({Op.CONST, Op.PARAM, Op.LANES, Op.RANGE, Op.LOCAL_MEMORY})
"""Values that are operands only: they are written where they are used, and have no scope.

A RANGE is the number of a thread in its group.
"""


@mutable
class Scope:
    """The instructions of one loop, or of the function."""

    depth: int
    items: list[UOp] = field(default_factory=list)


class Scopes:
    """Open loops, one inside the other, each with its instructions so far.

    Attributes:
        root: the scope of the function.
        scope: the innermost open scope.
        outside: the scopes around it, outermost first.
        placed: the scope of each instruction.
    """

    def __init__(self) -> None:
        self.root = self.scope = Scope(0)
        self.outside: list[Scope] = []
        self.placed: dict[UOp, Scope] = {}
        self.count = 0

    def open(self, begin: UOp, *end: UOp) -> UOp:
        """Open a loop in the innermost scope and return its counter; without `end` it is endless.

        An endless loop is ended by a LEAVE.
        """
        self.count += 1
        loop = UOp(Op.LOOP, (begin, *end), self.count)
        self.outside.append(self.scope)
        self.scope = Scope(self.scope.depth + 1, [loop])
        self.placed[loop] = self.scope
        return loop

    @contextmanager
    def within(self, scope: Scope) -> Iterator[None]:
        """Open and close loops at the end of an outer scope, which the open ones inside follow."""
        present = self.outside, self.scope
        scopes = [*self.outside, self.scope]
        self.outside, self.scope = scopes[: scopes.index(scope)], scope
        yield
        self.outside, self.scope = present

    def close(self, loop: UOp, carried: Sequence[UOp], following: Sequence[UOp]) -> None:
        """Close the innermost loop; `following` are the next values of what it carries.

        Instructions that were placed in outer scopes meanwhile precede the loop, since its own
        instructions are appended only now.
        """
        self.scope.items.append(UOp(Op.END, (loop, *carried, *following)))
        inner, self.scope = self.scope, self.outside.pop()
        self.scope.items.extend(inner.items)
        # The same node emitted again after the loop is another value: accumulators have moved on.
        for u in inner.items:
            self.placed.pop(u, None)
        for u in carried:  # after the loop they are values of the scope around it
            self.placed[u] = self.scope

    def place(self, u: UOp) -> UOp:
        """Append an instruction to the innermost loop that it depends on, once."""
        if u not in self.placed and u.op not in NOT_INSTRUCTIONS:
            scope = self.root
            for s in u.src:
                other = self.placed.get(s)
                if other is not None and other.depth > scope.depth:
                    scope = other
            self.placed[u] = scope
            scope.items.append(u)
        return u

    def append(self, u: UOp) -> UOp:
        """Append an instruction to the innermost open loop, whatever it depends on."""
        self.placed[u] = self.scope
        self.scope.items.append(u)
        return u

    def scope_of(self, u: UOp) -> Scope:
        """The scope of an instruction; the function for operands."""
        return self.placed.get(u, self.root)
