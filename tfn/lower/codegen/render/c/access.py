"""Loads and stores of a kernel in C."""

from __future__ import annotations

from tfn.dtypes import BOOL, INT64
from tfn.lower.codegen.render.c.names import literal, shaped, stored
from tfn.lower.codegen.render.c.writer import Writer, first
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const


def _index(w: Writer, base: UOp, offset: int) -> str:
    """The number of an element: base + offset."""
    if base.op is Op.CONST:
        return str(int(base.arg.value) + offset)
    return f"{w(base)} {'+' if offset > 0 else '-'} {abs(offset)}" if offset else w(base)


def _pointer(w: Writer, buffer: UOp, base: UOp, offset: int) -> str:
    at = _index(w, base, offset)
    return w(buffer) if at == "0" else f"{w(buffer)} + {_signed(at)}"


def _signed(index: str) -> str:
    """An index as a signed number: where nothing is loaded, it may lie before the buffer."""
    return index if index.lstrip("-").isdigit() else f"(s64)({index})"


def _scattered(w: Writer, u: UOp, lanes: int) -> str:
    """Where lanes are, from the start of the buffer."""
    base, access = u.src[1], u.arg
    if base.shape:
        at = w(base)
        if access.offset:
            at = f"add_u64x{lanes}({at}, splat_u64x{lanes}({literal(_i64(access.offset).arg)}))"
        return at
    steps = f"steps_u64x{lanes}({literal(_i64(access.stride).arg)})"
    start = _index(w, base, access.offset)
    return steps if start == "0" else f"add_u64x{lanes}({steps}, splat_u64x{lanes}({start}))"


def _i64(value: int) -> UOp:
    return const(value, INT64)


def load(w: Writer, u: UOp) -> None:
    """An element, a vector, or lanes from anywhere."""
    buffer, base = u.src[:2]
    gate = u.src[2] if len(u.src) == 3 else None
    access, kind = u.arg, shaped(stored(u.dtype), u.shape)
    if not u.shape:
        value = f"{w(buffer)}[{_index(w, base, access.offset)}]"
        if u.dtype == BOOL:
            value = f"{value} != 0"
        w.put(u, f"{w(gate)} ? {value} : 0" if gate is not None else value)
        return
    bits = 8 * u.dtype.itemsize
    if base.shape or abs(access.stride) != 1:
        at = _scattered(w, u, u.shape[0])
        which = [] if gate is None else [w.mask(gate, bits)]
        value = f"gather{'where' if which else ''}_{kind}({', '.join([w(buffer), at, *which])})"
    else:
        back = access.stride < 0
        value = _contiguous(w, "load", u, kind, gate, bits, back)
        value = f"reverse_{kind}({value})" if back else value
    if u.dtype == BOOL:
        w.put_mask(u, 8, f"ne_{kind}({value}, splat_{kind}(0u))")
    else:
        w.put(u, value)


def _contiguous(
    w: Writer, does: str, u: UOp, kind: str, gate: UOp | None, bits: int, back: bool, *value: str
) -> str:
    access = u.arg
    offset = access.offset - (access.lanes - 1 if back else 0)
    pointer = _pointer(w, u.src[0], u.src[1], offset)
    if gate is None:
        return f"{does}_{kind}({', '.join([pointer, *value])})"
    count = first(gate)
    if count is not None and not back:
        return f"{does}first_{kind}({', '.join([pointer, str(count), *value])})"
    which = w.mask(gate, bits)
    which = f"reverse_u{bits}x{access.lanes}({which})" if back else which
    return f"{does}where_{kind}({', '.join([pointer, which, *value])})"


def store(w: Writer, u: UOp) -> None:
    """As `load`, the other way."""
    buffer, base, value = u.src[:3]
    gate = u.src[3] if len(u.src) == 4 else None
    access, kind = u.arg, shaped(stored(value.dtype), value.shape)
    if not value.shape:
        text = f"{w(buffer)}[{_index(w, base, access.offset)}] = {w(value)};"
        w.line(f"if ({w(gate)}) {text}" if gate is not None else text)
        return
    bits = 8 * value.dtype.itemsize
    if value.dtype == BOOL:
        found = f"and_{kind}({w.mask(value, 8)}, splat_{kind}(1u))"
    else:
        found = w(value)
    if base.shape or abs(access.stride) != 1:
        at = _scattered(w, u, value.shape[0])
        which = [] if gate is None else [w.mask(gate, bits)]
        name = f"scatter{'where' if which else ''}_{kind}"
        w.line(f"{name}({', '.join([w(buffer), at, *which, found])});")
        return
    back = access.stride < 0
    found = f"reverse_{kind}({found})" if back else found
    w.line(_contiguous(w, "store", u, kind, gate, bits, back, found) + ";")


def prefetch(w: Writer, u: UOp) -> None:
    """The line of an element, asked for before it is wanted."""
    buffer, base = u.src
    w.line(f"PREFETCH({_pointer(w, buffer, base, u.arg.offset)});")
