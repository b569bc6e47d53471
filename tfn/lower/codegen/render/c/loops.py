"""Loops of C kernels: variables for accumulators before them, and their next values at the end."""

from __future__ import annotations

from tfn.dtypes import BOOL
from tfn.lower.codegen.render.c.names import element, shaped
from tfn.lower.codegen.render.c.writer import CWriter
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def declare(w: CWriter, u: UOp) -> None:
    """The variables of the accumulators of a loop."""
    for acc in w.accumulators.get(u, ()):
        w.count += 1
        variable = w.names[acc] = f"a{w.count}"
        if acc.dtype == BOOL and acc.shape:
            w.widths[acc], w.masks[-1][acc, 8] = 8, variable
            w.line(f"u8x{acc.shape[0]} {variable} = {w.mask(acc.src[1], 8)};")
        else:
            kind = shaped(element(acc.dtype), acc.shape)
            w.line(f"{kind} {variable} = {w(acc.src[1])};")


def begin(w: CWriter, u: UOp) -> None:
    """The head of a loop whose accumulators are declared."""
    name = w.names[u] = f"i{u.arg}"
    start = w(u.src[0])
    if len(u.src) == 1:
        w.open(f"for (u64 {name} = {start};; ++{name})")
        return
    constant = all(s.op is Op.CONST for s in u.src)
    end = w(u.src[1])
    # Counters are unsigned; bounds that are computed may be negative.
    test = f"{name} < {end}" if constant else f"(s64){name} < (s64){end}"
    kind = "u32" if constant and u in w.narrow_counters else "u64"
    w.open(f"for ({kind} {name} = {start}; {test}; ++{name})")


def carry(w: CWriter, u: UOp) -> None:
    """The next values of accumulators, at the end of a loop."""
    half = len(u.src) // 2
    pairs = []
    for acc, value in zip(u.src[1 : 1 + half], u.src[1 + half :], strict=True):
        is_mask = acc.dtype == BOOL and acc.shape
        name = w.mask(value, 8) if is_mask else w(value)
        if value.op is Op.ACCUMULATOR and value is not acc:  # its variable may change before
            kind = f"u8x{acc.shape[0]}" if is_mask else shaped(element(acc.dtype), acc.shape)
            name = w.let(kind, name)
        pairs.append((w.names[acc], name))
    for variable, name in pairs:
        if variable != name:
            w.line(f"{variable} = {name};")
