"""Loads and stores as LLVM IR: contiguous, masked, strided, gathered and scattered.

The predicate of a vector becomes a mask.  A scalar load whose predicate is false reads the first
element instead, whose value is not used: a select is cheaper than a branch.
"""

from __future__ import annotations

from tfn.dtypes import BFLOAT16, BOOL, FLOATS, DType
from tfn.lower.codegen.render.writer import LlvmWriter, stored, typed, vector
from tfn.trace.op import Op
from tfn.trace.uop import UOp


def _bytes_to_bools(w: LlvmWriter, u: UOp, name: str) -> str:
    return (
        w.let(f"icmp ne {vector('i8', u.shape)} {name}, zeroinitializer")
        if u.shape
        else w.let(f"icmp ne i8 {name}, 0")
    )


def load(w: LlvmWriter, u: UOp) -> str:
    """The value at an address; zero where the predicate is false."""
    buffer, base = u.src[:2]
    predicate = w(u.src[2]) if len(u.src) == 3 else ""
    element, size = stored(u.dtype), u.dtype.itemsize
    kind = vector(element, u.shape)
    access = u.arg
    align = f"align {size}"
    if base.shape or (u.shape and abs(access.stride) != 1):
        name = _gather(w, u, kind, predicate)
    elif u.shape:
        offset = access.offset - (access.lanes - 1 if access.stride < 0 else 0)
        pointer = w.pointer(buffer, base, offset)
        if predicate:
            mask = predicate
            if access.stride < 0:
                mask = reversed_lanes(w, f"<{access.lanes} x i1>", predicate)
            name = w.let(
                w.intrinsic(
                    f"masked.load.{_memory_suffix(u)}.p0",
                    kind,
                    [
                        (f"ptr {align}", pointer),
                        (f"<{access.lanes} x i1>", mask),
                        (kind, "zeroinitializer"),
                    ],
                )
            )
        else:
            name = w.let(f"load {kind}, {w.pointer_type(buffer)} {pointer}, {align}")
        if access.stride < 0:
            name = reversed_lanes(w, kind, name)
    elif predicate:
        index = w.let(f"select i1 {predicate}, i64 {_offset(w, base, access.offset)}, i64 0")
        to = w.pointer_type(buffer)
        pointer = w.let(f"getelementptr {element}, {to} {w(buffer)}, i64 {index}")
        value = w.let(f"load {kind}, {to} {pointer}, {align}")
        name = w.let(f"select i1 {predicate}, {kind} {value}, {kind} {zero(u.dtype)}")
    else:
        pointer = w.pointer(buffer, base, access.offset)
        name = w.let(f"load {kind}, {w.pointer_type(buffer)} {pointer}, {align}")
    return _bytes_to_bools(w, u, name) if u.dtype == BOOL else name


def zero(dtype: DType) -> str:
    """The text of zero."""
    return "0.0" if dtype in FLOATS and dtype != BFLOAT16 else "0"


def _offset(w: LlvmWriter, base: UOp, offset: int) -> str:
    return w.let(f"add i64 {w(base)}, {offset}") if offset else w(base)


def _memory_suffix(u: UOp) -> str:
    kind = "f" if u.dtype in FLOATS and u.dtype != BFLOAT16 else "i"
    return f"v{u.shape[0]}{kind}{8 * u.dtype.itemsize}"


def reversed_lanes(w: LlvmWriter, kind: str, name: str) -> str:
    """A vector of a type with its lanes in reverse."""
    lanes = int(kind[1:].split(" ")[0])
    order = ", ".join(f"i32 {lanes - 1 - i}" for i in range(lanes))
    return w.let(f"shufflevector {kind} {name}, {kind} poison, <{lanes} x i32> <{order}>")


def _addresses(w: LlvmWriter, u: UOp, lanes: int) -> str:
    """A vector of pointers: at a vector of indices, or at a constant stride."""
    buffer, base, access = u.src[0], u.src[1], u.arg
    element = stored(buffer.dtype)
    if base.shape:
        start = w(buffer)
        if access.offset:
            start = w.let(f"getelementptr {element}, ptr {start}, i64 {access.offset}")
        return w.let(f"getelementptr {element}, ptr {start}, <{lanes} x i64> {w(base)}")
    start = w.pointer(buffer, base, access.offset)
    steps = ", ".join(f"i64 {access.stride * i}" for i in range(lanes))
    return w.let(f"getelementptr {element}, ptr {start}, <{lanes} x i64> <{steps}>")


def _gather(w: LlvmWriter, u: UOp, kind: str, predicate: str) -> str:
    lanes = u.shape[0]
    mask = predicate or "splat (i1 true)"
    return w.let(
        w.intrinsic(
            f"masked.gather.{_memory_suffix(u)}.v{lanes}p0",
            kind,
            [
                (f"<{lanes} x ptr> align {u.dtype.itemsize}", _addresses(w, u, lanes)),
                (f"<{lanes} x i1>", mask),
                (kind, "zeroinitializer"),
            ],
        )
    )


def store(w: LlvmWriter, u: UOp) -> str:
    """Write a value to an address, where the predicate is true."""
    buffer, base, value = u.src[:3]
    if len(u.src) == 4 and value.shape and not u.src[3].shape:  # all lanes, or none
        with w.branch(w(u.src[3])):
            return store(w, UOp(Op.STORE, u.src[:3], u.arg))
    predicate = w(u.src[3]) if len(u.src) == 4 else ""
    element, size = stored(value.dtype), value.dtype.itemsize
    kind, name, access = vector(element, value.shape), w(value), u.arg
    if value.dtype == BOOL:
        name = w.let(f"zext {typed(value)} {name} to {kind}")
    align = f"align {size}"
    if base.shape or (value.shape and abs(access.stride) != 1):
        lanes = value.shape[0]
        arguments = [
            (kind, name),
            (f"<{lanes} x ptr> {align}", _addresses(w, u, lanes)),
            (f"<{lanes} x i1>", predicate or "splat (i1 true)"),
        ]
        w.call(f"masked.scatter.{_memory_suffix(value)}.v{lanes}p0", arguments)
    elif predicate and value.shape and _is_first_lane(u.src[3]):
        # LLVM 22 writes four bytes of a narrowed value under a constant mask of one lane.
        scalar = w.let(f"extractelement {kind} {name}, i32 0")
        pointer = w.pointer(buffer, base, access.offset)
        w.lines.append(f"  store {element} {scalar}, ptr {pointer}, {align}")
    elif value.shape:
        lanes = access.lanes
        offset = access.offset
        if access.stride < 0:
            offset -= lanes - 1
            name = reversed_lanes(w, kind, name)
            predicate = reversed_lanes(w, f"<{lanes} x i1>", predicate) if predicate else ""
        pointer = w.pointer(buffer, base, offset)
        if predicate:
            arguments = [(kind, name), (f"ptr {align}", pointer), (f"<{lanes} x i1>", predicate)]
            w.call(f"masked.store.{_memory_suffix(value)}.p0", arguments)
        else:
            w.lines.append(f"  store {kind} {name}, {w.pointer_type(buffer)} {pointer}, {align}")
    else:
        with w.branch(predicate):
            pointer = w.pointer(buffer, base, access.offset)
            w.lines.append(f"  store {kind} {name}, {w.pointer_type(buffer)} {pointer}, {align}")
    return ""


def _is_first_lane(mask: UOp) -> bool:
    """Whether a mask is true in the first lane and no other."""
    if mask.op is not Op.LT or mask.src[0].op is not Op.LANES or mask.src[1].op is not Op.CONST:
        return False
    return int(mask.src[1].arg.value) == 1


def prefetch(w: LlvmWriter, u: UOp) -> str:
    """Prefetch the cache line of an element."""
    buffer, base = u.src
    w.prefetch(w.pointer(buffer, base, u.arg.offset))
    return ""
