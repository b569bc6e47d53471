"""Instructions written by hand, at the stage LINEAR: loads and stores stay in their order.

with code.each(0, 8) as i:                              for i in 0..7:
    with code.when(code.load(x, i) < limit):                if x[i] < limit:
        code.store(x, i, limit)                                 x[i] = limit
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tfn.dtypes import INT64
from tfn.lower.codegen.loop_scopes import Scopes
from tfn.lower.index.affine import affine, total
from tfn.trace import build
from tfn.trace.argument import Access
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

Index = UOp | int
Body = Callable[..., None]
"""What a loop does with its counter, or with several at once."""


class Code:
    """Instructions so far, in the loops that are open."""

    def __init__(self) -> None:
        self.scopes = Scopes()

    def let(self, u: UOp) -> UOp:
        """Place what a value needs and has not been placed."""
        if u not in self.scopes.placed and u.op not in (Op.CONST, Op.PARAM):
            for s in u.src:
                self.let(s)
            self.scopes.add(u)
        return u

    def load(self, buffer: UOp, at: UOp) -> UOp:
        """An element as it is now.

        Loaded again in the same loop it has the same name: what was made of it is not made anew.
        """
        return self.scopes.here(UOp(Op.LOAD, (buffer, self._address(at)), Access(0, 1, 0)))

    def store(self, buffer: UOp, at: UOp, value: UOp) -> None:
        """Write an element."""
        src = buffer, self._address(at), self.let(value)
        self.scopes.here(UOp(Op.STORE, src, Access(0, 1, 0)))

    def prefetch(self, buffer: UOp, at: UOp) -> None:
        """Ask for the line of an element that is wanted soon; it need not be there."""
        self.scopes.here(UOp(Op.PREFETCH, (buffer, self._address(at)), Access(0, 1, 0)))

    def _address(self, at: UOp) -> UOp:
        """As a sum whose constant comes last, where it is part of an address."""
        return self.let(total(*affine(at), at))

    # Loops.

    def open(self, begin: Index, end: Index) -> UOp:
        """Begin a loop; gives its counter."""
        return self.scopes.open(self.let(_index(begin)), self.let(_index(end)))

    def endless(self) -> UOp:
        """Begin a loop that is ended by `leave`."""
        return self.scopes.open(const(0, INT64))

    def leave(self, loop: UOp, going: UOp) -> None:
        """End an endless loop unless a condition holds."""
        self.scopes.here(UOp(Op.LEAVE, (loop, self.let(going))))

    def carry(self, loop: UOp, first: UOp) -> UOp:
        """What goes from iteration to iteration of a loop that is endless, or has constant ends."""
        return self.scopes.here(UOp(Op.ACCUMULATOR, (loop, self.let(first)), 0))

    def close(self, loop: UOp, *carried: tuple[UOp, UOp]) -> None:
        """End a loop; what it carries goes on with these values."""
        following = [self.let(value) for _, value in carried]
        self.scopes.close(loop, [u for u, _ in carried], following)

    @contextmanager
    def each(self, begin: Index, end: Index) -> Iterator[UOp]:
        """A loop that carries nothing."""
        loop = self.open(begin, end)
        yield loop
        self.close(loop)

    @contextmanager
    def when(self, condition: UOp) -> Iterator[None]:
        """What is done only where a condition holds: a loop of one iteration, or of none."""
        with self.each(0, build.cast(condition, INT64)):
            yield

    def over(self, begin: Index, end: Index, body: Body, at_once: int) -> None:
        """A loop that does so many iterations at once, and loops for those before and after.

        Groups are counted from 0, not from `begin`, so that none goes beyond `end`.
        """
        if at_once > 1:
            first, last = (begin + (at_once - 1)) // at_once, end // at_once
            if _index(begin) is not _index(0):
                whole = self.let(build.minimum(_index(first * at_once), _index(end)))
                self.over(begin, whole, body, 1)
                begin = whole
            with self.each(first, last) as i:
                body(*(i * at_once + j for j in range(at_once)))
            if isinstance(end, int) and end % at_once == 0:
                return
            begin = build.maximum(_index(last * at_once), _index(begin))
        with self.each(begin, end) as i:
            body(i)


def _index(x: Index) -> UOp:
    return const(x, INT64) if isinstance(x, int) else x
