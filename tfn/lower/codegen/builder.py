"""IR builder: instructions written by a Python program, at the stage LINEAR.

with code.loop(0, 8) as i:                              for i in 0..7:
    with code.when(code.load(x, i) < limit):                if x[i] < limit:
        code.store(x, i, limit)                                 x[i] = limit

Loads and stores keep their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tfn.dtypes import INT64, DType
from tfn.lower.codegen.loop_scopes import NOT_INSTRUCTIONS, Scopes
from tfn.lower.index.affine import affine, sum_node
from tfn.trace import build
from tfn.trace.argument import Access
from tfn.trace.grid_argument import LocalMemory
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const

Index = UOp | int
LoopBody = Callable[..., None]
"""The body of a loop: called with its counter, or with several consecutive ones."""


class Builder:
    """Instructions so far, in the loops that are open."""

    def __init__(self, scopes: Scopes | None = None) -> None:
        self.scopes = scopes or Scopes()
        self.memories = self.barriers = 0

    def place(self, u: UOp) -> UOp:
        """Place an expression, operands first, each in the innermost loop it depends on."""
        if u not in self.scopes.placed and u.op not in NOT_INSTRUCTIONS:
            for s in u.src:
                self.place(s)
            self.scopes.place(u)
        return u

    def load(self, buffer: UOp, index: UOp, lanes: int = 1, where: UOp | None = None) -> UOp:
        """The present value of an element, of several in a row, or of those at a vector of indices.

        It is zero unless the predicate `where` holds.  Loads of one address in one loop are the
        same node, also with a store between them: expressions of the first that were placed before
        are not computed anew for the second.
        """
        access = Access(0, lanes, int(lanes > 1))
        src = buffer, self._address(index), *self._predicate(where)
        return self.scopes.append(UOp(Op.LOAD, src, access))

    def store(self, buffer: UOp, index: UOp, value: UOp, where: UOp | None = None) -> None:
        """Write an element, or a vector of them from an index on, if the predicate holds."""
        src = buffer, self._address(index), self.place(value), *self._predicate(where)
        access = Access(0, *((value.shape[0], 1) if value.shape else (1, 0)))
        self.scopes.append(UOp(Op.STORE, src, access))

    def prefetch(self, buffer: UOp, index: UOp) -> None:
        """Prefetch the cache line of an element; the index may be out of bounds."""
        self.scopes.append(UOp(Op.PREFETCH, (buffer, self._address(index)), Access(0, 1, 0)))

    def _predicate(self, where: UOp | None) -> tuple[UOp, ...]:
        return () if where is None else (self.place(where),)

    # Groups of threads.

    def local_memory(self, size: int, dtype: DType) -> UOp:
        """Memory that the threads of a group share."""
        self.memories += 1
        return UOp(Op.LOCAL_MEMORY, (), LocalMemory(self.memories - 1, (size,), dtype))

    def barrier(self) -> None:
        """All threads of the group wait for each other, and see what the others have written."""
        self.barriers += 1
        self.scopes.append(UOp(Op.BARRIER, (), self.barriers))

    def exchange(self, value: UOp, distance: int) -> UOp:
        """The value of the thread of the warp whose number differs in one bit."""
        return self.scopes.append(UOp(Op.EXCHANGE, (self.place(value),), distance))

    def _address(self, index: UOp) -> UOp:
        """An index as a sum whose constant comes last: there it is an offset of the address."""
        return self.place(index if index.shape else sum_node(*affine(index), index))

    # Loops.

    def open(self, begin: Index, end: Index) -> UOp:
        """Open a loop and return its counter."""
        return self.scopes.open(self.place(_index(begin)), self.place(_index(end)))

    def open_endless(self) -> UOp:
        """Open a loop that is ended by `leave_unless`."""
        return self.scopes.open(const(0, INT64))

    def leave_unless(self, loop: UOp, condition: UOp) -> None:
        """Leave an endless loop unless a condition holds."""
        self.scopes.append(UOp(Op.LEAVE, (loop, self.place(condition))))

    def carry(self, loop: UOp, first: UOp) -> UOp:
        """A loop-carried value; the loop is endless or has constant bounds."""
        return self.scopes.append(UOp(Op.ACCUMULATOR, (loop, self.place(first)), 0))

    def close(self, loop: UOp, *carried: tuple[UOp, UOp]) -> None:
        """Close a loop, given (carry, its next value) for all that it carries."""
        following = [self.place(value) for _, value in carried]
        self.scopes.close(loop, [carry for carry, _ in carried], following)

    @contextmanager
    def loop(self, begin: Index, end: Index) -> Iterator[UOp]:
        """A loop that carries nothing, for the length of a block."""
        loop = self.open(begin, end)
        yield loop
        self.close(loop)

    @contextmanager
    def when(self, condition: UOp) -> Iterator[None]:
        """A block that runs only where a condition holds: a loop of one iteration, or of none."""
        with self.loop(0, build.cast(condition, INT64)):
            yield

    def unrolled_loop(self, begin: Index, end: Index, body: LoopBody, unroll: int) -> None:
        """A loop unrolled by a factor, with loops for the iterations before and after.

        Unrolled groups begin at multiples of the factor, so that none crosses `end`.
        """
        if unroll > 1:
            first, last = (begin + (unroll - 1)) // unroll, end // unroll
            if _index(begin) is not _index(0):
                aligned = self.place(build.minimum(_index(first * unroll), _index(end)))
                self.unrolled_loop(begin, aligned, body, 1)
                begin = aligned
            with self.loop(first, last) as i:
                body(*(i * unroll + j for j in range(unroll)))
            if isinstance(end, int) and end % unroll == 0:
                return
            begin = build.maximum(_index(last * unroll), _index(begin))
        with self.loop(begin, end) as i:
            body(i)


def _index(x: Index) -> UOp:
    return const(x, INT64) if isinstance(x, int) else x
