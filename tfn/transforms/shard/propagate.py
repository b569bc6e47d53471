"""Propagation: how each value of a function would best be divided, before anything is decided.

Forward, a value is divided as its operands are; backward, a value that nothing divides yet is
divided as its users are, so that constants, counters, random bits and gradients are computed in
the parts that are needed.  `partition` takes the result as a preference, which a cost may overrule.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from math import inf, prod
from typing import Any

from tfn._support.frozen import frozen
from tfn.trace.axes import AXES, POINTWISE, Row, running_op
from tfn.trace.jaxpr import param
from tfn.trace.op import LOOPS, Op, Shape
from tfn.trace.regions import form, results
from tfn.trace.sharding import OPEN, Names, Partition, Spec
from tfn.trace.uop import UOp, walk
from tfn.transforms.shard.factors import Factors, divides, factors_of
from tfn.transforms.shard.halo import part_size
from tfn.transforms.shard.layout import undivided as undivided

Assignment = dict[int, Names]
"""The axes of the mesh that divide each factor."""


def is_divided(spec: Spec) -> bool:
    """Whether an axis is divided."""
    return any(spec)


def refines(spec: Spec, other: Spec) -> bool:
    """Whether a spec divides each axis as another one does, and some of them further."""
    pairs = list(zip(spec, other, strict=True))
    return spec != other and all(a[: len(b)] == b for a, b in pairs)


def assigned(
    rows: Sequence[tuple[Row, Spec]],
    factors: Factors,
    sizes: Mapping[str, int],
    omitted: Collection[int] = (),
) -> Assignment:
    """The factors divided as the rows are, earlier rows first; what conflicts is left out."""
    result: Assignment = {}
    used: set[str] = set()
    for row, spec in rows:
        for factor, names in zip(row, spec, strict=True):
            if factor is None or factor in result or factor in omitted:
                continue
            taken: Names = ()
            for name in names:
                if name in used or not factors.allows(factor, (*taken, name), sizes):
                    break
                taken = (*taken, name)
            if taken:
                result[factor] = taken
                used.update(taken)
    return result


def relocated(row: Row, spec: Spec, factors: Factors, sizes: Mapping[str, int]) -> Assignment:
    """The factors divided as an operand is, and over the axes that cannot stay where they are.

    An axis of the mesh that divides an axis of which the op needs the whole divides the longest
    other one: an all-to-all before, instead of a gather.
    """
    parts = {f: prod([sizes[n] for n in names]) for f, names in zip(row, spec) if f is not None}
    refused = {f for f in factors.crossed if factors.crossed[f].received(parts.get(f, 1)) == inf}
    result = assigned([(row, spec)], factors, sizes, refused)
    used = {name for names in result.values() for name in names}
    free = [f for f in row if f is not None and f not in factors.crossed]
    for name in [name for names in spec for name in names if name not in used]:
        for factor in sorted(free, key=lambda f: -factors.sizes[f]):
            names = (*result.get(factor, ()), name)
            if factors.sizes[factor] % prod([sizes[n] for n in names]) == 0:
                result[factor] = names
                break
    return result


def local_shape(shape: Shape, spec: Spec, sizes: Mapping[str, int]) -> Shape:
    """The shape of a part, padding included."""
    pairs = zip(shape, spec, strict=True)
    return tuple([part_size(n, prod([sizes[name] for name in names])) for n, names in pairs])


def even(shape: Shape, spec: Spec, sizes: Mapping[str, int], padded: bool = False) -> Spec:
    """A spec without what leaves padding, or with `padded` without what cannot be divided."""
    pairs = zip(shape, spec, strict=True)
    return tuple([names if divides(n, names, sizes, padded) else () for n, names in pairs])


def spec_of(row: Row, assignment: Assignment) -> Spec:
    """The spec of an operand, or of the result, under an assignment."""
    return tuple([() if factor is None else assignment.get(factor, ()) for factor in row])


def proper(arg: Partition) -> Spec:
    """The spec of a partition without axes of size 1, which divide nothing."""
    single = {axis.name for axis in arg.mesh if axis.size == 1}
    return automatic(arg.spec, single) if single else arg.spec


def manual_spec(arg: Partition, rest: Spec) -> Spec:
    """The spec of a global value whose parts in a manual region have the spec `rest`."""
    return tuple([names + more for names, more in zip(proper(arg), rest, strict=True)])


def automatic(spec: Spec, manual: Collection[Any]) -> Spec:
    """A spec without the axes of a manual region."""
    return tuple([tuple(name for name in names if name not in manual) for names in spec])


def constrained(arg: Partition, spec: Spec, shape: Shape) -> Spec:
    """The spec that a constraint asks for, where it leaves an axis open as it is.

    An axis that is shorter than its parts are many is not divided.
    """
    wanted = proper(arg)
    fixed = {name for names in wanted if names != OPEN for name in names}
    spec = tuple(
        tuple(n for n in old if n not in fixed) if names == OPEN else names
        for names, old in zip(wanted, spec, strict=True)
    )
    return even(shape, spec, {axis.name: axis.size for axis in arg.mesh}, padded=True)


def is_running(u: UOp, specs: Sequence[Spec]) -> bool:
    """Whether a SCAN of operands so divided adds up along an axis that one of the mesh divides."""
    spec = specs[-1] if specs else ()
    return bool(spec) and len(spec[0]) == 1 and running_op(u) is not None


@frozen
class Context:
    """Facts that all functions of a program share while it is divided.

    Attributes:
        sizes: of the axes of the mesh.
        factors: of the nodes that were asked for.
        forward: specs of the nodes of nested functions, by function and specs of its parameters.
    """

    sizes: Mapping[str, int]
    factors: dict[UOp, Factors] = field(default_factory=dict)
    forward: dict[tuple[UOp, tuple[Spec, ...]], Propagation] = field(default_factory=dict)

    def factors_of(self, u: UOp) -> Factors:
        """The factors of an op of the table `AXES`."""
        factors = self.factors.get(u)
        if factors is None:
            factors = self.factors[u] = factors_of(u)
        return factors

    def propagated(self, f: UOp, specs: Sequence[Spec]) -> Propagation:
        """The specs of the values of a function, forward, from those of its parameters."""
        key = f, tuple(specs)
        result = self.forward.get(key)
        if result is None:
            known = {param(p): spec for p, spec in zip(f.arg.params, specs, strict=True)}
            result = self.forward[key] = Propagation(self, f.src, known)
        return result


class Propagation:
    """Specs of the values of one function.

    Attributes:
        order: its nodes, sources first.
        spec: by node the spec that follows from operands; a list for several results.
    """

    def __init__(self, context: Context, outputs: Sequence[UOp], known: Mapping[UOp, Spec]) -> None:
        self.context = context
        self.sizes = context.sizes
        self.outputs = outputs
        self.spec: dict[UOp, Any] = dict(known)
        self.order = [u for u in walk(outputs) if u.op is not Op.FUNCTION]
        for u in self.order:
            if u not in self.spec:
                self.spec[u] = self._of(u)

    @property
    def results(self) -> list[Spec]:
        """The specs of the outputs."""
        return [self.spec[u] for u in self.outputs]

    def _of(self, u: UOp) -> Any:
        if u.op in POINTWISE:
            specs = {spec for spec in [self.spec[s] for s in u.src] if is_divided(spec)}
            if len(specs) <= 1:
                return specs.pop() if specs else self.spec[u.src[0]]
        if u.op in AXES:
            factors = self.context.factors_of(u)
            rows = [(row, self.spec[s]) for row, s in zip(factors.operands, u.src)]
            by_size = sorted(range(len(rows)), key=lambda i: -u.src[i].size * any(rows[i][1]))
            assignment = assigned([rows[i] for i in by_size], factors, self.sizes)
            spec = spec_of(factors.result, assignment)
            if u.op in (Op.SORT, Op.HOST, Op.KERNEL):
                return self._each(u, spec)
            return spec
        if u.op is Op.GET:
            return self.spec[u.src[0]][u.arg]
        if u.op is Op.TUPLE:
            return [self.spec[s] for s in u.src]
        if u.op is Op.SHARD:
            return automatic(self.spec[u.src[0]], u.arg.manual)
        if u.op is Op.UNSHARD:
            return manual_spec(u.arg, self.spec[u.src[0]])
        if u.op is Op.CONSTRAIN:
            return constrained(u.arg, self.spec[u.src[0]], u.shape)
        if u.op in LOOPS:
            return self.loop(u)
        return undivided(u.ndim)

    def _each(self, u: UOp, spec: Spec) -> list[Spec]:
        types = results(u)
        return [spec if len(spec) == len(shape) else undivided(len(shape)) for shape, _ in types]

    def inner(self, f: UOp, specs: Sequence[Spec]) -> list[Spec]:
        """The specs of the outputs of a nested function."""
        return self.context.propagated(f, specs).results

    def loop(self, u: UOp) -> list[Spec]:
        """Carries as they begin, or as the body leaves them if they are not divided at first.

        Of branches the first counts.
        """
        parts = form(u, [self.spec.get(s) for s in u.src])
        if parts.tests:
            return list(parts.carries)
        body, n = form(u).functions[0], len(parts.carries)
        slices = parts._replace(arrays=tuple([spec[1:] for spec in parts.arrays]))
        out = self.inner(body, slices.taken(0))
        settled = tuple(
            new if is_divided(new) and not is_divided(old) else old
            for old, new in zip(parts.carries, out)
        )
        if settled != parts.carries:
            out = self.inner(body, slices._replace(carries=settled).taken(0))
        if u.op is not Op.SCAN:
            return out
        along = parts.arrays[-1][0] if is_running(u, parts.operands) else ()
        return [*settled, *((along, *spec) for spec in out[n:])]

    def backward(self, wishes: Sequence[Spec | None]) -> dict[UOp, Any]:
        """By node the spec that users would like of a value that is not divided.

        Args:
            wishes: for the outputs.
        """
        asked = _Wishes(self)
        for u, wish in zip(self.outputs, wishes, strict=True):
            asked.ask(u, wish)
        for u in reversed(self.order):
            asked.pass_on(u)
        return asked.wish


class _Wishes:
    """Wishes of users, in the making."""

    def __init__(self, propagation: Propagation) -> None:
        self.context, self.spec = propagation.context, propagation.spec
        self.wish: dict[UOp, Any] = {}

    def ask(self, u: UOp, wish: Spec | None) -> None:
        """One user's wish for a value."""
        if wish is None or not is_divided(wish):
            return
        if u.op is Op.GET:
            wishes = self.wish.setdefault(u.src[0], {})
            wishes[u.arg] = wish if wishes.get(u.arg, wish) == wish else None
        elif u.op is not Op.CONST and refines(wish, self.spec[u]):
            # Users that differ leave it as it is: each of them takes its part of it for nothing.
            self.wish[u] = wish if self.wish.get(u, wish) == wish else None

    def pass_on(self, u: UOp) -> None:
        """The wish for a value, or how it is divided, as wishes for its operands."""
        if u.op in (Op.SHARD, Op.CONSTRAIN):
            wish = tuple(() if names == OPEN else names for names in proper(u.arg))
            self.ask(u.src[0], even(u.src[0].shape, wish, self.context.sizes, padded=True))
        elif u.op in AXES and u.op not in (Op.SORT, Op.HOST, Op.KERNEL):
            wish = self.wish.get(u) or self.spec[u]
            if not is_divided(wish):
                return
            if u.op in POINTWISE:
                for s in u.src:
                    self.ask(s, wish)
                return
            factors = self.context.factors_of(u)
            assignment = assigned([(factors.result, wish)], factors, self.context.sizes)
            for s, row in zip(u.src, factors.operands, strict=True):
                self.ask(s, spec_of(row, assignment))
