"""C types and literals.

Integers are unsigned in registers, so that they wrap around: a row for which the sign matters says
so.  A float16 or bfloat16 is its 16 bits.  A bool is a byte in memory, a ``_Bool`` in a register,
and in vectors a mask: lanes of any width, all ones or all zeros.
"""

from __future__ import annotations

import re

import numpy as np

from tfn.dtypes import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOATS, DType
from tfn.trace.argument import Const
from tfn.trace.op import Shape

BITS_TYPE = {BOOL: "u8", FLOAT16: "u16", BFLOAT16: "u16"}
"""The types that hold the bits of dtypes that C lacks."""


def stored(dtype: DType) -> str:
    """The type of an element in memory: ``f32``, ``u8``."""
    return BITS_TYPE.get(dtype) or f"{'f' if dtype in FLOATS else 'u'}{8 * dtype.itemsize}"


def element(dtype: DType) -> str:
    """The type of a scalar in a register."""
    return "_Bool" if dtype == BOOL else stored(dtype)


def shaped(name: str, shape: Shape) -> str:
    """A type, or the name of a word, with the lanes of a shape: ``f32x16``."""
    return f"{name}x{shape[0]}" if shape else name


def literal(value: Const) -> str:
    """A constant, exact to the last bit."""
    dtype, kind = value.dtype, stored(value.dtype)
    if dtype in BITS_TYPE or dtype.itemsize < 4:
        return str(value.bits) if dtype == BOOL else f"{value.bits}u"
    suffix = "ull" if dtype.itemsize == 8 else "u"
    number = value.value
    if dtype not in FLOATS:
        small = -(1 << 31) < number < 0
        return f"(u{kind[1:]}){number}" if small else f"{value.bits}{suffix}"
    if not np.isfinite(number):
        return f"bits_u{kind[1:]}_{kind}({value.bits:#x}{suffix})"
    text = re.sub(r"\.?0*p", "p", float(number).hex()) + ("f" if dtype == FLOAT32 else "")
    return f"({text})" if text[0] == "-" else text
