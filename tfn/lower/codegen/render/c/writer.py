"""The text of one kernel in C as it grows: lines, blocks, names, and truths in vectors."""

from __future__ import annotations

from collections.abc import Sequence

from tfn.dtypes import BOOL, FLOATS, UNSIGNED, DType
from tfn.lower.codegen.linearize import BEGIN, END
from tfn.lower.codegen.render.c.names import element, literal, shaped, stored
from tfn.lower.codegen.render.c.plain import PLAIN, scalar
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp

EFFECTS = frozenset({Op.LOOP, Op.LEAVE, Op.END, Op.STORE, Op.PREFETCH})
"""Instructions that are not there for their value."""


class Writer:
    """The text of one function as it grows.

    Attributes:
        lines: of the body.
        names: of values.
        masks: of truths in vectors, by the width of a lane; one table for each open block.
        used: what is an operand of something.
        met: of the parameters `begin` and `end`, those in use.
    """

    def __init__(self, items: Sequence[UOp]) -> None:
        self.lines: list[str] = []
        self.names: dict[UOp, str] = {}
        self.masks: list[dict[tuple[UOp, int], str]] = [{}]
        self.widths: dict[UOp, int] = {}
        self.accumulators: dict[UOp, list[UOp]] = {}
        self.met: set[str] = set()
        self.used: set[UOp] = set()
        for u in reversed(items):
            if u.op in EFFECTS or u in self.used:
                self.used |= set(u.src)
            if u.op is Op.ACCUMULATOR:
                self.accumulators.setdefault(u.src[0], []).append(u)
        self.count = self.depth = 0

    def __call__(self, u: UOp) -> str:
        """How a value, not a truth in a vector, is written where it is used."""
        name = self.names.get(u)
        if name is None:
            if u.op is Op.CONST:
                name = literal(u.arg)
                if u.shape:
                    name = f"splat_{shaped(stored(u.dtype), u.shape)}({name})"
            elif u.op is Op.LANES:
                name = f"steps_u64x{u.arg}(1)"
            elif u in (BEGIN, END):
                name = "begin" if u is BEGIN else "end"
                self.met.add(name)
            else:
                raise AssertionError(f"{u} is used before it is made")
        return name

    def line(self, text: str) -> None:
        """One line at the present depth."""
        self.lines.append("  " * (self.depth + 1) + text)

    def let(self, kind: str, value: str) -> str:
        """A new name for a value."""
        self.count += 1
        self.line(f"const {kind} v{self.count} = {value};")
        return f"v{self.count}"

    def put(self, u: UOp, value: str) -> None:
        """The value of a node, which is not a truth in a vector."""
        self.names[u] = self.let(shaped(element(u.dtype), u.shape), value)

    def put_mask(self, u: UOp, width: int, value: str) -> None:
        """The value of a truth in a vector, in lanes of so many bits."""
        self.widths[u] = width
        self.masks[-1][u, width] = self.let(f"u{width}x{u.shape[0]}", value)

    def mask(self, u: UOp, width: int) -> str:
        """A truth in a vector, in lanes of so many bits."""
        for table in self.masks:
            found = table.get((u, width))
            if found is not None:
                return found
        n, kind = u.shape[0], f"u{width}x{u.shape[0]}"
        if u.op is Op.CONST:
            return f"splat_{kind}({f'(u{width})-1' if u.arg.bits else '0u'})"
        if first(u) is not None:
            return f"first_{kind}({first(u)})"
        if u.op is Op.SPLAT:
            return f"splat_{kind}((u{width})-(u{width}){self(u.src[0])})"
        own = self.widths[u]
        name = self.let(kind, f"mask_u{own}_u{width}x{n}({self.mask(u, own)})")
        self.masks[-1][u, width] = name
        return name

    def width(self, *sources: UOp) -> int:
        """The width of lanes that suits truths: that of one that is not made at will."""
        return max((self.widths[s] for s in sources if s in self.widths), default=8)

    def open(self, text: str) -> None:
        """A block."""
        self.line(text + " {")
        self.depth += 1
        self.masks.append({})

    def close(self) -> None:
        """The end of a block: what it named is gone."""
        self.masks.pop()
        self.depth -= 1
        self.line("}")

    def word(self, does: str, kind: str, shape: Shape, *operands: str) -> str:
        """A word of operands: plain C on scalars where there is some."""
        if not shape and does in PLAIN and does != "convert":
            return scalar(does, kind, *operands)
        return f"{does}_{shaped(kind, shape)}({', '.join(operands)})"

    def convert(self, source: str, to: str, shape: Shape, value: str) -> str:
        """A conversion; signed types are said where the sign matters."""
        if shape:
            return f"convert_{source}_{to}x{shape[0]}({value})"
        outer = f"(u{to[1:]})" if to[0] == "s" else ""
        return f"{outer}({to})({source}){value}"


def first(u: UOp) -> int | None:
    """How many lanes a mask lets through, if they are the first ones and known."""
    if u.op is not Op.LT or u.src[0].op is not Op.LANES or u.src[1].op is not Op.CONST:
        return None
    return int(u.src[1].arg.value)


def signed(dtype: DType) -> bool:
    """Whether a dtype is of integers with a sign."""
    return dtype not in FLOATS and dtype not in UNSIGNED and dtype != BOOL
