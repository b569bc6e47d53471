"""Quotients of integers: the processor's, or bit by bit where it has none and no library is linked.

Long division by shifts of one bit: compilers need no function for these, of 64 bits either.
"""

from __future__ import annotations

from tfn.lower.codegen.render.c.word import Word

# fmt: off
LACKING: dict[int, str] = {
    32: "defined(__ARM_ARCH_6M__) || (defined(__riscv) && !defined(__riscv_div))",
    64: "UINTPTR_MAX == 0xffffffffu",
}
"""The condition of the preprocessor on a processor without division, by bits."""
# fmt: on

LONG = """
  u{bits} x = {x}, rest = 0;
  const u{bits} y = {y};
  for (int i = 0; i < {bits}; ++i) {{
    const u{bits} carry = rest >> {last};
    rest = (rest << 1) | (x >> {last});
    x <<= 1;
    if (carry || rest >= y) {{
      rest -= y;
      x |= 1;
    }}
  }}
  return {result};"""
"""The quotient of two numbers or of their magnitudes, whose sign is put on at last."""


def quotient(word: Word, gnu: bool) -> str:
    """The definition of a quotient of scalars of 32 or 64 bits, towards zero."""
    kind = word.types[0]
    bits = int(kind[1:])
    x, y, result = "a", "b", "x"
    if kind[0] == "s":
        x, y = (f"{v} < 0 ? 0u - (u{bits}){v} : (u{bits}){v}" for v in "ab")
        result = f"({kind})((a < 0) != (b < 0) ? 0u - x : x)"
    long = LONG.format(bits=bits, last=bits - 1, x=x, y=y, result=result)
    body = f"\n#if {LACKING[bits]}{long}\n#else\n  return a / b;\n#endif\n"
    return f"static inline {kind} {word.name}({kind} a, {kind} b) {{{body}}}"
