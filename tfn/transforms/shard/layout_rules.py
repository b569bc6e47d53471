"""Rules of layouts: how a value is divided over explicit axes, from how its operands are.

The factors of the table `AXES` say it: an axis of the mesh that divides an axis of an operand
divides the factor that runs along it, and so the axes of the result that the factor runs along::

    dot  x:[8@x,4] w:[4,8@y]    factors m over x, n over y     result [8@x,8@y]
    dot  x:[8,4@y] w:[4@y,8]    k is summed and divided twice  an error
    add  x:[8@x,4] y:[8@y,4]    one factor, divided twice      an error

Read strictly, a graph of the user that has no rule is an error; graphs that transforms have made
are not read strictly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tfn.errors import ShardingTypeError
from tfn.trace import traces
from tfn.trace.aval import Kind
from tfn.trace.axes import AXES, POINTWISE, running_op
from tfn.trace.jaxpr import Jaxpr, function, param
from tfn.trace.op import LOOPS, SEVERAL, Op
from tfn.trace.regions import form, results
from tfn.trace.sharding import OPEN, Names, Partition, Spec
from tfn.trace.uop import UOp, remembered, walk
from tfn.transforms.shard.factors import Factors, factors_of
from tfn.transforms.shard.layout import (
    Layout,
    is_resolved_outside,
    joined,
    like,
    of,
    of_sharding,
    show,
    within,
)
from tfn.transforms.shard.propagate import assigned, even, is_divided, spec_of, undivided


def check(u: UOp, trace: traces.Trace, derived: bool = False) -> None:
    """Raise unless a layout of the value of a trace follows from those of its operands.

    A value that is `derived` has one in any case.

    Raises:
        ShardingTypeError: naming the op, and the types of its operands.
    """
    Reading(trace.layouts, not (derived or is_resolved_outside())).of(u)


def check_jaxpr(jaxpr: Jaxpr, kinds: Sequence[Kind]) -> None:
    """The same for the outputs of a function of arguments of these kinds."""
    layouts = [of_sharding(kind.sharding, len(kind.shape)) for kind in kinds]
    known = dict(zip(map(param, jaxpr.params), layouts, strict=True))
    reading = Reading(known, True)
    for u in jaxpr.outputs:
        reading.of(u)


def settled(f: UOp, layouts: Sequence[Layout | None]) -> tuple[UOp, list[Layout | None]]:
    """A function with results that are divided as their types say, and their layouts."""
    changed, found = _settled(f, tuple(layouts))
    return changed or f, found


@remembered
def _settled(f: UOp, layouts: tuple[Layout | None, ...]) -> tuple[UOp | None, list[Layout | None]]:
    """None for a function that stays as it is: it must not remember itself, or it would never die.

    Another one lives as long as the first: profiles make its program once more.
    """
    reading = Reading(dict(zip(map(param, f.arg.params), layouts, strict=True)))
    found = [reading.of(u) for u in f.src]
    outputs = [like(u, layout) for u, layout in zip(f.src, found, strict=True)]
    changed = function(outputs, f.arg.params)
    return (None if changed is f else changed), found


_Found = Any  # a Layout, None, or a list of them for an op of several results


class Reading:
    """The layouts of the nodes of graphs, sources first.

    Args:
        known: by node; what is found is added.
        strict: whether what disagrees is an error.
    """

    def __init__(self, known: dict[UOp, _Found], strict: bool = False) -> None:
        self.known, self.strict = known, strict

    def of(self, root: UOp) -> _Found:
        """The layout of a node."""
        known = self.known
        if root in known:
            return known[root]
        for u in walk([root], lambda u: u not in known):
            if u not in known and u.op is not Op.FUNCTION:
                known[u] = self._of(u)
        return known[root]

    def _of(self, u: UOp) -> _Found:
        if u.op is Op.LEAF:
            value = u.arg.value
            if u.arg.layout is not None:
                return u.arg.layout
            return of(value) if value is not None and hasattr(value, "kind") else None
        rule = _STRUCTURE.get(u.op)
        if rule is not None:
            return rule(self, u)
        operands = [s for s in u.src if s.op is not Op.FUNCTION]
        found = [self.known.get(s) for s in operands]
        layouts = [x for x in found if isinstance(x, Layout)]
        if not layouts:
            return [None] * len(results(u)) if u.op in SEVERAL else None
        result = self._by_factors(u, operands, found, layouts)
        if u.op not in SEVERAL:
            return self._sums(u, operands, found, result)
        types = results(u)
        whole = [result.over(undivided(len(shape))) for shape, _ in types]
        return [
            result if len(result.spec) == len(shape) else other
            for (shape, _), other in zip(types, whole, strict=True)
        ]

    def _by_factors(
        self,
        u: UOp,
        operands: Sequence[UOp],
        found: Sequence[Layout | None],
        layouts: Sequence[Layout],
    ) -> Layout:
        first = layouts[0]
        if u.op in POINTWISE and len({x.spec for x in layouts}) == 1:
            return first.over(first.spec)
        if u.op in _UNCHANGED:
            return first.over(first.spec if len(first.spec) == u.ndim else undivided(u.ndim))
        if u.op not in AXES:
            return first.over(undivided(u.ndim))
        factors = factors_of(u)
        result = _KEPT[u.op](u, factors) if u.op in _KEPT else factors.result
        if self.strict:
            spec = _Rules(u, operands, found).spec(factors, result)
            if u.op is Op.GATHER and len(layouts) > 1:
                _Rules(u, operands, found).check_gather(found)
        else:
            rows = [
                (row, x.spec)
                for row, x in zip(factors.operands, found, strict=True)
                if x is not None
            ]
            spec = spec_of(result, assigned(rows, factors, first.sizes))
        if not self.strict and len(spec) == u.ndim:
            spec = even(u.shape, spec, first.sizes)
        return first.over(spec)

    def _sums(
        self, u: UOp, operands: Sequence[UOp], found: Sequence[Layout | None], result: Layout
    ) -> Layout:
        """The layout with what has to be added up."""
        unreduced = {x.unreduced for x in found if x is not None and x.unreduced}
        reduced = {x.reduced for x in found if x is not None and x.reduced}
        if not unreduced and not reduced:
            return result
        if u.op is Op.AFTER:
            found = found[:1]
        some = unreduced.pop() if len(unreduced) == 1 else ()
        others = [x for x in found if x is None or x.unreduced != some]
        if some and not others and (u.op in _LINEAR or (u.op is Op.REDUCE and u.arg.op is Op.ADD)):
            return replace(result, unreduced=some)
        if some and u.op is Op.MUL and len(others) == 1:
            (other,) = others
            if other is not None and set(other.reduced) >= set(some):
                return replace(result, unreduced=some)
        if unreduced or some:
            if self.strict:
                raise _Rules(u, operands, found).unreduced()
            return result
        kept = reduced.pop() if len(reduced) == 1 else ()
        if u.op in POINTWISE or u.op in _LINEAR:
            if kept and all(x is None or x.reduced == kept for x in found):
                return replace(result, reduced=kept)
            if self.strict:
                raise _Rules(u, operands, found).reduced()
        return result

    # Structure.

    def _get(self, u: UOp) -> _Found:
        found = self.known.get(u.src[0])
        return found[u.arg] if isinstance(found, list) else None

    def _tuple(self, u: UOp) -> _Found:
        return [self.known.get(s) for s in u.src]

    def _shard(self, u: UOp) -> _Found:
        return within(self.known.get(u.src[0]), u.arg.manual)

    def _unshard(self, u: UOp) -> _Found:
        arg: Partition = u.arg
        if not arg.explicit:
            return None
        inner = self.known.get(u.src[0])
        within = inner.spec if inner is not None else undivided(u.ndim)
        spec = [
            (*[n for n in names if n in arg.explicit], *more)
            for names, more in zip(arg.spec, within, strict=True)
        ]
        return Layout(arg.mesh, arg.explicit, tuple(spec))

    def _constrain(self, u: UOp) -> _Found:
        arg: Partition = u.arg
        if not arg.explicit:
            return None
        before = self.known.get(u.src[0])
        old = before.spec if before is not None else undivided(u.ndim)
        fixed = {n for names in arg.spec if names != OPEN for n in names}
        spec = [
            tuple([n for n in was if n not in fixed])
            if names == OPEN
            else tuple([n for n in names if n in arg.explicit])
            for names, was in zip(arg.spec, old, strict=True)
        ]
        return Layout(arg.mesh, arg.explicit, tuple(spec), arg.unreduced, arg.reduced)

    def inner(self, f: UOp, found: Sequence[Layout | None]) -> list[Layout | None]:
        """The layouts of the outputs of a nested function."""
        reading = Reading(dict(zip(map(param, f.arg.params), found, strict=True)))
        return [reading.of(u) for u in f.src]

    def _region(self, u: UOp) -> _Found:
        """Carries as they begin, if that is known, and else as the body leaves them."""
        parts = form(u, [self.known.get(s) for s in u.src])
        if parts.tests:
            return list(parts.carries)
        slices = tuple([x and x.without_axis(0) for x in parts.arrays])
        out = self.inner(form(u).functions[0], parts._replace(arrays=slices).taken(0))
        if u.op is not Op.SCAN:
            return out
        carries = [a or b for a, b in zip(parts.carries, out)]
        last = parts.arrays[-1] if parts.arrays else None
        along = last.spec[0] if last and running_op(u) is not None else ()
        ys = [x and replace(x, spec=(along, *x.spec)) for x in out[len(carries) :]]
        return [*carries, *ys]


_STRUCTURE: dict[Op, Callable[[Reading, UOp], _Found]] = {
    Op.GET: Reading._get,
    Op.TUPLE: Reading._tuple,
    Op.SHARD: Reading._shard,
    Op.UNSHARD: Reading._unshard,
    Op.CONSTRAIN: Reading._constrain,
    **dict.fromkeys(LOOPS | {Op.CUSTOM}, Reading._region),
    Op.AXIS: lambda self, u: None,
}
"""Ops that are no single loop nest."""

_UNCHANGED = frozenset({Op.FFT, Op.DETACH, Op.AFTER})
"""Ops whose results are divided as their first operand is, along all axes."""
_LINEAR = frozenset(
    {
        *(Op.ADD, Op.SUB, Op.NEG, Op.CAST, Op.PERMUTE, Op.RESHAPE, Op.EXPAND, Op.SHRINK, Op.PAD),
        *(Op.FLIP, Op.CONCAT, Op.DETACH, Op.AFTER, Op.GBARRIER),
    }
)
"""Ops of parts that have still to be added up: the result is the sum of the results of parts."""
_CROSSED = frozenset({Op.PAD, Op.SHRINK, Op.FLIP, Op.CONCAT, Op.CONV, Op.REDUCE})
"""Ops that may exchange rows along a divided axis, as they do in JAX."""

_KEPT: dict[Op, Callable[[UOp, Factors], Any]] = {
    Op.SHRINK: lambda u, factors: factors.operands[0],
}
"""Ops whose results are divided along other axes than the partitioner prefers."""


class _Rules:
    """The layout of the result of one op, or the error that there is none."""

    def __init__(self, u: UOp, operands: Sequence[UOp], found: Sequence[Layout | None]) -> None:
        self.u, self.operands, self.found = u, operands, found

    def error(self, what: str, hint: str) -> ShardingTypeError:
        """An error that shows the types of the operands."""
        pairs = zip(self.operands, self.found)
        got = ", ".join([show(s, x) for s, x in pairs if s.ndim or x is not None])
        return ShardingTypeError(f"{self.u.op.value} {what}", got=got, hint=hint)

    def spec(self, factors: Factors, result: Any) -> Spec:
        """The spec of the result."""
        if len({x.mesh for x in self.found if x is not None}) > 1:
            raise self.error(
                "got arrays over different meshes",
                "tfn.device_put brings one of them to the mesh of the other",
            )
        chosen: dict[int, Names] = {}
        count: dict[int, int] = {}
        for row, layout in zip(factors.operands, self.found, strict=True):
            for axis, names in enumerate(layout.spec if layout is not None else ()):
                if names:
                    self._choose(chosen, count, factors, row[axis], axis, names)
        for factor in factors.reduced:
            if count.get(factor, 0) > 1:
                raise self.error(
                    f"sums over axes that {joined(chosen[factor])!r} divides, and how the result "
                    "is divided does not follow",
                    f"{self._out_sharding()}; P(unreduced={{{chosen[factor][0]!r}}}) leaves the "
                    "sum to a later reshard",
                )
        spec = spec_of(result, chosen)
        used: list[str] = []
        for name in [name for names in spec for name in names]:
            if name in used:
                raise self.error(
                    f"gives a result of which {name!r} divides two axes",
                    "tfn.reshard divides an operand in another way before; " + self._out_sharding(),
                )
            used.append(name)
        sizes = next(x.sizes for x in self.found if x is not None)
        if len(spec) == self.u.ndim and even(self.u.shape, spec, sizes) != spec:
            shape = ",".join(map(str, self.u.shape))
            raise self.error(
                f"gives a result of shape [{shape}], which cannot be divided as its operand is",
                "tfn.reshard divides the operand in another way before",
            )
        return spec

    def _choose(
        self,
        chosen: dict[int, Names],
        count: dict[int, int],
        factors: Factors,
        factor: int | None,
        axis: int,
        names: Names,
    ) -> None:
        """Take the division of an axis of an operand for that of a factor."""
        op, by = self.u.op, repr(joined(names))
        if factor is None:
            if op in (Op.HOST, Op.KERNEL):
                return
            raise self.error(
                f"cannot keep the division of axis {axis} over {by}", self._out_sharding()
            )
        if factor in factors.crossed and op not in _CROSSED:
            if op in (Op.GATHER, Op.SCATTER):
                raise self.error(
                    f"looks up rows of an axis that {by} divides, and how the result is divided "
                    "does not follow",
                    "x.at[indices].get(out_sharding=...) says it, or tfn.reshard gathers the axis "
                    "before",
                )
            raise self.error(
                f"needs the whole of an axis that {by} divides",
                "tfn.reshard gathers the axis before, or divides another one",
            )
        if chosen.setdefault(factor, names) != names:
            raise self.error(
                f"got arrays of which one axis is divided over {joined(chosen[factor])!r} and "
                f"over {by}",
                "tfn.reshard brings one of them to the sharding of the other",
            )
        count[factor] = count.get(factor, 0) + 1

    def check_gather(self, found: Sequence[Layout | None]) -> None:
        """Raise if rows and indices are divided, beside batches: either may be gathered."""
        batch = self.u.arg.batch
        rows, points = (x is not None and is_divided(x.spec[batch:]) for x in found)
        if rows and points:
            raise self.error(
                "looks up divided rows by divided indices, and how the result is divided does not "
                "follow",
                "x.at[indices].get(out_sharding=...) says it",
            )

    def _out_sharding(self) -> str:
        if self.u.op in (Op.DOT, Op.RESHAPE, Op.GATHER):
            return "out_sharding=P(...) says how the result is divided"
        return "tfn.reshard divides the operand in another way before"

    def unreduced(self) -> ShardingTypeError:
        """The error for parts that have to be added up before the op."""
        return self.error(
            "got parts that have still to be added up",
            "tfn.reshard to a spec without unreduced adds them up",
        )

    def reduced(self) -> ShardingTypeError:
        """The error for an operand that is reduced, and another one that is not."""
        return self.error(
            "got arrays of which not all are reduced over the same axes",
            "tfn.reshard brings one of them to the spec of the other",
        )
