"""Masking: a program for padded arrays that computes what the function does of the exact ones.

Each axis that has a size of its own is padded to the size of the bucket, and the true sizes are
scalars, which the program takes.  A value is right where all its indices are below the true sizes;
what is beyond, its tail, is anything, NaN too.  A rule keeps tails of operands out of the elements
of the result that are right::

    reduce[add] x             ->   reduce[add] (select (iota < b) x 0)
    rev x                     ->   gather x (b - 1 - iota)
    reshape[(3*b,)] x[b,3]    ->   reshape x                   axes behind the first are exact
    reshape[(3*b,)] x[3,b]    ->   gather x (...)              the tail is between the elements

Most ops compute an element from those at its own place, and need no rule of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from tfn.buckets.unified import Unified, quotients, with_quotients
from tfn.dtypes import INT32, INT64, DType
from tfn.errors import ShapeError
from tfn.exporting.symbolic_dims import Numbers, Polynomial
from tfn.extend import Jaxpr, Op, UOp, argument, build, const, frozen, function, inline, param, walk

Size = int | Polynomial


@frozen
class Padded:
    """A value in a padded array.

    Attributes:
        node: the padded array.
        shape: the true sizes.
        zero: the axes along which its tail is zero.
    """

    node: UOp
    shape: tuple[Size, ...]
    zero: frozenset[int] = frozenset()

    @property
    def open(self) -> list[int]:
        """The axes that are padded."""
        return [i for i, n in enumerate(self.shape) if isinstance(n, Polynomial)]


Rule = Callable[["Scope", "Row", list[Any]], Any]
"""From a row and its masked sources to the masked node, or a list of results."""


@frozen
class Row:
    """An operation: its node on padded operands that are not masked, and its true sizes.

    Attributes:
        node: of the function at the sizes of the bucket.
        arg: its argument, with polynomials.
        shape: the true sizes of its value.
        line: of the user.
        src: the numbers of its sources.
    """

    node: UOp
    arg: Any
    shape: tuple[Size, ...]
    line: str
    src: tuple[int, ...]


class Masking:
    """A function in the making: its operations at the sizes of a bucket."""

    def __init__(self, whole: Unified, capacities: Numbers, rules: Mapping[Op, Rule]) -> None:
        self.name, self.capacities, self.rules = whole.name, capacities, rules
        self.widest = with_quotients(capacities)
        nodes = whole.at(capacities)
        self.rows = [
            Row(u, arg, shape, line, src)
            for u, (_, src, arg), shape, line in zip(
                nodes, whole.rows, whole.shapes, whole.lines, strict=True
            )
        ]
        self.functions: dict[int, tuple[UOp, bool]] = {}

    def masked(self, zero: bool = True) -> UOp:
        """The function of the sizes, by the order of their names, and of padded arguments.

        Raises:
            ShapeError: naming an operation that cannot keep the tail out, and its line.
        """
        return self._function(len(self.rows) - 1, zero)

    def function(self, number: int) -> tuple[UOp, bool]:
        """A nested function that takes the sizes first, and whether it uses them."""
        if number not in self.functions:
            made = self._function(number)
            sizes = [param(p) for p in made.arg.params[: len(self.capacities)]]
            self.functions[number] = made, not set(walk(made.src)).isdisjoint(sizes)
        return self.functions[number]

    def _function(self, number: int, zero: bool = False) -> UOp:
        row, count = self.rows[number], len(self.capacities)
        sizes = tuple(argument.Param(i, (), INT32) for i in range(count))
        params = tuple(replace(p, index=p.index + count) for p in row.node.arg.params)
        scope = Scope(self, dict(zip(self.capacities, map(param, sizes), strict=True)), zero)
        return function([scope.values[i].node for i in scope.run(row.src)], (*sizes, *params))


def without(f: UOp, count: int) -> UOp:
    """A function without its first parameters, which it does not use."""
    first, rest = f.arg.params[:count], f.arg.params[count:]
    params = tuple(replace(p, index=p.index - count) for p in rest)
    return function(inline(Jaxpr(f), [*map(param, first), *map(param, params)]), params)


class Scope:
    """The values of one function, over its parameters.

    Attributes:
        whole: the function that it is in.
        sizes: the scalar of each size.
        zero: whether the tails of its parameters are zero.
        values: of the rows.
    """

    def __init__(self, whole: Masking, sizes: dict[str, UOp], zero: bool) -> None:
        self.whole, self.sizes, self.zero = whole, sizes, zero
        self.values: dict[int, Any] = {}

    def run(self, outputs: tuple[int, ...]) -> tuple[int, ...]:
        """Mask the rows that outputs need."""
        rows, waiting, needed = self.whole.rows, list(outputs), set[int]()
        while waiting:
            n = waiting.pop()
            if n not in needed:
                needed.add(n)
                if rows[n].node.op is not Op.FUNCTION:
                    waiting += rows[n].src
        for n in sorted(needed):
            self.values[n] = self._value(n, rows[n])
        return outputs

    def _value(self, n: int, row: Row) -> Any:
        u = row.node
        if u.op is Op.FUNCTION:
            return n
        if u.op is Op.PARAM:
            made = param(replace(u.arg, index=u.arg.index + len(self.sizes)))
            new = Padded(made, row.shape)
            return replace(new, zero=frozenset(new.open)) if self.zero else new
        made = self.whole.rules[u.op](self, row, [self.values[i] for i in row.src])
        return Padded(made, row.shape) if isinstance(made, UOp) else made

    def number(self, size: Size, dtype: DType | None = None) -> UOp:
        """A true size as a scalar: by default of int32, or int64 where that is too short."""
        kind = dtype or self.dtype([size])
        if isinstance(size, int):
            return const(size, kind)
        total: UOp | None = None
        for symbols, factor in size.terms:
            term: UOp | None = None if factor == 1 and symbols else const(factor, kind)
            for s in symbols:
                one = build.cast(self._scalar(s), kind)
                term = one if term is None else term * one
            total = term if total is None or term is None else total + term
        assert total is not None, size
        return total if size.divisor == 1 else total // size.divisor

    def capacity(self, size: Size) -> int:
        """The padded size."""
        return size if isinstance(size, int) else size.at(self.whole.widest)

    def _scalar(self, name: str) -> UOp:
        """The size of an argument, or a quotient of one."""
        if name in self.sizes:
            return self.sizes[name]
        size, more, by = quotients(self.sizes)[name]
        return (self.sizes[size] + more) // by

    def dtype(self, sizes: Iterable[Size]) -> DType:
        """The dtype of indices into axes of these sizes."""
        most = 1
        for size in sizes:
            factors = [size] if isinstance(size, int) else [k for _, k in size.terms]
            most = max(most, *map(abs, factors), self.capacity(size))
        return INT64 if most >= 1 << 31 else INT32

    def inside(self, shape: tuple[int, ...], axis: int, size: Size) -> UOp:
        """Whether elements are below a true size along an axis."""
        line = build.iota(shape, axis, self.dtype([size]))
        return line < build.broadcast_in_dim(self.number(size), shape, ())

    def filled(self, x: Padded, axes: Iterable[int], value: Any) -> UOp:
        """The padded array with a value in its tail along some axes."""
        kept = x.zero if value == 0 else ()
        mask = self.mask(x, set(axes).difference(kept))
        return x.node if mask is None else build.where(mask, x.node, build.full_like(x.node, value))

    def mask(self, x: Padded, axes: Iterable[int]) -> UOp | None:
        """Whether elements are in front of the tail along some axes; None if none is padded."""
        mask: UOp | None = None
        for axis in sorted(set(axes).intersection(x.open)):
            inside = self.inside(x.node.shape, axis, x.shape[axis])
            mask = inside if mask is None else mask & inside
        return mask

    def refuse(self, row: Row, sources: Iterable[Any], why: str) -> ShapeError:
        """The error of an operation that cannot keep the tail out."""
        kinds = ", ".join(
            f"{s.node.dtype}[{','.join(map(str, s.shape))}]"
            for s in sources
            if isinstance(s, Padded)
        )
        return ShapeError(
            f"{self.whole.name} cannot be padded to a bucket: {row.node.op.value} {why}",
            got=f"{row.node.op.value} of {kinds}" + (f", {row.line}" if row.line else ""),
            hint="leave this axis out of the buckets, or do that in a function of its own",
        )
