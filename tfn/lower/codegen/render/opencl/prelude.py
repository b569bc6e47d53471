"""OpenCL prelude: the types of C kernels, and the words that a kernel uses, in OpenCL C.

Products and sums are rounded one by one, as everywhere in tfn: contraction is off.
"""

from __future__ import annotations

import re

from tfn.lower.codegen.render.c.words import scalar_definitions

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

"""The types that the C renderer names.  In memory each has a name of its own there, since C must be
told that one array may hold several types; a kernel of OpenCL C reads and writes one."""

_LIBRARY = re.compile(r"\b(fma|sqrt|floor|ceil|rint)f\(")
"""Functions of <math.h> for floats: in OpenCL C one name serves all types."""

_LONG_LITERAL = re.compile(r"\b(0x[0-9a-f]+|\d+)ull\b")


def with_words(kernel: str) -> str:
    """A kernel after the prelude and its words.

    The parts are separated by empty lines, which no part has inside: so texts of several kernels
    are joined by leaving out equal parts.
    """
    words = [_LIBRARY.sub(r"\1(", word) for word in scalar_definitions(kernel)]
    # An OpenCL C long has 64 bits; "ull" would be a type that it reserves.
    parts = (PRELUDE.strip(), *words, kernel.strip())
    return _LONG_LITERAL.sub(r"\1ul", "\n\n".join(parts) + "\n")
