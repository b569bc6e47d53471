"""C writer: the text of one kernel as it grows: lines, blocks, names, and masks."""

from __future__ import annotations

from collections.abc import Sequence

from tfn.dtypes import BOOL, FLOATS, INT32, UNSIGNED, DType
from tfn.lower.codegen.linearize import BEGIN, END
from tfn.lower.codegen.render.c.names import element, literal, shaped, stored
from tfn.lower.codegen.render.c.plain import PLAIN, scalar
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp

EFFECTS = frozenset({Op.LOOP, Op.LEAVE, Op.END, Op.STORE, Op.PREFETCH})
"""Instructions with an effect: they are rendered whether or not their value is used."""


class CWriter:
    """The text of one function as it grows.

    Attributes:
        lines: of the body.
        names: of values.
        masks: names of vectors of bool, by the width of a lane; one table for each open block.
        widths: of the lanes that a mask was computed in.
        used: values that are operands of an instruction.
        narrow_counters: counters of loops that are read as 32-bit numbers only.
        used_tiles: those of the parameters `begin` and `end` that are used.
        halves: buffers of numbers of 4 bits, two in a byte.
    """

    def __init__(self, items: Sequence[UOp]) -> None:
        self.lines: list[str] = []
        self.names: dict[UOp, str] = {}
        self.masks: list[dict[tuple[UOp, int], str]] = [{}]
        self.widths: dict[UOp, int] = {}
        self.accumulators: dict[UOp, list[UOp]] = {}
        self.used_tiles: set[str] = set()
        self.halves: set[UOp] = set()
        self.used: set[UOp] = set()
        wide: set[UOp] = set()
        for u in reversed(items):
            if u.op in EFFECTS or u in self.used:
                self.used |= set(u.src)
                if (u.op, u.dtype) != (Op.CAST, INT32) and u.op not in (Op.END, Op.ACCUMULATOR):
                    wide.update(u.src)
            if u.op is Op.ACCUMULATOR:
                self.accumulators.setdefault(u.src[0], []).append(u)
        self.narrow_counters = {u for u in items if u.op is Op.LOOP} - wide
        self.count = self.depth = 0

    def __call__(self, u: UOp) -> str:
        """The text of a value, other than a mask, where it is used."""
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
                self.used_tiles.add(name)
            else:
                raise AssertionError(f"{u} is used before it is rendered")
        return name

    def line(self, text: str) -> None:
        """Add a line at the present depth."""
        self.lines.append("  " * (self.depth + 1) + text)

    def let(self, kind: str, value: str) -> str:
        """Add a line that names a value; returns the name."""
        self.count += 1
        self.line(f"const {kind} v{self.count} = {value};")
        return f"v{self.count}"

    def put(self, u: UOp, value: str) -> None:
        """Name the value of a node that is no mask."""
        self.names[u] = self.let(shaped(element(u.dtype), u.shape), value)

    def put_mask(self, u: UOp, width: int, value: str) -> None:
        """Name the value of a mask, in lanes of `width` bits."""
        self.widths[u] = width
        self.masks[-1][u, width] = self.let(f"u{width}x{u.shape[0]}", value)

    def mask(self, u: UOp, width: int) -> str:
        """A mask in lanes of `width` bits, converted from another width if need be."""
        for table in self.masks:
            name = table.get((u, width))
            if name is not None:
                return name
        n, kind = u.shape[0], f"u{width}x{u.shape[0]}"
        if u.op is Op.CONST:
            return f"splat_{kind}({f'(u{width})-1' if u.arg.bits else '0u'})"
        if constant_prefix(u) is not None:
            return f"first_{kind}({constant_prefix(u)})"
        if u.op is Op.SPLAT:
            return f"splat_{kind}((u{width})-(u{width}){self(u.src[0])})"
        own = self.widths[u]
        name = self.let(kind, f"mask_u{own}_u{width}x{n}({self.mask(u, own)})")
        self.masks[-1][u, width] = name
        return name

    def width(self, *sources: UOp) -> int:
        """The width of lanes for an operation on masks: the largest that an operand has already."""
        return max((self.widths[s] for s in sources if s in self.widths), default=8)

    def open(self, text: str) -> None:
        """Open a block."""
        self.line(text + " {")
        self.depth += 1
        self.masks.append({})

    def close(self) -> None:
        """Close a block, and forget the masks that it named."""
        self.masks.pop()
        self.depth -= 1
        self.line("}")

    def word(self, operation: str, kind: str, shape: Shape, *operands: str) -> str:
        """A call of a word; plain C on scalars, where C has the operator."""
        if not shape and operation in PLAIN and operation != "convert":
            return scalar(operation, kind, *operands)
        return f"{operation}_{shaped(kind, shape)}({', '.join(operands)})"

    def convert(self, source: str, to: str, shape: Shape, value: str) -> str:
        """A conversion; the types are signed where the sign matters."""
        if shape:
            return f"convert_{source}_{to}x{shape[0]}({value})"
        outer = f"(u{to[1:]})" if to[0] == "s" else ""
        return f"{outer}({to})({source}){value}"


def constant_prefix(u: UOp) -> int | None:
    """The number of lanes that a mask is true in, if they are the first ones and it is constant."""
    if u.op is not Op.LT or u.src[0].op is not Op.LANES or u.src[1].op is not Op.CONST:
        return None
    return int(u.src[1].arg.value)


def signed(dtype: DType) -> bool:
    """Whether a dtype is of signed integers."""
    return dtype not in FLOATS and dtype not in UNSIGNED and dtype != BOOL
