"""Sums of products of bytes in C: the innermost loop of a layer of int8 as one call.

    for (i = 0; i < n; ++i) sum += x[a + i] * w[b + i];        sum = dot_s8(x + a, w + b, n, sum);

A kernel has one such loop for each layer's kind; the function is there once, and uses what the
compiler says that the processor has: Helium, two products of 16 bits in an instruction, or neither.

Weights of 4 bits lie two in a byte: of each 8, the first 4 in the lower halves.  Their products are
added up 16 times as large, each half as the upper one of a byte, which needs no sign.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from tfn._support.frozen import frozen
from tfn.dtypes import INT32
from tfn.lower.codegen.render.c.writer import CWriter
from tfn.trace.op import Op
from tfn.trace.uop import UOp

LEAST = 4
"""The fewest products in a loop for which a call is worth it."""
MOST_HALVES = 2**31 // (128 * 8 * 16) - 1
"""The most products with numbers of 4 bits whose sum, 16 times as large, fits into 32 bits."""


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


def with_halves(product: Product, halves: AbstractSet[UOp]) -> Product | None:
    """The product whose second operand may be of halves of bytes; None if it is no such."""
    x, y = product.x, product.y
    if x.buffer in halves:
        x, y = y, x
    fits = product.count <= MOST_HALVES and x.buffer not in halves and y.gate is None
    return replace(product, x=x, y=y) if fits or not {x.buffer, y.buffer} & halves else None


def render(w: CWriter, product: Product, views: Sequence[dict[UOp, str]]) -> None:
    """Calls in the place of a loop, for one result or a block; `views` are its names in each."""
    kind, between = ("s4", ", ") if product.y.buffer in w.halves else ("s8", " + ")
    totals, xs, places = [], [], []
    for view in views:
        w.names = view
        totals.append(view[product.accumulator])
        xs.append(f"{w(product.x.buffer)} + {_index(w, product.x)}")
        places.append(_index(w, product.y))
    n = f"{product.count}u"
    ys = [f"{w(product.y.buffer)}{between}{place}" for place in places]
    if len(views) > 1 and len(set(xs)) == 1:
        w.count += 1
        sums, step = f"s{w.count}", f"(u32)({places[1]} - {places[0]})"
        calls = [f"u32 {sums}[] = {{{', '.join(totals)}}};"]
        calls += [f"dots_{kind}({xs[0]}, {ys[0]}, {step}, {n}, {sums});"]
        calls += [f"{total} = {sums}[{j}];" for j, total in enumerate(totals)]
    else:
        calls = [f"{t} = dot_{kind}({x}, {y}, {n}, {t});" for t, x, y in zip(totals, xs, ys)]
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
                w.line(f"{total} += (u32){filling} * sum_{kind}({y}, {n});")
            w.close()


def _index(w: CWriter, operand: Operand) -> str:
    terms = [w(t) for t in operand.terms if t.op is not Op.CONST]
    offset = operand.offset + sum(int(t.arg.value) for t in operand.terms if t.op is Op.CONST)
    index = " + ".join(terms)
    if offset or not terms:
        index += f" - {-offset}" if offset < 0 else f" + {offset}" if terms else str(offset)
    return f"({index})"


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
WORD u32 dot_four(u32 first, u32 second, u32 bytes, u32 sum) {
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
    sum = dot_four(pair_s8(bytes_at(x)), next_pair_s8(bytes_at(x)), bytes_at(y), sum);
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
    a = dot_four(first, second, bytes_at(y), a);
    b = dot_four(first, second, bytes_at(y + step), b);
    c = dot_four(first, second, bytes_at(y + 2 * step), c);
    d = dot_four(first, second, bytes_at(y + 3 * step), d);
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
HALF = """\
WORD u8 nibble(const u8_m *x, u32 i) {
  return (u8)((s32)((u32)x[(i >> 3 << 2) | (i & 3)] << (28 - (i & 4))) >> 28);
}
#if defined(__ARM_FEATURE_SIMD32) && !defined(__ARM_FEATURE_MVE)
WORD u32 dot_halves(u32 a, u32 b, u32 c, u32 d, u32 halves, u32 sum) {
  return dot_four(c, d, halves & 0xf0f0f0f0u, dot_four(a, b, halves << 4 & 0xf0f0f0f0u, sum));
}
#endif
"""
DOT_OF_HALVES = """\
#if !defined(__ARM_FEATURE_MVE)
WORD u32 two_s4(const u8_m *x, u32 both) {
  const u32 product = (u32)(s32)(s8)x[0] * (u32)(s32)(s8)(u8)(both << 4);
  return product + (u32)(s32)(s8)x[4] * (u32)(s32)(s8)(u8)(both & 0xf0u);
}
static NOINLINE u32 groups_s4(const u8_m *x, const u8_m *halves, u32 n) {
  u32 sum = 0;
  for (const u8_m *const end = x + (n & ~7u); x != end; x += 8, halves += 4) {
#if defined(__ARM_FEATURE_SIMD32)
    const u32 first = bytes_at(x), next = bytes_at(x + 4), a = pair_s8(first), b = pair_s8(next);
    sum = dot_halves(a, next_pair_s8(first), b, next_pair_s8(next), bytes_at(halves), sum);
#else
    sum += two_s4(x, halves[0]) + two_s4(x + 1, halves[1]);
    sum += two_s4(x + 2, halves[2]) + two_s4(x + 3, halves[3]);
#endif
  }
  return sum;
}
#endif
static NOINLINE u32 dot_s4(const u8_m *x, const u8_m *y, u32 at, u32 n, u32 sum) {
  if (!(at & 7)) {
    const u8_m *halves = y + at / 2;
    u32 scaled = 0; /* 16 times the sum */
#if defined(__ARM_FEATURE_MVE)
    static const u8 order[] = {0, 1, 2, 3, 0, 1, 2, 3, 4, 5, 6, 7, 4, 5, 6, 7};
    static const s8 up[] = {4, 4, 4, 4, 0, 0, 0, 0, 4, 4, 4, 4, 0, 0, 0, 0};
    const uint8x16_t places = vldrbq_u8(order);
    const int8x16_t shifts = vldrbq_s8(up), upper = vdupq_n_s8(-16);
    for (; n; x += 16, halves += 8) {
      const mve_pred16_t some = vctp8q(n);
      const int8x16_t both = vldrbq_gather_offset_z_s8((const s8 *)halves, places, some);
      const int8x16_t a = vldrbq_z_s8((const s8 *)x, some);
      scaled = (u32)vmladavaq_s8((s32)scaled, a, vandq_s8(vshlq_s8(both, shifts), upper));
      n = n > 16 ? n - 16 : 0;
    }
#else
    scaled = groups_s4(x, halves, n);
    x += n & ~7u, at += n & ~7u;
    n &= 7;
#endif
    sum += (u32)((s32)scaled >> 4);
  }
  for (; n; --n) sum += (u32)(s32)(s8)*x++ * (u32)(s32)(s8)nibble(y, at++);
  return sum;
}
"""
DOTS_OF_HALVES = """\
static NOINLINE void dots_s4(
    const u8_m *x, const u8_m *y, u32 at, u32 step, u32 n, u32 *sums) {
#if defined(__ARM_FEATURE_SIMD32) && !defined(__ARM_FEATURE_MVE)
  if (!((at | step) & 7)) {
    const u8_m *halves = y + at / 2;
    u32 s = 0, t = 0, u = 0, v = 0;
    at += n & ~7u;
    for (const u8_m *const end = x + (n & ~7u); x != end; x += 8, halves += 4) {
      const u32 a = pair_s8(bytes_at(x)), b = next_pair_s8(bytes_at(x));
      const u32 c = pair_s8(bytes_at(x + 4)), d = next_pair_s8(bytes_at(x + 4));
      s = dot_halves(a, b, c, d, bytes_at(halves), s);
      t = dot_halves(a, b, c, d, bytes_at(halves + step / 2), t);
      u = dot_halves(a, b, c, d, bytes_at(halves + step), u);
      v = dot_halves(a, b, c, d, bytes_at(halves + step / 2 * 3), v);
    }
    n &= 7;
    sums[0] += (u32)((s32)s >> 4), sums[1] += (u32)((s32)t >> 4);
    sums[2] += (u32)((s32)u >> 4), sums[3] += (u32)((s32)v >> 4);
  }
#endif
  for (u32 row = 0; n && row < 4; ++row) sums[row] = dot_s4(x, y, at + row * step, n, sums[row]);
}
"""
SUM_OF_HALVES = """\
static NOINLINE u32 sum_s4(const u8_m *x, u32 at, u32 n) {
  u32 sum = 0;
  if (!(at & 7)) {
    const u8_m *halves = x + at / 2;
    for (const u8_m *const end = halves + n / 8 * 4; halves != end; ++halves) {
      sum += (u32)(s32)(s8)(u8)(*halves << 4) + (u32)(s32)(s8)(u8)(*halves & 0xf0);
    }
    sum = (u32)((s32)sum >> 4);
    at += n & ~7u;
    n &= 7;
  }
  for (; n; --n) sum += (u32)(s32)(s8)nibble(x, at++);
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


FUNCTIONS = {
    "dot_s8(": (PAIRS, DOT),
    "dots_s8(": (PAIRS, f"#if defined(__ARM_FEATURE_MVE)\n{DOT}#endif\n", DOTS),
    "sum_s8(": (SUM,),
    "nibble(": (PAIRS, HALF),
    "dot_s4(": (PAIRS, HALF, DOT_OF_HALVES),
    "dots_s4(": (PAIRS, HALF, DOT_OF_HALVES, DOTS_OF_HALVES),
    "sum_s4(": (PAIRS, HALF, SUM_OF_HALVES),
}
"""Texts that a call needs, in order; of the first two, the second has the first on Helium alone."""


def definitions(text: str) -> str:
    """The functions that kernels call."""
    called = [name for name in FUNCTIONS if name in text]
    parts = dict.fromkeys(part for name in called for part in FUNCTIONS[name])
    if "dot_s8(" in called:
        parts.pop(FUNCTIONS["dots_s8("][1], None)
    return "\n".join([NOINLINE, *parts]) if parts else ""
