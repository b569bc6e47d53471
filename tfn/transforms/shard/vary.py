"""Values that vary over manual axes, kept apart from those that are the same on all.

In a function that `shard_map` maps with ``check_vma``, the axes over which a value varies follow
from the graph.  Where values that differ in this meet, the one that varies less is made to vary by
an exchange that moves nothing, VARY, whose transpose is a sum over the devices: that is why the
gradient of a weight that all devices share is the sum of their gradients::

    mul x:{data} w:{}   ->   mul x pvary["data"](w)

Source: https://docs.jax.dev/en/latest/notebooks/shard_map.html, "varying manual axes"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfn.dtypes import INEXACT
from tfn.trace import bind, runtime, traces
from tfn.trace.inline import sealed
from tfn.trace.op import LOOPS, SEVERAL, Op
from tfn.trace.regions import form, results, settle
from tfn.trace.sharding import Exchange
from tfn.trace.uop import UOp, rebuild, walk
from tfn.transforms.body import closed, opened
from tfn.transforms.shard import axes
from tfn.transforms.shard.collective_rules import collective

Names = frozenset[Any]
NONE: Names = frozenset()
_FIXED = frozenset({Op.CONST, Op.IOTA})


def of(value: Any) -> Names:
    """The manual axes over which a Value, or a value of a type, varies."""
    if getattr(value, "owner", None) is None:
        return getattr(value, "vma", NONE)
    names: Names = Alignment(value.owner).run([value.uop], {})[1][0]
    return names


def is_checked() -> bool:
    """Whether a function is being traced whose values are kept apart."""
    return any(a.checked for a in axes.live())


def key(values: Sequence[runtime.Value]) -> tuple[object, ...]:
    """The live axes and what varies over them, as a key of caches; empty without axes."""
    environment = axes.environment()
    if not environment:
        return ()
    return (environment, tuple(map(of, values)) if is_checked() else ())


def aligned(outputs: Sequence[UOp], trace: traces.Trace) -> list[UOp]:
    """Graphs in which values that meet vary over the same axes."""
    return Alignment(trace).run(outputs, {})[0]


class Alignment:
    """One pass over graphs of a trace, sources first."""

    def __init__(self, trace: traces.Trace) -> None:
        self.trace = trace

    def run(
        self, outputs: Sequence[UOp], given: Mapping[UOp, Names]
    ) -> tuple[list[UOp], list[Names]]:
        """The graphs, and the axes over which they vary, from those of some leaves."""
        new: dict[UOp, UOp] = {}
        names: dict[UOp, Any] = dict(given)
        for u in walk(outputs):
            if u.op is Op.FUNCTION:
                new[u] = u
            elif u.op is Op.LEAF or not u.src:
                new[u] = u
                if u not in names:
                    names[u] = self._of_leaf(u)
            else:
                src = [new[s] for s in u.src]
                have = [names.get(s, NONE) for s in u.src]
                rule: _Rule = _RULES.get(u.op, Alignment._together)
                new[u], names[u] = rule(self, u, src, have)
        return [new[u] for u in outputs], [names[u] for u in outputs]

    def _of_leaf(self, u: UOp) -> Names:
        if u.op is Op.AXIS:
            return frozenset({u.arg.name})
        if u.op is not Op.LEAF:
            return NONE
        if u.arg.varying:
            return frozenset(u.arg.varying)
        value = u.arg.value
        return of(value) if value is not None and hasattr(value, "owner") else NONE

    def vary(self, x: UOp, have: Names, want: Names) -> UOp:
        """A value that varies over more axes."""
        if x.op in _FIXED or x.dtype not in INEXACT:
            return x
        for name in sorted(want - have, key=str):
            a = axes.find("pvary", name)
            x = collective(Exchange.VARY, x, bind.lift(a.index, self.trace), a.axis)
        return x

    def _together(self, u: UOp, src: Sequence[UOp], have: Sequence[Names]) -> tuple[UOp, Any]:
        """All operands vary over the same axes, and so does the result."""
        want = NONE.union(*have)
        moved = tuple(
            x if x.op is Op.FUNCTION else self.vary(x, names, want)
            for x, names in zip(src, have, strict=True)
        )
        node = rebuild(u, moved)
        return node, [want] * len(results(u)) if u.op in SEVERAL else want

    def _collective(self, u: UOp, src: Sequence[UOp], have: Sequence[Names]) -> tuple[UOp, Names]:
        name, arg = u.arg.axis.name, u.arg
        if not any(a.axis.name == name and a.checked for a in axes.live()):
            return rebuild(u, tuple(src)), have[0]
        if arg.kind is Exchange.VARY and name in have[0]:
            return src[0], have[0]  # what it was made for was not known to vary then
        if arg.kind in (Exchange.VARY, Exchange.PICK):
            return rebuild(u, tuple(src)), have[0] | {name}
        want = have[0] | {name}
        x = self.vary(src[0], have[0], want)
        return rebuild(u, (x, src[1])), want - {name} if arg.invariant else want

    def _shard(self, u: UOp, src: Sequence[UOp], have: Sequence[Names]) -> tuple[UOp, Names]:
        return rebuild(u, tuple(src)), have[0] | set(u.arg.names)

    def _unshard(self, u: UOp, src: Sequence[UOp], have: Sequence[Names]) -> tuple[UOp, Names]:
        return rebuild(u, tuple(src)), have[0] - set(u.arg.manual)

    def _get(self, u: UOp, src: Sequence[UOp], have: Sequence[Any]) -> tuple[UOp, Names]:
        # The node below may have been sealed: its results are those of the one it was made from.
        return rebuild(u, tuple(src)), have[0][u.arg]

    def _tuple(self, u: UOp, src: Sequence[UOp], have: Sequence[Names]) -> tuple[UOp, Any]:
        return rebuild(u, tuple(src)), list(have)

    # Functions.

    def _inner(
        self, f: UOp, have: Sequence[Names], wanted: Sequence[Names] = ()
    ) -> tuple[UOp, list[Names]]:
        """A nested function over operands that vary so, its results made to vary as `wanted`."""
        leaves, graphs = opened(f)
        out, names = self.run(graphs, dict(zip(leaves, have, strict=True)))
        if wanted:
            out[: len(wanted)] = [
                self.vary(y, had, want) for y, had, want in zip(out, names, wanted)
            ]
            names[: len(wanted)] = [had | want for had, want in zip(names, wanted)]
        return closed(out, leaves), names

    def _region(self, u: UOp, src: Sequence[UOp], have: Sequence[Names]) -> tuple[UOp, Any]:
        """Carries vary over the axes of all their values, and results over those of a decision.

        The functions of a WHILE stay: it has no reverse mode, in which their results would matter.
        """
        parts, names = form(u, src), form(u, have)
        n = len(parts.carries)

        def step(carries: list[Names]) -> tuple[Any, list[Names]]:
            now = names._replace(carries=tuple(carries))
            runs = [self._inner(f, now.taken(k)) for k, f in enumerate(parts.functions)]
            rows = [out for _, out in runs]
            tests = [y for row in rows[: parts.tests] for y in row]
            decision = NONE.union(*names.selector, *tests)
            results = [decision.union(*column) for column in zip(*rows[parts.tests :], strict=True)]
            return (now, runs, results), [a | b for a, b in zip(carries, results)]

        (now, runs, results), carries = settle(step, list(names.carries))
        wanted = [*carries, *results[n:]]
        functions = parts.functions
        if not parts.tests:
            functions = tuple(
                new if row == wanted else self._inner(f, now.taken(k), wanted)[0]
                for k, (f, (new, row)) in enumerate(zip(functions, runs, strict=True))
            )
        rows = zip(parts.carries, names.carries, carries, strict=True)
        begin = tuple(self.vary(x, had, want) for x, had, want in rows)
        new = parts._replace(functions=functions, carries=begin)
        return sealed(rebuild(u, new.sources)), wanted

    def _custom(self, u: UOp, src: Sequence[UOp], have: Sequence[Names]) -> tuple[UOp, Any]:
        """Operands vary over the same axes, since the rules of the user treat them together.

        Integers do not: among them are the indices along named axes, which the rules may use.
        """
        numbers, operands = [x.dtype in INEXACT for x in src[1:]], have[1:]
        want = NONE.union(*(names for names, n in zip(operands, numbers, strict=True) if n))

        def step(want: Names) -> tuple[list[Names], Names]:
            inner = [want if n else names for names, n in zip(operands, numbers, strict=True)]
            _, names = self._inner(u.src[0], inner)
            return names, want.union(*names)

        names, want = settle(step, want)
        moved = [self.vary(x, had, want) for x, had in zip(src[1:], operands, strict=True)]
        return rebuild(u, (src[0], *moved)), names


_Rule = Callable[[Alignment, UOp, Sequence[UOp], Sequence[Any]], tuple[UOp, Any]]
_RULES: dict[Op, _Rule] = {
    Op.COLLECTIVE: Alignment._collective,
    Op.SHARD: Alignment._shard,
    Op.UNSHARD: Alignment._unshard,
    Op.GET: Alignment._get,
    Op.TUPLE: Alignment._tuple,
    **dict.fromkeys(LOOPS, Alignment._region),
    Op.CUSTOM: Alignment._custom,
}
"""Ops whose results do not simply vary as their operands do."""
