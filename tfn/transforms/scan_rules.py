"""Rules of SCAN nodes.

Forward mode gives two scans: the body with residuals stacked beside its results, and a scan of
its derivative, which is linear in the tangents and reads the residuals.  Reverse mode runs the
transposed body of a linear scan over the slices in the other order::

    s = f(s, x)              forward, stacks r
    ds = A(r) ds + B(r) dx   tangents
    ct_s = A(r)' ct_s        cotangents, from the last slice to the first; ct_x = B(r)' ct_s

The rules take `push`, `pull` and `batch`, defined above this file, to apply them to the body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tfn._support.frozen import frozen
from tfn.trace.argument import Param
from tfn.trace.build import moveaxis, spread, zeros
from tfn.trace.jaxpr import function, param
from tfn.trace.regions import Form, form, settle
from tfn.trace.uop import UOp, substitute
from tfn.transforms.body import (
    Lanes,
    closed,
    depending,
    filled,
    fresh,
    opened,
    rematerialised,
    residuals,
    scan,
)
from tfn.transforms.deferred_sums import Product, defer

Push = Callable[[Sequence[UOp], Mapping[UOp, UOp]], list[UOp | None]]
Pull = Callable[[Sequence[UOp | None], Sequence[UOp], Sequence[UOp | None]], list[UOp | None]]
Batch = Callable[[Sequence[UOp], Mapping[UOp, UOp], int], list[Lanes]]


@frozen
class _Loop:
    """A SCAN opened on leaves.

    Attributes:
        parts: of the node.
        inputs: the leaves of the body: consts, carries, slices.
        outputs: of the body, over the leaves: carries, slices.
    """

    parts: Form[UOp]
    inputs: list[UOp]
    outputs: list[UOp]

    @staticmethod
    def of(u: UOp) -> _Loop:
        inputs, outputs = opened(u.src[0])
        return _Loop(form(u), inputs, outputs)

    @property
    def places(self) -> tuple[range, range, range]:
        """The numbers of the inputs that are consts, carries and slices."""
        return self.parts.places(0)

    @property
    def carries(self) -> range:
        return self.places[1]

    @property
    def slices(self) -> range:
        return self.places[2]

    def next(self, i: int) -> UOp:
        """The output that becomes carry `i`."""
        return self.outputs[self.carries.index(i)]

    @property
    def ys(self) -> list[UOp]:
        return self.outputs[len(self.carries) :]

    def again(
        self,
        body: UOp,
        consts: Sequence[UOp],
        carries: Sequence[UOp],
        arrays: Sequence[UOp],
        turned: bool = False,
    ) -> list[UOp]:
        """The results of another body, in as many steps; `turned` begins at the other end."""
        arg = self.parts.arg
        return scan(body, consts, carries, arrays, arg.length, arg.reverse is not turned)

    def rematerialised(self, nodes: Sequence[UOp]) -> list[UOp]:
        """Fewer residuals: nodes that change from step to step and are cheap to recompute go."""
        changing = depending(nodes, [self.inputs[i] for i in (*self.carries, *self.slices)])
        same = [node for node in nodes if node not in changing]
        consts, _, slices = self.places
        available = {*same, *(self.inputs[i] for i in (*consts, *slices))}
        return [*same, *(u for u in rematerialised(nodes, available) if u not in same)]

    def supply(
        self, nodes: Sequence[UOp], inputs: Sequence[int], ys: Sequence[UOp] = ()
    ) -> tuple[dict[UOp, UOp], dict[UOp, UOp]]:
        """Nodes of the body outside of the loop: values, or arrays with a slice for each step.

        Nodes that are the same in every step are computed once, slices are operands already, and
        all others are stacked by a scan over some of the inputs, which returns `ys` as well.
        """
        operand_of = dict(zip(self.inputs, self.parts.operands, strict=True))
        arrays = {x: operand_of[x] for x in (self.inputs[i] for i in self.slices if i in inputs)}
        changing = depending(nodes, [self.inputs[i] for i in (*self.carries, *self.slices)])
        same = [node for node in nodes if node not in changing]
        stacked = [node for node in nodes if node in changing and node not in arrays]
        array_of = {node: arrays[node] for node in nodes if node in arrays}
        if stacked:
            carries = [i for i in self.carries if i in inputs]
            state = [self.inputs[i] for i in carries]
            consts = [self.inputs[i] for i in self.places[0] if i in inputs]
            body = closed([*map(self.next, carries), *ys, *stacked], [*consts, *state, *arrays])
            results = self.again(
                body,
                [operand_of[x] for x in consts],
                [operand_of[x] for x in state],
                list(arrays.values()),
            )
            array_of |= zip(stacked, results[-len(stacked) :], strict=True)
        return dict(zip(same, substitute(same, operand_of), strict=True)), array_of


def jvp(push: Push, u: UOp, tangents: Sequence[UOp | None]) -> tuple[UOp | None, ...]:
    """The tangents of all results, from those of the sources (the first is the body)."""
    loop, operand_tangents = _Loop.of(u), tangents[1:]
    inputs = loop.inputs
    differentiated = {i for i, dx in enumerate(operand_tangents) if dx is not None}
    directions = {i: fresh(x) for i, x in enumerate(inputs)}

    def step(known: set[int]) -> tuple[list[UOp | None], set[int]]:
        slopes = push(loop.outputs, {inputs[i]: directions[i] for i in sorted(known)})
        return slopes, known | {i for i, dy in zip(loop.carries, slopes) if dy is not None}

    slopes, differentiated = settle(step, differentiated)
    consts, carries, slices = ([i for i in at if i in differentiated] for at in loop.places)
    slope_of = dict(zip(loop.carries, slopes))
    nexts = [filled(slope_of[i], inputs[i]) for i in carries]
    dys = slopes[len(loop.carries) :]
    linear = [*nexts, *(dy for dy in dys if dy is not None)]
    stored = loop.rematerialised(residuals(linear, [directions[i] for i in differentiated]))
    values, arrays = loop.supply(stored, range(len(inputs)), loop.ys)
    places = {node: fresh(node) for node in stored}
    body = closed(
        substitute(linear, places),
        [
            *(places[r] for r in values),
            *(directions[i] for i in (*consts, *carries)),
            *(places[r] for r in arrays),
            *(directions[i] for i in slices),
        ],
    )
    results = loop.again(
        body,
        [*values.values(), *(_present(operand_tangents, i) for i in consts)],
        [filled(operand_tangents[i], inputs[i]) for i in carries],
        [*arrays.values(), *(_present(operand_tangents, i) for i in slices)],
    )
    last = dict(zip(carries, results))
    stacks = iter(results[len(carries) :])
    return (
        *(last.get(i) for i in loop.carries),
        *(None if dy is None else next(stacks) for dy in dys),
    )


def _present(tangents: Sequence[UOp | None], i: int) -> UOp:
    tangent = tangents[i]
    assert tangent is not None
    return tangent


def transpose(
    pull: Pull, u: UOp, cts: Sequence[UOp | None], differentiated: Sequence[int]
) -> list[UOp | None]:
    """The cotangents of the sources `differentiated`, from those of the results."""
    loop = _Loop.of(u)
    inputs, linear = loop.inputs, {i - 1 for i in differentiated}

    def forth(linear: set[int]) -> tuple[dict[UOp, None], set[int]]:
        reached = depending(loop.outputs, [inputs[i] for i in sorted(linear)])
        return reached, linear | {i for i in loop.carries if loop.next(i) in reached}

    reached, linear = settle(forth, linear)
    consts, carries, slices = ([i for i in at if i in linear] for at in loop.places)
    arriving = dict(zip(loop.carries, cts))
    ys = [
        (y, ct)
        for y, ct in zip(loop.ys, cts[len(loop.carries) :], strict=True)
        if y in reached and ct is not None
    ]
    nexts = [loop.next(i) if loop.next(i) in reached else None for i in carries]
    graphs = [y for y in (*nexts, *(y for y, _ in ys)) if y is not None]
    stored = residuals(graphs, [inputs[i] for i in sorted(linear)])
    values, arrays = loop.supply(stored, [i for i in range(len(inputs)) if i not in linear])
    places = {node: fresh(node) for node in stored}
    placed = dict(zip(graphs, substitute(graphs, places), strict=True))
    outputs = [None if y is None else placed[y] for y in (*nexts, *(y for y, _ in ys))]

    variables = [inputs[i] for i in (*consts, *carries, *slices)]
    waiting = {i for i in carries if arriving[i] is not None}
    state = {i: fresh(inputs[i]) for i in carries}
    y_cotangents = [fresh(y) for y, _ in ys]

    def back(waiting: set[int]) -> tuple[dict[int, UOp | None], set[int]]:
        arrived = [state[i] if i in waiting else None for i in carries]
        cts = pull(outputs, variables, [*arrived, *y_cotangents])
        cotangents = dict(zip((*consts, *carries, *slices), cts, strict=True))
        return cotangents, waiting | {i for i in carries if cotangents[i] is not None}

    cotangents, waiting = settle(back, waiting)
    streams = {places[r]: x for r, x in arrays.items()} | dict(
        zip(y_cotangents, (ct for _, ct in ys))
    )
    carried = [i for i in carries if i in waiting]
    live = [i for i in slices if cotangents[i] is not None]
    graphs = [u for u in cotangents.values() if u is not None]
    changing = depending(graphs, [*(state[i] for i in carried), *streams])
    slopes = [filled(cotangents[i], inputs[i]) for i in live]
    rests: dict[int, UOp] = {}
    products: dict[int, list[Product]] = {}
    for i in consts:
        ct = cotangents[i]
        if ct is not None:
            rest, products[i] = defer(ct, changing, {*streams, *slopes})
            if rest is not None:
                rests[i] = rest
    factors = dict.fromkeys(u for some in products.values() for p in some for u in p.factors)
    stacked = dict.fromkeys([*slopes, *(u for u in factors if u not in streams)])
    sums = {i: fresh(inputs[i]) for i in rests}
    body = closed(
        [
            *(sums[i] + rests[i] for i in rests),
            *(filled(cotangents[i], inputs[i]) for i in carried),
            *stacked,
        ],
        [*(places[r] for r in values), *sums.values(), *(state[i] for i in carried), *streams],
    )
    results = loop.again(
        body,
        list(values.values()),
        [
            *(zeros(x.shape, x.dtype) for x in sums.values()),
            *(filled(arriving[i], inputs[i]) for i in carried),
        ],
        list(streams.values()),
        turned=True,
    )
    total: dict[int, UOp | None] = dict(zip((*rests, *carried), results))
    streams |= zip(stacked, results[len(rests) + len(carried) :], strict=True)
    total |= {i: streams[u] for i, u in zip(live, slopes, strict=True)}
    for i, some in products.items():
        for product in some:
            late, so_far = product.total(*(streams[u] for u in product.factors)), total.get(i)
            total[i] = late if so_far is None else so_far + late
    return [total.get(i - 1) for i in differentiated]


def batch_rule(
    batch: Batch, u: UOp, src: Sequence[UOp], mapped: Sequence[bool], size: int
) -> list[Lanes]:
    """All results over the lanes.

    The body is batched as it stands, over its parameters: to open and to close it would make each
    of its nodes twice more.
    """
    params: tuple[Param, ...] = u.src[0].arg.params
    wide = [replace(p, shape=(size, *p.shape)) for p in params]
    loop = _Loop(form(u), list(map(param, params)), list(u.src[0].src))
    inputs, many = loop.inputs, {i for i, yes in enumerate(mapped[1:]) if yes}
    lanes = list(map(param, wide))

    def step(many: set[int]) -> tuple[list[Lanes], set[int]]:
        lanes_out = batch(loop.outputs, {inputs[i]: lanes[i] for i in sorted(many)}, size)
        return lanes_out, many | {i for i, y in zip(loop.carries, lanes_out) if y.many}

    lanes_out, many = settle(step, many)
    operands = []
    for i, x in enumerate(src[1:]):
        full = x if mapped[i + 1] or i not in many else spread(x, size)
        operands.append(moveaxis(full, 0, 1) if i in many and i in loop.slices else full)
    nexts = [y.full(size) if i in many else y.graph for i, y in zip(loop.carries, lanes_out)]
    ys = lanes_out[len(loop.carries) :]
    body = function(
        [*nexts, *(y.graph for y in ys)],
        tuple([wide[i] if i in many else p for i, p in enumerate(params)]),
    )
    parts = form(u, (body, *operands))
    results = loop.again(body, parts.own(0), parts.carries, parts.arrays)
    return [
        *(Lanes(y, i in many) for i, y in zip(loop.carries, results)),
        *(
            Lanes(moveaxis(stack, 1, 0) if y.many else stack, y.many)
            for stack, y in zip(results[len(loop.carries) :], ys, strict=True)
        ),
    ]
