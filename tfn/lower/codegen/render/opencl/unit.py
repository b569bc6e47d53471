"""OpenCL translation unit: kernels with the words that they use.

Products and sums are rounded one by one, as everywhere in tfn: contraction is off, and divisions
and roots are rounded correctly where the driver can (`OPTIONS`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from tfn.lower.codegen.render.c.words import definitions

PRELUDE = """\
#pragma OPENCL FP_CONTRACT OFF
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double f64;
typedef double f64_m;
#endif
typedef char s8;
typedef short s16;
typedef int s32;
typedef long s64;
typedef uchar u8;
typedef ushort u16;
typedef uint u32;
typedef ulong u64;
typedef float f32;
typedef uchar u8_m;
typedef ushort u16_m;
typedef uint u32_m;
typedef ulong u64_m;
typedef float f32_m;
#define _Bool bool
#define WORD static
#define TFN_GNU 0
#define PREFETCH(address)
"""

_LIBRARY = re.compile(r"\b(fma|sqrt|floor|ceil|rint)f\(")
"""Functions of <math.h> for floats: in OpenCL C one name serves all types."""

_LONG_LITERAL = re.compile(r"\b(0x[0-9a-f]+|\d+)ull\b")


def unit(kernels: Sequence[str]) -> str:
    """The text of some kernels as one program."""
    body = "\n".join(kernels)
    words = _LIBRARY.sub(r"\1(", definitions(body, frozenset()))
    # An OpenCL C long has 64 bits; "ull" would be a type that it reserves.
    return PRELUDE + _LONG_LITERAL.sub(r"\1ul", f"{words}\n{body}")
