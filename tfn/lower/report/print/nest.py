"""A kernel as loops that a person reads: every value stands in the innermost loop it depends on.

Before -> after, for the rows of a softmax::

    store b[r0 * 9 + r3], exp (load a[r0 * 9 + r3] - max (load a[r0 * 9 + r1]) over r1) / ...

    for r0 in 4:
      v0:f32 = -inf
      for r1 in 9:
        v0 = max(v0, a[r0 * 9 + r1])
      v1:f32 = 0.0
      for r2 in 9:
        v1 += exp(a[r0 * 9 + r2] - v0)
      for r3 in 9:
        b[r0 * 9 + r3] = exp(a[r0 * 9 + r3] - v0) / v1

After `choose` a loop opens with the place of its range: ``parallel`` (threads share it), ``upcast``
(unrolled, each coordinate in registers of its own) or ``lane`` (one vector).  The coordinates of
those last two exist at the same time, so a reduction written inside them is run once for them all.
Loops of a single iteration are left out.  A recurrence is a loop in order; what it carries gets its
next values in one line::

    v0:f32 = a[r0]
    for r1 in 10:  # in order
      b[r1 * 4 + r0] = v0
      v0 = v0 * 0.5 + c[r1 * 4 + r0]
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from tfn.dtypes import INT64, SHORT
from tfn.lower.index.dependence import dependences
from tfn.lower.index.intervals import integer
from tfn.lower.index.laws import simplify
from tfn.lower.loops.loop_nest import Nest, in_order
from tfn.lower.report.print.expression import Text, literal, operation
from tfn.trace import build
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, rebuild, walk

LONG = 64
"""What would be longer than this gets a name."""

SHORT_INDEX = 32
"""Index arithmetic up to this length is written out wherever it is used."""


@dataclass(eq=False)
class Scope:
    """What is in one loop: lines, the loops of folds, and last the next loop of its own chain.

    Attributes:
        depth: how many loops are around it.
        over: its range, None around all loops.
    """

    depth: int
    over: UOp | None
    items: list[str | Scope] = field(default_factory=list)
    inner: Scope | None = None


def nest(n: Nest, buffers: Sequence[str]) -> str:
    """The nest as pseudo-code; `buffers` names its parameters."""
    return renumbered(Writer(plain(n), buffers).text())


def plain(n: Nest) -> Nest:
    """The nest without loops of one iteration, its addresses and bounds as short as they can be."""
    new: dict[UOp, UOp] = {}
    for node in walk([n.body, *n.loops]):
        src = tuple(new[s] for s in node.src)
        if node.op is Op.RANGE and node.arg.size == 1:
            new[node] = const(0, INT64)
        elif node.op is Op.RANGE:
            new[node] = _bounded(node, [simplify(u) for u in src])
        elif node.op is Op.FOLD:
            inner = [r for r in src[1:] if r.op is Op.RANGE]
            new[node] = rebuild(node, (src[0], *inner)) if inner else src[0]
        elif node.op in (Op.LOAD, Op.STORE, Op.TUPLE):
            new[node] = rebuild(node, (src[0], simplify(src[1]), *src[2:]))
        else:
            new[node] = rebuild(node, src)
    loops = tuple(new[r] for r in n.loops if new[r].op is Op.RANGE)
    return Nest(new[n.body], loops, n.opts)


def _bounded(r: UOp, bound: Sequence[UOp]) -> UOp:
    """The range; a bound that is a number is its size."""
    if bound and bound[0].op is Op.CONST:
        return UOp(Op.RANGE, (), replace(r.arg, size=min(r.arg.size, integer(bound[0]))))
    return rebuild(r, tuple(bound))


def renumbered(text: str) -> str:
    """Names in the order in which a reader meets them."""
    order: dict[str, str] = {}
    return re.sub(r"\bv\d+\b", lambda m: order.setdefault(m[0], f"v{len(order)}"), text)


class Writer:
    """The state of one kernel's print.

    Attributes:
        scopes: the loop of each range.
        texts: what is written where a node is used: an expression, or a name.
        uses: how often each node is used.
        pure: nodes that are arithmetic on ranges alone.
        endless: the ranges of recurrences that end by a condition.
    """

    def __init__(self, n: Nest, buffers: Sequence[str]) -> None:
        self.nest, self.buffers = n, buffers
        self.ordered = in_order(n.body)
        self.depends = dependences(n.body)
        self.root = Scope(0, None)
        self.scopes: dict[UOp, Scope] = {}
        self.texts: dict[UOp, Text] = {}
        self.pure: set[UOp] = set()
        self.endless: set[UOp] = set()
        self.count = 0
        self.innermost = self._chain(self.root, n.loops)
        nodes = list(walk([n.body, *n.loops]))
        self.uses = Counter(s for node in nodes for s in node.src)
        for node in nodes:
            if node.op is Op.RECUR:
                self._chain(Scope(self.innermost.depth, None), node.src[:1])
                self.endless.update(node.src[:1] if node.arg.conditional else ())
        for node in reversed(nodes):  # a fold before the folds in its body
            if node.op is Op.FOLD:
                self._chain(Scope(self._scope(node).depth, None), node.src[1:])
        for node in nodes:
            WRITE.get(node.op, Writer.value)(self, node)

    def _chain(self, scope: Scope, ranges: Sequence[UOp]) -> Scope:
        """Loops inside one another; the innermost is returned."""
        for r in ranges:
            scope.inner = self.scopes[r] = Scope(scope.depth + 1, r)
            scope = scope.inner
        return scope

    def _scope(self, node: UOp) -> Scope:
        """The innermost loop that a node depends on."""
        around = (self.scopes[r] for r in self.depends.get(node, ()))
        return max(around, key=lambda scope: scope.depth, default=self.root)

    def _fresh(self) -> str:
        self.count += 1
        return f"v{self.count - 1}"

    def _let(self, node: UOp, text: str) -> str:
        """A line that gives a value a name."""
        name = self._fresh()
        self._scope(node).items.append(f"{name}:{SHORT[node.dtype]} = {text}")
        return name

    def buffer(self, node: UOp) -> None:
        """The name of a parameter."""
        self.texts[node] = Text(self.buffers[node.arg.index])

    def load(self, node: UOp) -> None:
        """``a[r0]``; a gate says when there is anything to read."""
        buffer, index, *gate = (self.texts[s].text for s in node.src)
        text = f"{buffer}[{index}]"
        self._keep(node, Text(f"{text} if {gate[0]} else 0", 0) if gate else Text(text))

    def value(self, node: UOp) -> None:
        """Arithmetic."""
        if all(s in self.pure for s in node.src):
            self.pure.add(node)
        self._keep(node, operation(node, [self.texts[s] for s in node.src]))

    def _keep(self, node: UOp, text: Text) -> None:
        """Write a value out where it is used, or name it."""
        if node in self.pure:
            named = len(text.text) > SHORT_INDEX
        else:
            named = self.uses[node] > 1 or len(text.text) > LONG
        self.texts[node] = Text(self._let(node, text.text)) if named else text

    def fold(self, node: UOp) -> None:
        """``v0 = 0.0``, the loops, and in the innermost ``v0 += body``."""
        op, body = node.arg.op, self.texts[node.src[0]].text
        place = node.arg.index is not None
        start = const(0 if place else build.identity(op, node.dtype), node.dtype)
        name = self._let(node, literal(start))
        self._scope(node).items.append(self.scopes[node.src[1]])
        step = (
            f"{name} {UPDATES[op]} {body}"
            if op in UPDATES
            else f"{name} = {op.value}({name}, {body})"
        )
        step = f"{name} = arg{op.value}({body})" if place else step
        self.scopes[node.src[-1]].items.append(step)
        self.texts[node] = Text(name)

    def pair(self, node: UOp) -> None:
        """A value and its index."""
        self.texts[node] = Text(", ".join(self.texts[s].text for s in node.src))

    def carry(self, node: UOp) -> None:
        """A name, which the recurrence gives its values."""
        self.texts[node] = Text(self._fresh())

    def recur(self, node: UOp) -> None:
        """``v0 = first``, the loop with its stores and ``v0 = next``, then the last stores."""
        arg, r, n = node.arg, node.src[0], node.arg.carries
        carries = {u.arg.number: u for u in self.uses if u.op is Op.CARRY and u.src[0] is r}
        stores = node.src[1 + 2 * n + arg.conditional :]
        around, inside = self.innermost.items, self.scopes[r].items
        steps = []
        for i, u in sorted(carries.items()):
            name, first, following = (self.texts[v].text for v in (u, *node.src[1 + i :: n][:2]))
            around.append(f"{name}:{SHORT[u.dtype]} = {first}")
            steps += [(name, following)] if name != following else []
        if arg.conditional:
            inside.append(f"if not ({self.texts[node.src[1 + 2 * n]].text}): break")
        inside += [self.texts[s].text for s in stores[: arg.stores]]
        if steps:
            inside.append(" = ".join(", ".join(side) for side in zip(*steps)))
        around.append(self.scopes[r])
        around += [self.texts[s].text for s in stores[arg.stores :]]

    def store(self, node: UOp) -> None:
        """``b[r0] = value``."""
        buffer, index, value, *gate = (self.texts[s].text for s in node.src)
        line = f"{buffer}[{index}] = {value}"
        self.texts[node] = Text(f"if {gate[0]}: {line}" if gate else line)

    def sink(self, node: UOp) -> None:
        """The stores, in the innermost loop; recurrences have written theirs."""
        self.innermost.items += [self.texts[s].text for s in node.src if s.op is Op.STORE]

    def text(self) -> str:
        """The lines, indented by loop."""
        lines: list[str] = []
        stack: list[tuple[int, str | Scope]] = [(0, self.root)]
        while stack:
            depth, item = stack.pop()
            if isinstance(item, str):
                lines.append("  " * depth + item)
                continue
            if item.over is not None:
                lines.append("  " * depth + self._header(item.over))
                depth += 1
            inside = item.items if item.inner is None else [*item.items, item.inner]
            stack.extend((depth, inner) for inner in reversed(inside))
        return "\n".join(lines)

    def _header(self, r: UOp) -> str:
        if r in self.endless:
            return "while True:"
        place = r.arg.place
        word = "for" if place is Place.LOOP else place.value
        size = f"min({r.arg.size}, {self.texts[r.src[0]].text})" if r.src else str(r.arg.size)
        note = "  # in order" if r.arg.number in self.ordered else ""
        return f"{word} r{r.arg.number} in {size}:{note}"


UPDATES = {Op.ADD: "+=", Op.MUL: "*="}
WRITE: dict[Op, Callable[[Writer, UOp], None]] = {
    Op.PARAM: Writer.buffer,
    Op.LOAD: Writer.load,
    Op.FOLD: Writer.fold,
    Op.TUPLE: Writer.pair,
    Op.CARRY: Writer.carry,
    Op.RECUR: Writer.recur,
    Op.STORE: Writer.store,
    Op.SINK: Writer.sink,
}
