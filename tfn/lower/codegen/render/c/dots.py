"""Sums of products of bytes in C: the innermost loop of a layer of int8 as one call.

    for (i = 0; i < n; ++i) sum += x[a + i] * w[b + i];        sum = dot_s8(x + a, w + b, n, sum);

A kernel has one such loop for each layer's kind; the function is there once, and uses what the
compiler says that the processor has: Helium, two products of 16 bits in an instruction, or neither.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from tfn._support.frozen import frozen
from tfn.dtypes import INT32
from tfn.lower.codegen.render.c.writer import CWriter
from tfn.trace.op import Op
from tfn.trace.uop import UOp

LEAST = 4
"""The fewest products in a loop for which a call is worth it."""


@frozen
class Operand:
    """Consecutive bytes: where they begin, as a sum of values, and when they are there.

    Attributes:
        buffer: that they lie in.
        terms: that their first index is the sum of, with `offset`.
        gate: under which they are read, else each is `filling`; None if they always are.
    """

    buffer: UOp
    terms: tuple[UOp, ...]
    offset: int
    gate: UOp | None = None
    filling: int = 0


@frozen
class Product:
    """A loop that only adds up products of two operands, and the position of its end."""

    accumulator: UOp
    count: int
    end: int
    x: Operand
    y: Operand


def products(items: Sequence[UOp]) -> Mapping[UOp, Product]:
    """The innermost loops among instructions that are sums of products, by their first one."""
    found = {}
    begin: int | None = None
    for at, u in enumerate(items):
        if u.op is Op.LOOP:
            begin = at
        elif u.op is Op.END and begin is not None:
            product = _product(items[begin], items[begin + 1 : at], u, at)
            if product is not None:
                found[items[begin]] = product
            begin = None
    return found


def _product(loop: UOp, block: Sequence[UOp], end: UOp, at: int) -> Product | None:
    inner = {*block, loop}
    effects = any(u.op in (Op.STORE, Op.LEAVE, Op.PREFETCH) for u in block)
    bounds = [s.arg.value if s.op is Op.CONST else -1 for s in loop.src]
    if effects or len(bounds) != 2 or bounds[0] != 0 or bounds[1] < LEAST or len(end.src) != 3:
        return None
    accumulator, total = end.src[1:]
    added = [s for s in total.src if s is not accumulator] if total.op is Op.ADD else []
    if len(added) != 1 or added[0].op is not Op.MUL or total.dtype != INT32:
        return None
    x, y = (_operand(s, loop, inner) for s in added[0].src)
    if x is None or y is None or (x.gate is not None and y.gate is not None):
        return None
    x, y = (y, x) if y.gate is not None else (x, y)
    return Product(accumulator, int(bounds[1]), at, x, y)


def _operand(u: UOp, loop: UOp, inner: AbstractSet[UOp]) -> Operand | None:
    """The run of bytes along the loop that a factor reads; None if it is no such."""
    if u.op is not Op.CAST or u.dtype != INT32 or u.shape or u.src[0].dtype.name != "int8":
        return None
    u, gate, filling = u.src[0], None, 0
    if u.op is Op.WHERE and u.src[2].op is Op.CONST and u.src[1].op is Op.LOAD:
        gate, filling = u.src[0], int(u.src[2].arg.value)
        u = u.src[1]
        if u.src[2:] != (gate,) or gate in inner:
            return None
    if u.op is not Op.LOAD or u.shape or (gate is None and len(u.src) != 2):
        return None
    split = _split(u.src[1], loop, inner)
    if split is None or split[0] != 1:
        return None
    return Operand(u.src[0], split[1], u.arg.offset, gate, filling)


def _split(u: UOp, loop: UOp, inner: AbstractSet[UOp]) -> tuple[int, tuple[UOp, ...]] | None:
    """An index as a multiple of the loop's counter, and the terms that do not depend on it."""
    if u is loop or (u.op is Op.CAST and u.src[0] is loop):
        return 1, ()
    if u not in inner:
        return 0, (u,)
    parts = [_split(s, loop, inner) for s in u.src] if u.op is Op.ADD else [None]
    if any(part is None for part in parts):
        return None
    known = [part for part in parts if part is not None]
    return sum(n for n, _ in known), tuple(t for _, terms in known for t in terms)


def render(w: CWriter, product: Product, views: Sequence[dict[UOp, str]]) -> None:
    """Calls in the place of a loop, for one result or a block; `views` are its names in each."""
    totals, xs, ys = [], [], []
    for view in views:
        w.names = view
        totals.append(view[product.accumulator])
        xs.append(_address(w, product.x))
        ys.append(_address(w, product.y))
    n = f"{product.count}u"
    if len(views) > 1 and len(set(xs)) == 1:
        w.count += 1
        sums, step = f"s{w.count}", f"(u32)(({ys[1]}) - ({ys[0]}))"
        calls = [f"u32 {sums}[] = {{{', '.join(totals)}}};"]
        calls += [f"dots_s8({xs[0]}, {ys[0]}, {step}, {n}, {sums});"]
        calls += [f"{total} = {sums}[{j}];" for j, total in enumerate(totals)]
    else:
        calls = [f"{t} = dot_s8({x}, {y}, {n}, {t});" for t, x, y in zip(totals, xs, ys)]
    gate, filling = product.x.gate, product.x.filling
    if gate is not None:
        w.open(f"if ({w(gate)})")
    for line in calls:
        w.line(line)
    if gate is not None:
        w.close()
        if filling:
            w.open(f"if (!{w(gate)})")
            for total, y in zip(totals, ys):
                w.line(f"{total} += (u32){filling} * sum_s8({y}, {n});")
            w.close()


def _address(w: CWriter, operand: Operand) -> str:
    terms = [w(t) for t in operand.terms if t.op is not Op.CONST]
    offset = operand.offset + sum(int(t.arg.value) for t in operand.terms if t.op is Op.CONST)
    index = " + ".join(terms)
    if offset or not terms:
        index += f" - {-offset}" if offset < 0 else f" + {offset}" if terms else str(offset)
    return f"{w(operand.buffer)} + ({index})"


PAIRS = """\
#if defined(__ARM_FEATURE_MVE)
#include <arm_mve.h>
#elif defined(__ARM_FEATURE_SIMD32)
typedef struct { u32 word; } __attribute__((packed, may_alias)) u32_anywhere;
WORD u32 pair_s8(u32 bytes) { /* the first and the third */
  u32 pair;
  __asm__("sxtb16 %0, %1" : "=r"(pair) : "r"(bytes));
  return pair;
}
WORD u32 next_pair_s8(u32 bytes) { /* the second and the fourth */
  u32 pair;
  __asm__("sxtb16 %0, %1, ror #8" : "=r"(pair) : "r"(bytes));
  return pair;
}
WORD u32 dot_pair(u32 a, u32 b, u32 sum) {
  u32 result;
  __asm__("smlad %0, %1, %2, %3" : "=r"(result) : "r"(a), "r"(b), "r"(sum));
  return result;
}
WORD u32 bytes_at(const u8_m *x) { return ((const u32_anywhere *)x)->word; }
WORD u32 dot_four(u32 first, u32 second, const u8_m *y, u32 sum) {
  const u32 bytes = bytes_at(y);
  return dot_pair(second, next_pair_s8(bytes), dot_pair(first, pair_s8(bytes), sum));
}
#endif
"""
DOT = """\
static NOINLINE u32 dot_s8(const u8_m *x, const u8_m *y, u32 n, u32 sum) {
#if defined(__ARM_FEATURE_MVE)
  for (; n >= 16; n -= 16, x += 16, y += 16) {
    sum = (u32)vmladavaq_s8((s32)sum, vldrbq_s8((const s8 *)x), vldrbq_s8((const s8 *)y));
  }
  if (n) {
    const mve_pred16_t some = vctp8q(n);
    const int8x16_t a = vldrbq_z_s8((const s8 *)x, some), b = vldrbq_z_s8((const s8 *)y, some);
    sum = (u32)vmladavaq_p_s8((s32)sum, a, b, some);
  }
#else
#if defined(__ARM_FEATURE_SIMD32)
  for (const u8_m *const end = x + (n & ~3u); x != end; x += 4, y += 4) {
    sum = dot_four(pair_s8(bytes_at(x)), next_pair_s8(bytes_at(x)), y, sum);
  }
  n &= 3;
#endif
  for (; n; --n) sum += (u32)(s32)(s8)*x++ * (u32)(s32)(s8)*y++;
#endif
  return sum;
}
"""
DOTS = """\
static NOINLINE void dots_s8(const u8_m *x, const u8_m *y, u32 step, u32 n, u32 *sums) {
#if defined(__ARM_FEATURE_MVE)
  for (int row = 0; row < 4; ++row) sums[row] = dot_s8(x, y + (u32)row * step, n, sums[row]);
#else
  u32 a = sums[0], b = sums[1], c = sums[2], d = sums[3];
#if defined(__ARM_FEATURE_SIMD32)
  for (const u8_m *const end = x + (n & ~3u); x != end; x += 4, y += 4) {
    const u32 first = pair_s8(bytes_at(x)), second = next_pair_s8(bytes_at(x));
    a = dot_four(first, second, y, a);
    b = dot_four(first, second, y + step, b);
    c = dot_four(first, second, y + 2 * step, c);
    d = dot_four(first, second, y + 3 * step, d);
  }
  n &= 3;
#endif
  for (; n; --n, ++y) {
    const u32 factor = (u32)(s32)(s8)*x++;
    a += factor * (u32)(s32)(s8)y[0];
    b += factor * (u32)(s32)(s8)y[step];
    c += factor * (u32)(s32)(s8)y[2 * step];
    d += factor * (u32)(s32)(s8)y[3 * step];
  }
  sums[0] = a, sums[1] = b, sums[2] = c, sums[3] = d;
#endif
}
"""
SUM = """\
static NOINLINE u32 sum_s8(const u8_m *x, u32 n) {
  u32 sum = 0;
  for (; n; --n) sum += (u32)(s32)(s8)*x++;
  return sum;
}
"""
NOINLINE = """\
#if defined(__GNUC__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE
#endif
"""


def definitions(text: str) -> str:
    """The functions that kernels call."""
    names = [name for name in ("dot_s8(", "dots_s8(", "sum_s8(") if name in text]
    if not names:
        return ""
    bodies = {"dot_s8(": DOT, "dots_s8(": DOTS, "sum_s8(": SUM}
    parts = [NOINLINE, PAIRS] if {"dot_s8(", "dots_s8("}.intersection(names) else [NOINLINE]
    if "dots_s8(" in names and "dot_s8(" not in names:
        parts.append(f"#if defined(__ARM_FEATURE_MVE)\n{DOT}#endif\n")
    return "\n".join([*parts, *(bodies[name] for name in names)])
