"""The operations of tfn under the names of JAX's primitives: ``sin_p``, ``add_p``, ...

They are the primitives of the equations of a jaxpr, for interpreters that the user writes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tfn import lax
from tfn.compat.jaxprs import primitive_of
from tfn.compat.primitives import Primitive
from tfn.extend import Op

# fmt: off
OPS: dict[str, Op] = {
    "neg": Op.NEG, "abs": Op.ABS, "sign": Op.SIGN, "floor": Op.FLOOR, "ceil": Op.CEIL,
    "round": Op.ROUND, "not": Op.NOT, "exp": Op.EXP, "exp2": Op.EXP2, "expm1": Op.EXPM1,
    "log": Op.LOG, "log1p": Op.LOG1P, "sin": Op.SIN, "cos": Op.COS, "tan": Op.TAN,
    "asin": Op.ASIN, "acos": Op.ACOS, "atan": Op.ATAN, "sinh": Op.SINH, "cosh": Op.COSH,
    "tanh": Op.TANH, "asinh": Op.ASINH, "acosh": Op.ACOSH, "atanh": Op.ATANH,
    "logistic": Op.LOGISTIC, "sqrt": Op.SQRT, "rsqrt": Op.RSQRT, "cbrt": Op.CBRT, "erf": Op.ERF,
    "erfc": Op.ERFC, "erf_inv": Op.ERFINV, "lgamma": Op.LGAMMA, "digamma": Op.DIGAMMA,
    "convert_element_type": Op.CAST, "bitcast_convert_type": Op.BITCAST,
    "complex": Op.COMPLEX, "real": Op.REAL, "imag": Op.IMAG,
    "add": Op.ADD, "sub": Op.SUB, "mul": Op.MUL, "div": Op.DIV, "rem": Op.MOD, "pow": Op.POW,
    "atan2": Op.ATAN2, "max": Op.MAX, "min": Op.MIN, "and": Op.AND, "or": Op.OR, "xor": Op.XOR,
    "shift_left": Op.SHL, "shift_right_arithmetic": Op.SHR, "lt": Op.LT, "le": Op.LE, "eq": Op.EQ,
    "ne": Op.NE, "select_n": Op.WHERE, "threefry2x32": Op.THREEFRY,
    "reshape": Op.RESHAPE, "transpose": Op.PERMUTE, "broadcast_in_dim": Op.EXPAND, "pad": Op.PAD,
    "slice": Op.SHRINK, "rev": Op.FLIP, "concatenate": Op.CONCAT,
    "dot_general": Op.DOT, "conv_general_dilated": Op.CONV, "fft": Op.FFT, "gather": Op.GATHER,
    "scatter": Op.SCATTER, "sort": Op.SORT, "scan": Op.SCAN, "while": Op.WHILE, "cond": Op.COND,
    "call": Op.CALL, "jit": Op.CALL, "closed_call": Op.CALL, "pjit": Op.CALL,
    "pure_callback": Op.HOST, "custom_jvp_call": Op.CUSTOM, "custom_vjp_call": Op.CUSTOM,
    "stop_gradient": Op.DETACH, "optimization_barrier": Op.GBARRIER, "iota": Op.IOTA,
}
"""JAX's name of each operation.  Where JAX has several for one operation of tfn, as of calls,
they are one primitive."""
# fmt: on

COMPOSED: dict[str, Callable[..., Any]] = {
    "square": lambda x: x * x,
    "integer_pow": lambda x, *, y: lax.integer_pow(x, y),
    "conj": lambda x, **options: lax.conj(x),
}
"""Primitives of JAX that are several operations of tfn: no equation has them."""


@functools.cache
def _composed(name: str) -> Primitive:
    primitive = Primitive(name)
    primitive.composed = True
    primitive.def_impl(COMPOSED[name])
    return primitive


def __getattr__(name: str) -> Any:
    base = name.removesuffix("_p")
    if base == name or base not in OPS.keys() | COMPOSED.keys():
        raise AttributeError(f"tfn has no primitive {name}")
    return primitive_of(OPS[base]) if base in OPS else _composed(base)


def __dir__() -> list[str]:
    return [f"{name}_p" for name in (*OPS, *COMPOSED)]
