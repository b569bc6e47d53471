"""Functions that compilers of small 32-bit processors call, and would take from a library.

They are weak: a program that is linked with a library has one of each all the same.
"""

from __future__ import annotations

import re

_WIDE = re.compile(r"[us]64\b.*(?:\*|<<|>>)")

PRODUCT = """\
u64 __aeabi_lmul(u64 a, u64 b);
__attribute__((weak)) u64 __aeabi_lmul(u64 a, u64 b) {
  const u32 a0 = (u32)a & 0xffff, a1 = (u32)a >> 16, b0 = (u32)b & 0xffff, b1 = (u32)b >> 16;
  const u32 low = a0 * b0, first = a0 * b1, second = a1 * b0;
  const u32 middle = (low >> 16) + (first & 0xffff) + (second & 0xffff);
  const u32 high = a1 * b1 + (first >> 16) + (second >> 16) + (middle >> 16);
  const u32 upper = high + (u32)a * (u32)(b >> 32) + (u32)(a >> 32) * (u32)b;
  return (u64)upper << 32 | middle << 16 | (low & 0xffff);
}
"""
SHIFTS = """\
u64 LEFT(u64 a, int n);
u64 RIGHT(u64 a, int n);
s64 SIGNED(s64 a, int n);
__attribute__((weak)) u64 LEFT(u64 a, int n) {
  const u32 low = (u32)a, high = (u32)(a >> 32);
  if (!n) return a;
  if (n >= 32) return (u64)(low << (n - 32)) << 32;
  return (u64)(high << n | low >> (32 - n)) << 32 | low << n;
}
__attribute__((weak)) u64 RIGHT(u64 a, int n) {
  const u32 low = (u32)a, high = (u32)(a >> 32);
  if (!n) return a;
  return n < 32 ? (u64)(high >> n) << 32 | (low >> n | high << (32 - n)) : high >> (n - 32);
}
__attribute__((weak)) s64 SIGNED(s64 a, int n) {
  const u32 low = (u32)a;
  const s32 high = (s32)(a >> 32);
  if (!n) return a;
  if (n >= 32) return high >> (n - 32);
  return (s64)((u64)(u32)(high >> n) << 32 | (low >> n | (u32)high << (32 - n)));
}
"""
ARM = ("__aeabi_llsl", "__aeabi_llsr", "__aeabi_lasr")
RISCV = ("__ashldi3", "__lshrdi3", "__ashrdi3")


def definitions(triple: str, text: str) -> str:
    """The functions that a text needs on the processors of a target beside its own."""
    is_arm = triple.startswith("thumbv6m")
    if not is_arm and not triple.startswith(("thumb", "riscv32")):
        return ""
    options = '"no-math-errno", "no-jump-tables"' if is_arm else '"no-math-errno"'
    pragma = f"#pragma GCC optimize({options})"  # square roots and branches are no calls
    parts = [f"#if defined(__GNUC__) && !defined(__clang__)\n{pragma}\n#endif"]
    names = ARM if is_arm else RISCV if triple.startswith("riscv32") else ()
    if names and _WIDE.search(text):
        shifts = SHIFTS
        for word, name in zip(("LEFT", "RIGHT", "SIGNED"), names, strict=True):
            shifts = shifts.replace(word, name)
        parts.append(f"#if TFN_GNU\n{PRODUCT if is_arm else ''}{shifts}#endif")
    return "\n".join(parts)
