"""The kernel of a sort, written by hand: a stable radix sort of a permutation, row by row.

For each key, the last one first, and for each byte of it, the least significant first: count how
often each of 256 digits occurs, turn the counts into positions, and write the permutation in the
order of the digit.  At the end each operand is read through the permutation.

Keys are compared by bits that are put in order first: the sign bit of integers is flipped;
negative floats are inverted, -0.0 becomes 0.0, and every NaN comes after all else.

Source: Knuth, The Art of Computer Programming, volume 3, section 5.2.5.
"""

from __future__ import annotations

import hashlib
from math import prod

from tfn.dtypes import BFLOAT16, FLOATS, SIGNED, DType
from tfn.lower.kernel import Kernel
from tfn.trace.uop import UOp

INFINITY = {2: 0x7C00, 4: 0x7F800000, 8: 0x7FF0000000000000}
NS_PER_PASS = 3


class _Text:
    """Lines of a function, with loops that count."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0
        self.block = "entry"

    def let(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %v{self.count} = {text}")
        return f"%v{self.count}"

    def do(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def element(self, kind: str, base: str, index: str) -> str:
        return self.let(f"getelementptr {kind}, ptr {base}, i64 {index}")

    def load(self, kind: str, base: str, index: str) -> str:
        return self.let(f"load {kind}, ptr {self.element(kind, base, index)}")

    def store(self, kind: str, value: str, base: str, index: str) -> None:
        self.do(f"store {kind} {value}, ptr {self.element(kind, base, index)}")

    def open(self, begin: str, end: str) -> tuple[str, int, str, int]:
        """A loop that may not run at all; gives the counter."""
        self.count += 1
        tag, counter = self.count, f"%i{self.count}"
        before = self.block
        self.do(f"br label %head{tag}")
        self.lines.append(f"head{tag}:")
        at = len(self.lines)
        self.lines.append(f"  {counter} = phi i64 [ {begin}, %{before} ]")
        self.do(f"%go{tag} = icmp slt i64 {counter}, {end}")
        self.do(f"br i1 %go{tag}, label %body{tag}, label %exit{tag}")
        self.lines.append(f"body{tag}:")
        self.block = f"body{tag}"
        return counter, tag, end, at

    def close(self, loop: tuple[str, int, str, int]) -> None:
        counter, tag, _, at = loop
        step = self.let(f"add nsw i64 {counter}, 1")
        self.lines[at] += f", [ {step}, %{self.block} ]"
        self.do(f"br label %head{tag}")
        self.lines.append(f"exit{tag}:")
        self.block = f"exit{tag}"


def ordered(t: _Text, dtype: DType, bits: str) -> str:
    """Bits whose unsigned order is that of the values."""
    width = 8 * dtype.itemsize
    kind, sign = f"i{width}", 1 << (width - 1)
    if dtype in SIGNED:
        return t.let(f"xor {kind} {bits}, {sign}")
    if dtype not in FLOATS:
        return bits
    infinity = 0x7F80 if dtype == BFLOAT16 else INFINITY[dtype.itemsize]
    magnitude = t.let(f"and {kind} {bits}, {sign - 1}")
    zero = t.let(f"icmp eq {kind} {magnitude}, 0")
    nan = t.let(f"icmp ugt {kind} {magnitude}, {infinity}")
    plain = t.let(f"select i1 {zero}, {kind} 0, {kind} {bits}")
    negative = t.let(f"icmp slt {kind} {plain}, 0")
    down, up = t.let(f"xor {kind} {plain}, -1"), t.let(f"xor {kind} {plain}, {sign}")
    found = t.let(f"select i1 {negative}, {kind} {down}, {kind} {up}")
    return t.let(f"select i1 {nan}, {kind} -1, {kind} {found}")


def kernel(body: UOp) -> Kernel:
    """The kernel of TUPLE(GET(SORT(operands), i), ...): on outputs, scratch, operands."""
    node = body.src[0].src[0]
    wanted = [output.arg for output in body.src]
    shape = node.src[0].shape
    n, rows = shape[-1], prod(shape[:-1])
    t = _Text()
    total = len(wanted) + len(node.src) + 1
    buffers = []
    for i in range(total):
        slot = t.let(f"getelementptr ptr, ptr %operands, i64 {i}")
        buffers.append(t.let(f"load ptr, ptr {slot}, align 8"))
    outputs, scratch, operands = (
        buffers[: len(wanted)],
        buffers[len(wanted)],
        buffers[len(wanted) + 1 :],
    )
    t.do("%counts = alloca [256 x i64], align 64")
    t.do("%sum = alloca i64, align 8")
    row = t.open("%begin", "%end")
    start = t.let(f"mul i64 {row[0]}, {n}")
    twice = t.let(f"mul i64 {row[0]}, {2 * n}")
    here = t.element("i32", scratch, twice)
    there = t.element("i32", here, str(n))
    each = t.open("0", str(n))
    t.store("i32", t.let(f"trunc i64 {each[0]} to i32"), here, each[0])
    t.close(each)
    for key in reversed(range(node.arg.keys)):
        for byte in range(node.src[key].dtype.itemsize):
            dtype = node.src[key].dtype
            first = t.element(f"i{8 * dtype.itemsize}", operands[key], start)
            _by_digit(t, dtype, first, byte, here, there, n)
            here, there = there, here
    for out, index in zip(outputs, wanted, strict=True):
        kind = f"i{8 * node.src[index].dtype.itemsize}"
        from_, to = t.element(kind, operands[index], start), t.element(kind, out, start)
        each = t.open("0", str(n))
        at = t.let(f"zext i32 {t.load('i32', here, each[0])} to i64")
        t.store(kind, t.load(kind, from_, at), to, each[0])
        t.close(each)
    t.close(row)
    text = "\n".join(t.lines)
    name = "s" + hashlib.sha256(text.encode()).hexdigest()[:20]
    passes = sum(node.src[k].dtype.itemsize for k in range(node.arg.keys))
    return Kernel(
        name, body, (), rows,
        f"define void @{name}(i64 %begin, i64 %end, ptr %operands) #0 {{\nentry:\n{text}\n"
        '  ret void\n}\nattributes #0 = { nounwind "no-builtins" }\n',
        rows * n * passes * NS_PER_PASS,
    )  # fmt: skip


def _by_digit(t: _Text, dtype: DType, key: str, byte: int, here: str, there: str, n: int) -> None:
    """One pass: the permutation `here`, in the order of one byte of the key, into `there`."""
    kind = f"i{8 * dtype.itemsize}"
    clear = t.open("0", "256")
    t.store("i64", "0", "%counts", clear[0])
    t.close(clear)

    def digit(at: str) -> str:
        bits = ordered(t, dtype, t.load(kind, key, at))
        low = t.let(f"lshr {kind} {bits}, {8 * byte}") if byte else bits
        if dtype.itemsize == 1:
            return t.let(f"zext i8 {low} to i64")
        return t.let(f"zext i8 {t.let(f'trunc {kind} {low} to i8')} to i64")

    each = t.open("0", str(n))  # the counts do not depend on the order
    found = digit(each[0])
    t.store("i64", t.let(f"add i64 {t.load('i64', '%counts', found)}, 1"), "%counts", found)
    t.close(each)
    t.do("store i64 0, ptr %sum")
    each = t.open("0", "256")
    count = t.load("i64", "%counts", each[0])
    before = t.let("load i64, ptr %sum")
    t.store("i64", before, "%counts", each[0])
    t.do(f"store i64 {t.let(f'add i64 {before}, {count}')}, ptr %sum")
    t.close(each)
    each = t.open("0", str(n))
    index = t.load("i32", here, each[0])
    found = digit(t.let(f"zext i32 {index} to i64"))
    position = t.load("i64", "%counts", found)
    t.store("i32", index, there, position)
    t.store("i64", t.let(f"add i64 {position}, 1"), "%counts", found)
    t.close(each)
