"""The partitioner: from a function of global values to the program that every device runs.

One pass over the graph, sources first.  For each op the ways to divide its factors that its
operands and its users suggest are compared by the bytes that they move; operands are resharded,
the op runs on parts, and what was reduced over divided factors is combined::

    dot  x:(data, -) w:(-, model)      x and w as they are        result (data, model)
    dot  x:(-, model) w:(model, -)     partial sums               reduce over model
    dot  x:(data, -) w:(data, -)       w gathered, if it is the smaller one
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from tfn.config import config
from tfn.dtypes import FLOATS, INT32
from tfn.errors import ArgumentError
from tfn.trace.argument import Leaf, Param
from tfn.trace.axes import POINTWISE
from tfn.trace.build import bitcast, broadcast_to, full_like, several, where
from tfn.trace.inline import sealed
from tfn.trace.jaxpr import function, param
from tfn.trace.mesh import mesh_of
from tfn.trace.named_sharding import NamedSharding
from tfn.trace.named_sharding import spec_of as named_spec
from tfn.trace.op import SEVERAL, Op
from tfn.trace.regions import form
from tfn.trace.sharding import Axis, Exchange, Names, Spec
from tfn.trace.uop import UOp, reshaped
from tfn.transforms.shard.across import as_word, fft_by_axes, run_across
from tfn.transforms.shard.collective_rules import collective
from tfn.transforms.shard.factors import Factors
from tfn.transforms.shard.halo import Place
from tfn.transforms.shard.part import (
    Part,
    accumulated,
    appended,
    is_zero,
    manual_of,
    scattered,
    slice_of,
    stays_partial,
)
from tfn.transforms.shard.parts import Division, local
from tfn.transforms.shard.propagate import (
    Assignment,
    Context,
    assigned,
    automatic,
    constrained,
    even,
    is_divided,
    is_running,
    local_shape,
    manual_spec,
    relocated,
    spec_of,
    undivided,
)
from tfn.transforms.shard.reshard import cost_bytes, reshard, split

LOCAL_BYTES_WEIGHT = 0.1
"""The cost of a byte that an op reads or writes in its own memory, beside one that is received:
memory is about ten times as fast as what connects devices."""
BYTES_PER_MULTIPLY_ADD = 0.02
"""The cost of a multiply-add in bytes received: a device computes 50 of them in the time in which
a byte arrives (100 GFLOP/s beside 1 GB/s; on a GPU 2,000 and more)."""


class Partitioner:
    """Divides the values of one function.

    Args:
        mesh: the axes.
        between: those over processes, along which partial results are combined last: then a process
            sends the sum over its devices, and not what each of them has.
    """

    def __init__(self, mesh: Sequence[Axis], between: Collection[str] = ()) -> None:
        self.mesh, self.between = tuple(mesh), between
        self.axes = {axis.name: axis for axis in mesh}
        self.sizes = {axis.name: axis.size for axis in mesh}
        self.context = Context(self.sizes)
        self.index = {
            axis.name: UOp(Op.LEAF, (), Leaf((), INT32, None, f"the index along {axis.name}"))
            for axis in mesh
        }

    def run(
        self,
        f: UOp,
        params: Mapping[UOp, Part],
        wishes: Sequence[Spec | None],
        partial: Sequence[Names | None] = (),
    ) -> list[Part]:
        """The parts of the outputs of a function, from those of its parameters.

        The first outputs stay as they are if they have to be added up over `partial` axes; those
        of None stay as they are in any case.
        """
        propagation = self.context.propagated(f, [part.spec for part in params.values()])
        wish = propagation.backward(wishes)
        parts: dict[UOp, Any] = dict(params)

        def settled(u: UOp) -> Any:
            """The part of a value, added up when it is first read."""
            part = parts[u]
            if not isinstance(part, Part):
                return part
            if part.pending:
                wanted = (
                    wish.get(u) if u.op is not Op.GET else (wish.get(u.src[0]) or {}).get(u.arg)
                )
                parts[u] = part = self._added_up(part, wanted)
            return part._replace(shape=u.shape)

        for u in propagation.order:
            if u in parts:
                continue
            if u.op is Op.CONSTRAIN and u.arg.unreduced:
                parts[u] = self._unreduced(u, parts[u.src[0]])
                continue
            if u.op in SUMS:
                unsettled = self._still_pending(u, [parts[s] for s in u.src])
                if unsettled is not None:
                    parts[u] = unsettled
                    continue
            operands = [
                parts[s]._replace(shape=s.shape) if stays_partial(u, s) else settled(s)
                for s in u.src
                if s.op is not Op.FUNCTION
            ]
            rule: Rule = STRUCTURE.get(u.op, Partitioner._divide)
            parts[u] = rule(self, u, operands, wish.get(u))
        kept = [*partial, *[()] * (len(f.src) - len(partial))]
        return [
            parts[u] if names is None or (names and parts[u].pending == names) else settled(u)
            for u, names in zip(f.src, kept, strict=True)
        ]

    def _still_pending(self, u: UOp, operands: Sequence[Any]) -> Part | None:
        """A sum of partial results, itself partial, so that all are added up by one exchange."""
        first = operands[0]
        if not first.pending or any(
            (part.spec, part.pending) != (first.spec, first.pending) for part in operands
        ):
            return None
        graph = UOp(u.op, tuple(part.graph for part in operands))
        return Part(graph, first.spec, manual_of(operands), first.pending)

    def _unreduced(self, u: UOp, part: Part) -> Part:
        """A value as parts that have to be added up: partial results as they are.

        A value that is known already is that of the first device, and 0 on all others.
        """
        wanted = [n for n in u.arg.unreduced if self.sizes[n] > 1]
        graph, spec, pending = part.graph, part.spec, part.pending
        for name in [name for name in pending if name not in wanted]:
            graph, spec = self._combined(graph, spec, name, Op.ADD, None)
        rest = tuple([tuple([n for n in names if n not in wanted]) for names in spec])
        part = self.to(Part(graph, spec, part.manual, shape=u.shape), rest)
        target = constrained(replace(u.arg, unreduced=()), part.spec, u.shape)
        part = self.to(part, automatic(target, sorted({*part.manual, *wanted})))
        part = self._of_first(part, tuple([name for name in wanted if name not in pending]))
        return part._replace(pending=tuple(wanted))

    def _added_up(self, part: Part, wish: Spec | None) -> Part:
        graph, spec = part.graph, part.spec
        for name in self._nearest_first(part.pending):
            graph, spec = self._combined(graph, spec, name, Op.ADD, wish)
        return Part(graph, spec, part.manual)

    def _nearest_first(self, names: Sequence[str]) -> list[str]:
        """Axes in the order in which partial results are combined along them."""
        return sorted(names, key=lambda name: name in self.between)

    def to(self, part: Part, spec: Spec) -> Part:
        """A part under another spec."""
        if part.spec == spec:
            return part
        if part.graph.op is Op.CONST and not any(part.spec):
            shape = local_shape(part.shape, spec, self.sizes)
            return part._replace(graph=reshaped(part.graph, shape), spec=spec)
        graph = reshard(part.graph, part.shape, part.spec, spec, self.axes, self.index)
        return part._replace(graph=graph, spec=spec)

    # Ops that are one loop nest.

    def _divide(self, u: UOp, operands: Sequence[Part], wish: Any) -> Any:
        if u.op is Op.HOST and u.arg.inspects is not None:
            return self._told(u, operands)
        if (
            u.op is Op.FFT
            and len(u.arg.lengths) > 1
            and any(operands[0].spec[-len(u.arg.lengths) :])
        ):
            return self._transformed(u, operands[0], wish)
        manual = manual_of(operands)
        if u.op in POINTWISE and (wish is None or is_divided(operands[0].spec)):
            divided = {part.spec for part in operands if is_divided(part.spec)}
            if len(divided) <= 1:  # nothing to choose: most ops of most programs
                spec = divided.pop() if divided else operands[0].spec
                src = tuple([self.to(part, spec).graph for part in operands])
                return Part(UOp(u.op, src, u.arg), spec, manual)
        factors = self.context.factors_of(u)
        if u.op in SEVERAL:
            wish = wish.get(0) if wish and u.op is Op.SORT else None
        assignment = self._cheapest(u, factors, operands, wish)
        parts = [
            self.to(part, spec_of(row, assignment)).graph
            for part, row in zip(operands, factors.operands, strict=True)
        ]
        spec = spec_of(factors.result, assignment)
        shape = local_shape(u.shape, spec, self.sizes) if len(spec) == u.ndim else u.shape
        places = {f: self._place(names) for f, names in assignment.items()}
        out = local(u, parts, Division(factors, places, shape))
        if u.op in SEVERAL:
            return [
                Part(y, spec if len(spec) == y.ndim else undivided(y.ndim), manual)
                for y in (out.src if out.op is Op.TUPLE else several(out))
            ]
        pending: list[str] = []
        for factor, op in factors.reduced.items():
            for name in self._nearest_first(assignment.get(factor, ())):
                if factor in factors.crossed and u.op in LOOKUPS:
                    word, spec = self._combined(as_word(out), spec, name, op, wish)
                    out = bitcast(word, u.dtype) if u.dtype in FLOATS else word
                elif op is Op.ADD:
                    pending.append(name)
                else:
                    out, spec = self._combined(out, spec, name, op, wish)
        return Part(out, spec, manual, tuple(pending))

    def _transformed(self, u: UOp, part: Part, wish: Any) -> Part:
        """A Fourier transform of which an axis is divided: axis by axis, each of them whole."""
        p = Param(0, u.src[0].shape, u.src[0].dtype)
        f = function([fft_by_axes(param(p), u.arg)], (p,))
        return self.run(f, {param(p): part}, [wish])[0]

    def _combined(
        self, x: UOp, spec: Spec, name: str, op: Op, wish: Spec | None
    ) -> tuple[UOp, Spec]:
        """Partial results along an axis of the mesh combined: scattered if that is asked for."""
        axis, index = self.axes[name], self.index[name]
        at = scattered(spec, name, wish) if op is Op.ADD else None
        if at is not None and x.shape[at] % axis.size == 0:
            out = collective(Exchange.SCATTER, split(x, at, axis.size), index, axis)
            return out, appended(spec, at, name)
        return collective(Exchange.REDUCE, x, index, axis, op=op, invariant=True), spec

    def _parts(self, names: Names) -> int:
        return prod([self.sizes[name] for name in names])

    def _place(self, names: Names) -> Place:
        """This device's number among the parts of a factor; the first name is the major one."""
        number = self.index[names[0]]
        for name in names[1:]:
            number = number * self.sizes[name] + self.index[name]
        return Place(number, self._parts(names), self.axes[names[0]], self.index[names[0]])

    def _cheapest(
        self, u: UOp, factors: Factors, operands: Sequence[Part], wish: Spec | None
    ) -> Assignment:
        given = [(row, p.spec) for row, p in zip(factors.operands, operands, strict=True)]
        divided = [pair for pair in given if any(pair[1])]
        if not divided and wish is None:
            return {}
        wanted = [(factors.result, wish)] if wish is not None else []
        choices = []
        for omitted in ((), factors.crossed) if factors.crossed else ((),):
            orders = [wanted + divided]
            for pair in divided:
                orders += [[pair, *wanted, *divided], [pair, *wanted]]
            choices += [assigned(rows, factors, self.sizes, omitted) for rows in orders]
        choices += [relocated(*pair, factors, self.sizes) for pair in divided]
        different = [c for i, c in enumerate(choices) if c not in choices[:i]]
        if len(different) == 1:
            return different[0]
        return min(different, key=lambda c: self._cost(u, factors, c, operands, wish))

    def _cost(
        self,
        u: UOp,
        factors: Factors,
        assignment: Assignment,
        operands: Sequence[Part],
        wish: Spec | None,
    ) -> float:
        """The bytes that a device receives, and what it computes, if factors are so divided."""
        total = 0.0
        for s, row, part in zip(_operands(u), factors.operands, operands, strict=True):
            spec, size_bytes = spec_of(row, assignment), s.size * s.dtype.itemsize
            total += cost_bytes(size_bytes, part.spec, spec, self.sizes)
            total += LOCAL_BYTES_WEIGHT * size_bytes / self._count(spec)
        spec, size_bytes = spec_of(factors.result, assignment), u.size * u.dtype.itemsize
        local_bytes = size_bytes / self._count(spec)
        total += LOCAL_BYTES_WEIGHT * local_bytes
        for factor, op in factors.reduced.items():
            for name in assignment.get(factor, ()):
                n = self.sizes[name]
                at = scattered(spec, name, wish) if op is Op.ADD else None
                total += (2 if at is None else 1) * local_bytes * (n - 1) / n
                if at is not None:
                    spec, local_bytes = appended(spec, at, name), local_bytes / n
        parts = self._count(tuple(assignment.values()))
        for factor, crossing in factors.crossed.items():
            names = assignment.get(factor, ())
            if names:
                its_parts = self._parts(names)
                total += crossing.received(its_parts) * its_parts / parts
        total += BYTES_PER_MULTIPLY_ADD * factors.work / parts
        if wish is not None and len(wish) == len(spec):
            total += cost_bytes(size_bytes, spec, wish, self.sizes) / 2
        return total

    def _count(self, spec: Spec) -> int:
        return prod([self._parts(names) for names in spec])

    # Structure.

    def _tuple(self, u: UOp, operands: Sequence[Part], wish: object) -> list[Part]:
        return list(operands)

    def _get(self, u: UOp, operands: Sequence[Any], wish: object) -> Part:
        part: Part = operands[0][u.arg]
        return part

    def _axis(self, u: UOp, operands: Sequence[Part], wish: object) -> Part:
        name = u.arg.name
        if self.axes.get(name) != u.arg:
            raise ArgumentError("a mesh has no such axis", got=str(u.arg), hint="use one mesh")
        return Part(self.index[name], (), frozenset({name}))

    def _shard(self, u: UOp, operands: Sequence[Part], wish: object) -> Part:
        (part,), arg = operands, u.arg
        rest = automatic(part.spec, arg.manual)
        whole = manual_spec(arg, rest)
        parts = zip(u.src[0].shape, whole, strict=True)
        if any(n % self._parts(names) for n, names in parts):
            rest = undivided(u.ndim)
        part = self.to(part, manual_spec(arg, rest))
        return Part(part.graph, rest, part.manual | set(arg.manual))

    def _unshard(self, u: UOp, operands: Sequence[Part], wish: object) -> Part:
        (part,), arg = operands, u.arg
        part = self.to(part, even(part.shape, part.spec, self.sizes))
        return Part(part.graph, manual_spec(arg, part.spec), part.manual - set(arg.manual))

    def _constrain(self, u: UOp, operands: Sequence[Part], wish: object) -> Part:
        spec = constrained(u.arg, operands[0].spec, u.shape)
        return self.to(operands[0], automatic(spec, sorted(operands[0].manual)))

    def _told(self, u: UOp, operands: Sequence[Part]) -> list[Part]:
        """A request for a sharding, answered."""
        token, part = operands
        u.arg.inspects(NamedSharding(mesh_of(self.mesh, config.device), named_spec(part.spec)))
        return [token]

    def _function(
        self,
        f: UOp,
        params: Sequence[Part],
        wishes: Sequence[Spec | None],
        partial: Sequence[Names | None] = (),
    ) -> tuple[tuple[Param, ...], list[Part]]:
        """The parameters of a nested function of parts, and its outputs over them.

        The first outputs may be `partial`: their parts are not added up over these axes.
        """
        local_params = tuple(
            Param(i, part.graph.shape, part.graph.dtype) for i, part in enumerate(params)
        )
        known = {
            param(p): part._replace(graph=param(q))
            for p, part, q in zip(f.arg.params, params, local_params, strict=True)
        }
        return local_params, self.run(f, known, wishes, partial)

    def _scan(self, u: UOp, operands: Sequence[Part], wish: Any, defers: bool = True) -> list[Part]:
        wish = wish or {}
        if is_running(u, [part.spec for part in operands]):
            return self._running(u, operands)
        manual = manual_of(operands)
        operands = [part._replace(manual=manual) for part in operands]
        (body,), parts = form(u).functions, form(u, (None, *operands))
        consts, firsts, n = parts.own(0), parts.carries, len(parts.carries)
        partial = [part.pending for part in firsts]
        arrays = [self.to(part, ((), *part.spec[1:])) for part in parts.arrays]
        slices = [slice_of(part) for part in arrays]
        ys = [wish[i][1:] if wish.get(i) else None for i in range(n, len(body.src))]
        carries = [
            self.to(part, wish[i]) if wish.get(i) and not part.pending else part
            for i, part in enumerate(firsts)
        ]
        if defers:
            inner = [*consts, *carries, *slices]
            for i, names in self._deferred(body, inner, parts.places(0)[1]):
                partial[i], carries[i] = names, self._of_first(carries[i], names)
        for settled in (False, True):
            local_params, out = self._function(
                body,
                [*consts, *carries, *slices],
                [*(part.spec for part in carries), *ys],
                partial,
            )
            if [part.pending for part in out[:n]] != partial:
                added = [self._added_up(p, None)._replace(shape=p.shape) for p in firsts]
                return self._scan(u, [*consts, *added, *parts.arrays], wish, False)
            natural = [part.spec for part in out[:n]]
            if settled or natural == [part.spec for part in carries]:
                break
            before = carries
            carries = [
                part if any(part.spec) else self.to(part, spec)
                for part, spec in zip(carries, natural, strict=True)
            ]
            if carries == before:
                break
        nexts = [self.to(y, part.spec) for y, part in zip(out, carries)]
        ys_parts = out[n:]
        new = function([part.graph for part in (*nexts, *ys_parts)], local_params)
        src = [part.graph for part in (*consts, *carries, *arrays)]
        results = several(sealed(UOp(Op.SCAN, (new, *src), u.arg)))
        specs = [part.spec for part in carries] + [((), *part.spec) for part in ys_parts]
        partial += [()] * len(ys_parts)
        rows = zip(results, specs, partial, strict=True)
        return [Part(y, spec, manual, names) for y, spec, names in rows]

    def _deferred(
        self, body: UOp, params: Sequence[Part], carries: range
    ) -> list[tuple[int, Names]]:
        """The carries to which a body adds sums over divided axes, and does nothing else with them.

        Their parts need to be added up once, after the loop: the gradients of what all steps share
        are such carries.  Their numbers, and the axes of the mesh.
        """
        found = accumulated(body, carries)
        if not found:
            return []
        terms = function([term for _, term in found], body.arg.params)
        _, out = self._function(terms, params, [None] * len(found), [None] * len(found))
        given = [params[carries[i]] for i, _ in found]
        return [
            (i, part.pending)
            for (i, _), carry, part in zip(found, given, out, strict=True)
            if part.pending and carry.spec == part.spec and not carry.pending
        ]

    def _of_first(self, part: Part, names: Names) -> Part:
        """A value as parts that are to be added up: it is that of the first device, else 0."""
        graph = part.graph
        for name in names if not is_zero(graph) else ():
            is_first = broadcast_to(self.index[name] <= 0, graph.shape)
            graph = where(is_first, graph, full_like(graph, 0))
        return part._replace(graph=graph, pending=(*part.pending, *names))

    def _running(self, u: UOp, operands: Sequence[Part]) -> list[Part]:
        """Sums up to each row, along an axis that is divided."""
        (first, x), manual = operands, manual_of(operands)
        first = self.to(first, x.spec[1:])
        total, *sums = run_across(u, first.graph, x.graph, self._place(x.spec[0]))
        return [Part(total, x.spec[1:], manual), *(Part(y, x.spec, manual) for y in sums)]

    def _while(self, u: UOp, operands: Sequence[Part], wish: Any) -> list[Part]:
        manual = manual_of(operands)
        operands = [part._replace(manual=manual) for part in operands]
        (cond, body), parts = form(u).functions, form(u, (None, None, *operands))
        carries = parts.carries
        specs = [part.spec for part in carries]
        local_params, out = self._function(body, parts.taken(1), specs)
        nexts = [self.to(y, part.spec).graph for y, part in zip(out, carries, strict=True)]
        test_params, (holds,) = self._function(cond, parts.taken(0), [None])
        test = function([self.to(holds, ()).graph], test_params)
        src = (test, function(nexts, local_params), *(part.graph for part in operands))
        results = several(sealed(UOp(Op.WHILE, src, u.arg)))
        return [Part(y, p.spec, manual) for y, p in zip(results, carries, strict=True)]

    def _cond(self, u: UOp, operands: Sequence[Part], wish: Any) -> list[Part]:
        wish = wish or {}
        manual = manual_of(operands)
        operands = [part._replace(manual=manual) for part in operands]
        wishes = [wish.get(i) for i in range(len(u.src[1].src))]
        specs: list[Spec] = []
        functions: list[UOp] = []
        for f in form(u).functions:
            local_params, out = self._function(f, operands[1:], wishes)
            specs = specs or [part.spec for part in out]
            graphs = [self.to(y, spec).graph for y, spec in zip(out, specs, strict=True)]
            functions.append(function(graphs, local_params))
        src = (operands[0].graph, *functions, *(part.graph for part in operands[1:]))
        results = several(sealed(UOp(Op.COND, src, u.arg)))
        return [Part(y, spec, manual) for y, spec in zip(results, specs, strict=True)]

    def _call(self, u: UOp, operands: Sequence[Part], wish: Any) -> list[Part]:
        wish = wish or {}
        wishes = [wish.get(i) for i in range(len(u.src[0].src))]
        local_params, out = self._function(u.src[0], operands, wishes)
        body = function([part.graph for part in out], local_params)
        src = (body, *(part.graph for part in operands))
        results = several(sealed(UOp(Op.CALL, src, u.arg)))
        return [part._replace(graph=y) for y, part in zip(results, out, strict=True)]


def _operands(u: UOp) -> list[UOp]:
    return [s for s in u.src if s.op is not Op.FUNCTION]


Rule = Callable[[Partitioner, UOp, Any, Any], Any]
"""From a node, the parts of its operands and the wish of its users to the parts of its results."""

LOOKUPS = frozenset({Op.GATHER, Op.SHRINK})
"""Ops of which each device gives the rows in its part: their sum has one term that is not 0."""
SUMS = frozenset({Op.ADD, Op.SUB, Op.NEG})
"""Ops whose results are partial where all their operands are."""

# fmt: off
STRUCTURE: dict[Op, Rule] = {
    Op.TUPLE: Partitioner._tuple,
    Op.GET: Partitioner._get,
    Op.SCAN: Partitioner._scan,
    Op.WHILE: Partitioner._while,
    Op.COND: Partitioner._cond,
    Op.CALL: Partitioner._call,
    Op.AXIS: Partitioner._axis,
    Op.SHARD: Partitioner._shard,
    Op.UNSHARD: Partitioner._unshard,
    Op.CONSTRAIN: Partitioner._constrain,
}
"""The ops that are no single loop nest."""
# fmt: on
