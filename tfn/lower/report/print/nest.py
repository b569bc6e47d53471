"""Nest printer: a kernel as loops, each value in the innermost loop that it depends on.

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

After `heuristics` a loop opens with the place of its range: ``parallel`` (threads share it),
``upcast`` (unrolled, each coordinate in registers of its own) or ``lane`` (one vector).  The
coordinates of those last two exist at the same time, so a reduction inside them is run once for
them all.
Loops of a single iteration are left out.  A recurrence is a loop in order; its carries get
their next values in one line::

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
from tfn.lower.index.simplify import simplify
from tfn.lower.loops.loop_nest import Nest, in_order
from tfn.lower.report.print.expression import Text, literal, operation
from tfn.trace import build
from tfn.trace.argument import Place
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const, const_value, rebuild, walk

MAX_EXPRESSION_CHARACTERS = 64
"""Longer expressions get a name, so that a line with two of them fits a terminal."""

MAX_INDEX_CHARACTERS = 32
"""Index arithmetic up to this length is written out wherever it is used: a name would hide it."""


@dataclass(eq=False)
class Body:
    """The body of a loop: lines, the loops of folds, and last the next loop of its own chain.

    Attributes:
        depth: the number of loops around it.
        range: of the loop, None around all loops.
    """

    depth: int
    range: UOp | None
    items: list[str | Body] = field(default_factory=list)
    inner: Body | None = None


def nest(n: Nest, buffers: Sequence[str]) -> str:
    """The nest as pseudo-code; `buffers` names its parameters."""
    return renumbered(NestPrinter(simplified(n), buffers).text())


def simplified(n: Nest) -> Nest:
    """The nest without loops of one iteration, its addresses and bounds simplified."""
    new: dict[UOp, UOp] = {}
    for node in walk([n.body, *n.loops]):
        src = tuple(new[s] for s in node.src)
        if node.op is Op.RANGE and node.arg.size == 1:
            new[node] = const(0, INT64)
        elif node.op is Op.RANGE:
            new[node] = _bounded(node, [simplify(u) for u in src])
        elif node.op is Op.FOLD:
            inner = [r for r in src[1:] if r.op is Op.RANGE]
            # Without loops a reduction is its body.
            new[node] = rebuild(node, (src[0], *inner)) if inner else src[0]
        elif node.op is Op.MEMO:
            # One that is read is not computed: its value has no line of its own.
            value = src[0] if len(src) == 3 else const(0, node.dtype)
            new[node] = rebuild(node, (value, src[1], simplify(src[2]), *src[3:]))
        elif node.op in (Op.LOAD, Op.STORE, Op.TUPLE):
            new[node] = rebuild(node, (src[0], simplify(src[1]), *src[2:]))
        else:
            new[node] = rebuild(node, src)
    loops = tuple(new[r] for r in n.loops if new[r].op is Op.RANGE)
    return Nest(new[n.body], loops, n.opts)


def _bounded(r: UOp, bound: Sequence[UOp]) -> UOp:
    """A range with a simplified bound; a constant bound is its size."""
    if bound and bound[0].op is Op.CONST:
        return UOp(Op.RANGE, (), replace(r.arg, size=min(r.arg.size, const_value(bound[0]))))
    return rebuild(r, tuple(bound))


def renumbered(text: str) -> str:
    """The text with its names numbered in the order of their occurrence."""
    order: dict[str, str] = {}
    return re.sub(r"\bv\d+\b", lambda m: order.setdefault(m[0], f"v{len(order)}"), text)


class NestPrinter:
    """The state of one kernel's print.

    Attributes:
        bodies: the loop body of each range.
        texts: of each node where it is used: an expression, or a name.
        uses: the number of uses of each node.
        indices: nodes that are arithmetic on ranges alone.
        endless: the ranges of recurrences that end by a condition.
    """

    def __init__(self, n: Nest, buffers: Sequence[str]) -> None:
        self.nest, self.buffers = n, buffers
        self.ordered = in_order(n.body)
        self.depends = dependences(n.body)
        self.root = Body(0, None)
        self.bodies: dict[UOp, Body] = {}
        self.texts: dict[UOp, Text] = {}
        self.indices: set[UOp] = set()
        self.endless: set[UOp] = set()
        self.count = 0
        self.innermost = self._chain(self.root, n.loops)
        nodes = list(walk([n.body, *n.loops]))
        self.uses = Counter(s for node in nodes for s in node.src)
        # The loops of recurrences are siblings, inside of the innermost loop of the stores.
        for node in nodes:
            if node.op is Op.RECUR:
                self._chain(Body(self.innermost.depth, None), node.src[:1])
                self.endless.update(node.src[:1] if node.arg.conditional else ())
        for node in reversed(nodes):  # outer folds before those in their bodies
            if node.op is Op.FOLD:
                self._chain(Body(self._body(node).depth, None), node.src[1:])
        for node in nodes:
            PRINT.get(node.op, NestPrinter.value)(self, node)

    def _chain(self, body: Body, ranges: Sequence[UOp]) -> Body:
        """Nest loops one inside the other; returns the innermost body."""
        for r in ranges:
            body.inner = self.bodies[r] = Body(body.depth + 1, r)
            body = body.inner
        return body

    def _body(self, node: UOp) -> Body:
        """The body of the innermost loop that a node depends on."""
        around = (self.bodies[r] for r in self.depends.get(node, ()))
        return max(around, key=lambda body: body.depth, default=self.root)

    def _new_name(self) -> str:
        self.count += 1
        return f"v{self.count - 1}"

    def _let(self, node: UOp, text: str) -> str:
        """Add a line that names a value; returns the name."""
        name = self._new_name()
        self._body(node).items.append(f"{name}:{SHORT[node.dtype]} = {text}")
        return name

    def buffer(self, node: UOp) -> None:
        """The name of a parameter."""
        self.texts[node] = Text(self.buffers[node.arg.index])

    def load(self, node: UOp) -> None:
        """``a[r0]``, or ``a[r0] if predicate else 0``."""
        buffer, index, *predicate = (self.texts[s].text for s in node.src)
        text = f"{buffer}[{index}]"
        self._set(node, Text(f"{text} if {predicate[0]} else 0", 0) if predicate else Text(text))

    def staged(self, node: UOp) -> None:
        """``local(a[r0])``: from a tile in local memory."""
        self._set(node, Text(f"local({self.texts[node.src[0]].text})"))

    def memo(self, node: UOp) -> None:
        """``(b[r0] := value)``, or ``b[r0]`` of a value that is kept."""
        value, buffer, index = (self.texts[s].text for s in node.src[:3])
        kept = f"{buffer}[{index}]"
        self._set(node, Text(f"({kept} := {value})" if len(node.src) == 3 else kept))

    def value(self, node: UOp) -> None:
        """An operation: a name, or an expression."""
        if all(s in self.indices for s in node.src):
            self.indices.add(node)
        self._set(node, operation(node, [self.texts[s] for s in node.src]))

    def _set(self, node: UOp, text: Text) -> None:
        """Set the text of a node: the expression, or a name if it is long or used twice."""
        if node in self.indices:
            named = len(text.text) > MAX_INDEX_CHARACTERS
        else:
            named = self.uses[node] > 1 or len(text.text) > MAX_EXPRESSION_CHARACTERS
        self.texts[node] = Text(self._let(node, text.text)) if named else text

    def fold(self, node: UOp) -> None:
        """``v0 = 0.0``, the loops, and in the innermost ``v0 += body``."""
        op, body = node.arg.op, self.texts[node.src[0]].text
        place = node.arg.index is not None
        start = const(0 if place else build.identity(op, node.dtype), node.dtype)
        name = self._let(node, literal(start))
        self._body(node).items.append(self.bodies[node.src[1]])
        step = (
            f"{name} {UPDATES[op]} {body}"
            if op in UPDATES
            else f"{name} = {op.value}({name}, {body})"
        )
        step = f"{name} = arg{op.value}({body})" if place else step
        self.bodies[node.src[-1]].items.append(step)
        self.texts[node] = Text(name)

    def tuple_(self, node: UOp) -> None:
        """A value and its index, of an argmax."""
        self.texts[node] = Text(", ".join(self.texts[s].text for s in node.src))

    def carry(self, node: UOp) -> None:
        """A name, to which the recurrence assigns."""
        self.texts[node] = Text(self._new_name())

    def recur(self, node: UOp) -> None:
        """``v0 = first``, the loop with its stores and ``v0 = next``, then the last stores."""
        arg, r, n = node.arg, node.src[0], node.arg.carried
        carries = {u.arg.number: u for u in self.uses if u.op is Op.CARRY and u.src[0] is r}
        stores = node.src[1 + 2 * n + arg.conditional :]
        around, inside = self.innermost.items, self.bodies[r].items
        steps = []
        for i, u in sorted(carries.items()):
            name, first, following = (self.texts[v].text for v in (u, *node.src[1 + i :: n][:2]))
            around.append(f"{name}:{SHORT[u.dtype]} = {first}")
            # A carry that keeps its value needs no assignment.
            steps += [(name, following)] if name != following else []
        if arg.conditional:
            inside.append(f"if not ({self.texts[node.src[1 + 2 * n]].text}): break")
        inside += [self.texts[s].text for s in stores[: arg.stores]]
        # One assignment for all: each next value is computed from the present carries.
        if steps:
            inside.append(" = ".join(", ".join(side) for side in zip(*steps)))
        around.append(self.bodies[r])
        around += [self.texts[s].text for s in stores[arg.stores :]]

    def store(self, node: UOp) -> None:
        """``b[r0] = value``."""
        buffer, index, value, *predicate = (self.texts[s].text for s in node.src)
        line = f"{buffer}[{index}] = {value}"
        self.texts[node] = Text(f"if {predicate[0]}: {line}" if predicate else line)

    def sink(self, node: UOp) -> None:
        """Add the stores to the innermost loop; recurrences have added theirs."""
        self.innermost.items += [self.texts[s].text for s in node.src if s.op is Op.STORE]

    def text(self) -> str:
        """The lines, indented by loop."""
        # A stack instead of recursion: users nest loops deeply.
        lines: list[str] = []
        stack: list[tuple[int, str | Body]] = [(0, self.root)]
        while stack:
            depth, item = stack.pop()
            if isinstance(item, str):
                lines.append("  " * depth + item)
                continue
            if item.range is not None:
                lines.append("  " * depth + self._header(item.range))
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
PRINT: dict[Op, Callable[[NestPrinter, UOp], None]] = {
    Op.PARAM: NestPrinter.buffer,
    Op.LOAD: NestPrinter.load,
    Op.MEMO: NestPrinter.memo,
    Op.STAGED: NestPrinter.staged,
    Op.FOLD: NestPrinter.fold,
    Op.TUPLE: NestPrinter.tuple_,
    Op.CARRY: NestPrinter.carry,
    Op.RECUR: NestPrinter.recur,
    Op.STORE: NestPrinter.store,
    Op.SINK: NestPrinter.sink,
}
