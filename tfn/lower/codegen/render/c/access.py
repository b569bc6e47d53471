"""Loads and stores as C: contiguous, masked, strided, gathered and scattered."""

from __future__ import annotations

from tfn.dtypes import BOOL, INT64
from tfn.lower.codegen.render.c.names import literal, shaped, stored
from tfn.lower.codegen.render.c.writer import CWriter, constant_prefix
from tfn.trace.op import Op
from tfn.trace.uop import UOp, const


def _index(w: CWriter, base: UOp, offset: int) -> str:
    """The index of an element: base + offset."""
    if base.op is Op.CONST:
        return str(int(base.arg.value) + offset)
    return f"{w(base)} {'+' if offset > 0 else '-'} {abs(offset)}" if offset else w(base)


def _pointer(w: CWriter, buffer: UOp, base: UOp, offset: int) -> str:
    at = _index(w, base, offset)
    return w(buffer) if at == "0" else f"{w(buffer)} + {_signed(at)}"


def _signed(index: str) -> str:
    """An index as a signed number: of a masked access it may be before the buffer."""
    return index if index.lstrip("-").isdigit() else f"(s64)({index})"


def _lane_indices(w: CWriter, u: UOp, lanes: int) -> str:
    """The indices of lanes."""
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


def load(w: CWriter, u: UOp) -> None:
    """A scalar, a contiguous vector, or a gather."""
    buffer, base = u.src[:2]
    predicate = u.src[2] if len(u.src) == 3 else None
    access, kind = u.arg, shaped(stored(u.dtype), u.shape)
    if not u.shape:
        index = _index(w, base, access.offset)
        halves = buffer in w.halves
        value = f"nibble({w(buffer)}, {index})" if halves else f"{w(buffer)}[{index}]"
        if u.dtype == BOOL:
            value = f"{value} != 0"
        w.put(u, f"{w(predicate)} ? {value} : 0" if predicate is not None else value)
        return
    bits = 8 * u.dtype.itemsize
    if base.shape or abs(access.stride) != 1:
        at = _lane_indices(w, u, u.shape[0])
        selectors = [] if predicate is None else [w.mask(predicate, bits)]
        name = f"gather{'where' if selectors else ''}_{kind}"
        value = f"{name}({', '.join([w(buffer), at, *selectors])})"
    else:
        backwards = access.stride < 0
        value = _contiguous(w, "load", u, kind, predicate, bits, backwards)
        value = f"reverse_{kind}({value})" if backwards else value
    if u.dtype == BOOL:
        w.put_mask(u, 8, f"ne_{kind}({value}, splat_{kind}(0u))")
    else:
        w.put(u, value)


def _contiguous(
    w: CWriter,
    operation: str,
    u: UOp,
    kind: str,
    predicate: UOp | None,
    bits: int,
    backwards: bool,
    *value: str,
) -> str:
    access = u.arg
    offset = access.offset - (access.lanes - 1 if backwards else 0)
    pointer = _pointer(w, u.src[0], u.src[1], offset)
    if predicate is None:
        return f"{operation}_{kind}({', '.join([pointer, *value])})"
    count = constant_prefix(predicate)
    if count is not None and not backwards:
        return f"{operation}first_{kind}({', '.join([pointer, str(count), *value])})"
    mask = w.mask(predicate, bits)
    mask = f"reverse_u{bits}x{access.lanes}({mask})" if backwards else mask
    return f"{operation}where_{kind}({', '.join([pointer, mask, *value])})"


def store(w: CWriter, u: UOp) -> None:
    """A scalar, a contiguous vector, or a scatter."""
    buffer, base, value = u.src[:3]
    predicate = u.src[3] if len(u.src) == 4 else None
    access, kind = u.arg, shaped(stored(value.dtype), value.shape)
    if not value.shape:
        text = f"{w(buffer)}[{_index(w, base, access.offset)}] = {w(value)};"
        w.line(f"if ({w(predicate)}) {text}" if predicate is not None else text)
        return
    bits = 8 * value.dtype.itemsize
    if value.dtype == BOOL:
        operand = f"and_{kind}({w.mask(value, 8)}, splat_{kind}(1u))"
    else:
        operand = w(value)
    if base.shape or abs(access.stride) != 1:
        at = _lane_indices(w, u, value.shape[0])
        selectors = [] if predicate is None else [w.mask(predicate, bits)]
        name = f"scatter{'where' if selectors else ''}_{kind}"
        w.line(f"{name}({', '.join([w(buffer), at, *selectors, operand])});")
        return
    backwards = access.stride < 0
    operand = f"reverse_{kind}({operand})" if backwards else operand
    w.line(_contiguous(w, "store", u, kind, predicate, bits, backwards, operand) + ";")


def prefetch(w: CWriter, u: UOp) -> None:
    """Prefetch the cache line of an element."""
    buffer, base = u.src
    w.line(f"PREFETCH({_pointer(w, buffer, base, u.arg.offset)});")
