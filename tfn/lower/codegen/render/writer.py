"""LLVM IR writer: types, constants, names, addresses and declarations of a function's text."""

from __future__ import annotations

import struct
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType

import numpy as np

from tfn.dtypes import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, FLOATS, DType
from tfn.lower.codegen.linearize import BEGIN, END
from tfn.trace.op import Op
from tfn.trace.uop import UOp

# fmt: off
TYPES: dict[DType, str] = {
    BOOL: "i1", BFLOAT16: "i16", FLOAT16: "half", FLOAT32: "float", FLOAT64: "double",
    **{np.dtype(f"{sign}int{n}"): f"i{n}" for sign in ("", "u") for n in (8, 16, 32, 64)},
}
# fmt: on


def scalar(dtype: DType) -> str:
    """The type of a value in a register."""
    return TYPES[dtype]


def stored(dtype: DType) -> str:
    """The type of a value in memory."""
    return "i8" if dtype == BOOL else TYPES[dtype]


def typed(u: UOp) -> str:
    """The type of a node's value: a scalar, a vector, or a matrix in a register."""
    if len(u.shape) == 2:
        return "x86_amx"
    return vector(TYPES[u.dtype], u.shape)


def vector(name: str, shape: tuple[int, ...]) -> str:
    """A scalar type with the lanes of a shape: ``<16 x float>``."""
    return f"<{shape[0]} x {name}>" if shape else name


def literal(u: UOp) -> str:
    """A constant: integers in decimal, floats as LLVM takes them, by the bits of a double."""
    value, dtype = u.arg.value, u.dtype
    if dtype == BOOL:
        text = "true" if value else "false"
    elif dtype == BFLOAT16:
        text = str(u.arg.bits)
    elif dtype == FLOAT16:
        text = f"0xH{u.arg.bits:04X}"
    elif dtype in FLOATS:
        text = f"0x{struct.unpack('<Q', struct.pack('<d', float(value)))[0]:016X}"
    else:
        text = str(int(value))
    return f"splat ({TYPES[dtype]} {text})" if u.shape else text


def suffix(u: UOp) -> str:
    """The suffix of an intrinsic's name for a type: ``v16f32``."""
    kind = "f" if u.dtype in FLOATS and u.dtype != BFLOAT16 else "i"
    bits = 1 if u.dtype == BOOL else 8 * u.dtype.itemsize
    return f"{f'v{u.shape[0]}' if u.shape else ''}{kind}{bits}"


class LlvmWriter:
    """The text of one function as it grows.

    Attributes:
        hides_addresses: whether addresses are hidden from LLVM's loop strength reduction.
        spaces: by the op of a buffer the address space of its pointer, where it is not 0.
        lines: of the body.
        names: of values.
        block: the label of the present basic block.
        declared: the intrinsics in use, by name.
        allocas: stack slots, reserved in the entry block.
        open_loops: of a loop or accumulator the line of its phi, the block before the loop, and
            the kind of the loop.
        wholes: values of which others are parts.
    """

    def __init__(
        self, hides_addresses: bool = True, spaces: Mapping[Op, int] = MappingProxyType({})
    ) -> None:
        self.hides_addresses, self.spaces = hides_addresses, spaces
        self.lines: list[str] = []
        self.names: dict[UOp, str] = {BEGIN: "%begin", END: "%end"}
        self.declared: dict[str, str] = {}
        self.allocas: list[str] = []
        self.block = "entry"
        self.count = 0
        self.pointers: dict[tuple[str, UOp, UOp], str] = {}
        self.open_loops: dict[UOp, tuple[int, str, str]] = {}
        self.wholes: dict[Hashable, str] = {}

    def __call__(self, u: UOp) -> str:
        """The text of a value where it is used."""
        name = self.names.get(u)
        if name is None:
            if u.op is Op.CONST:
                name = literal(u)
            elif u.op is Op.LANES:
                name = "<" + ", ".join(f"i64 {i}" for i in range(u.arg)) + ">"
            else:
                raise AssertionError(f"{u} is used before it is emitted")
            self.names[u] = name
        return name

    def fresh(self) -> str:
        """A new name."""
        self.count += 1
        return f"%v{self.count}"

    def let(self, text: str) -> str:
        """Add an instruction; returns the name of its value."""
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def stack(self, kind: str) -> str:
        """A new stack slot, aligned to a cache line."""
        name = self.fresh()
        self.allocas.append(f"  {name} = alloca {kind}, align 64")
        return name

    def intrinsic(self, name: str, result: str, arguments: Sequence[tuple[str, str]]) -> str:
        """The text of a call of an LLVM intrinsic, which is declared once."""
        if name not in self.declared:
            types = ", ".join(t.split(" align")[0] for t, _ in arguments)
            self.declared[name] = f"declare {result} @llvm.{name}({types})"
        values = ", ".join(f"{t} {v}" for t, v in arguments)
        return f"call {result} @llvm.{name}({values})"

    def call(self, name: str, arguments: Sequence[tuple[str, str]]) -> None:
        """Add a call of an LLVM intrinsic without a result."""
        self.lines.append("  " + self.intrinsic(name, "void", arguments))

    @contextmanager
    def branch(self, predicate: str) -> Iterator[None]:
        """Instructions that run where a predicate is true; everywhere if it is empty."""
        if not predicate:
            yield
            return
        self.count += 1
        yes, done = f"yes{self.count}", f"done{self.count}"
        self.lines += [f"  br i1 {predicate}, label %{yes}, label %{done}", f"{yes}:"]
        self.block = yes
        yield
        self.lines += [f"  br label %{done}", f"{done}:"]
        self.block = done

    def prefetch(self, pointer: str) -> None:
        """Prefetch a cache line: for a read (0), into all caches (3), as data (1)."""
        arguments = [("ptr", pointer), ("i32", "0"), ("i32", "3"), ("i32", "1")]
        self.call("prefetch.p0", arguments)

    def _opaque(self, pointer: str) -> str:
        """The same address, hidden from LLVM's loop strength reduction.

        That tries to express each address by every other one, in an eighth of the compile time;
        here addresses are reduced already.
        """
        if self.block == "entry" or not self.hides_addresses:
            return pointer
        return self.let(self.intrinsic("strip.invariant.group.p0", "ptr", [("ptr", pointer)]))

    def pointer_type(self, buffer: UOp) -> str:
        """The type of a pointer to an element of a buffer."""
        space = self.spaces.get(buffer.op)
        return f"ptr addrspace({space})" if space else "ptr"

    def pointer(self, buffer: UOp, base: UOp, offset: int) -> str:
        """The address of an element; the part without the offset is computed once per block."""
        element, kind = stored(buffer.dtype), self.pointer_type(buffer)
        key = (self.block, buffer, base)
        start = self.pointers.get(key)
        if start is None:
            start = self(buffer)
            if base.op is not Op.CONST or base.arg.bits:
                start = self.let(f"getelementptr {element}, {kind} {start}, i64 {self(base)}")
                start = self._opaque(start)
            self.pointers[key] = start
        if not offset:
            return start
        return self.let(f"getelementptr {element}, {kind} {start}, i64 {offset}")
