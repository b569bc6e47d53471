"""Elementwise operations, comparisons and activations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tfn import lax, nn
from tfn import numpy as jnp
from tfn.scipy import special
from tfn.torch.ops.known import Value, cast, dtype_of, floating, is_integral, promoted, together


def _unary(function: Callable[..., Value]) -> Callable[..., Value]:
    """A function of floats, which makes floats of integers."""
    return lambda x: function(*floating(x))


def _unchanged(function: Callable[..., Value]) -> Callable[..., Value]:
    """A function that changes no integers."""
    return lambda x: x if is_integral(x) else function(x)


def _binary(function: Callable[..., Value]) -> Callable[..., Value]:
    return lambda a, b: function(*together(a, b))


def _of_floats(function: Callable[..., Value]) -> Callable[..., Value]:
    return lambda a, b: function(*floating(a, b))


def _scaled(b: Value, alpha: Value, dtype: Any) -> Value:
    return cast(b, dtype) if alpha == 1 else cast(b, dtype) * cast(alpha, dtype)


def add(a: Value, b: Value, alpha: Value = 1) -> Value:
    """The sum, of which one part is scaled."""
    if not hasattr(a, "dtype") and not hasattr(b, "dtype"):
        return a + b * alpha
    dtype = promoted(a, b)
    return cast(a, dtype) + _scaled(b, alpha, dtype)


def sub(a: Value, b: Value, alpha: Value = 1) -> Value:
    """The difference, of which one part is scaled."""
    dtype = promoted(a, b)
    return cast(a, dtype) - _scaled(b, alpha, dtype)


def mul(a: Value, b: Value) -> Value:
    """The product; of booleans whether both are true."""
    a, b = together(a, b)
    return a & b if a.dtype == bool else a * b


def div(a: Value, b: Value, rounding_mode: str | None = None) -> Value:
    """The quotient, rounded down or toward zero if asked for."""
    if rounding_mode is None:
        a, b = floating(a, b)
        return a / b
    a, b = together(a, b)
    if not is_integral(a):
        return jnp.trunc(a / b) if rounding_mode == "trunc" else floor_divide(a, b)
    if rounding_mode == "floor" or a.dtype.kind == "u":
        return a // b
    return lax.div(a, b)  # toward zero, as in C


def floor_divide(a: Value, b: Value) -> Value:
    """The quotient rounded down; of floats by way of the remainder, which is exact."""
    a, b = together(a, b)
    return a // b


def remainder(a: Value, b: Value) -> Value:
    """The remainder, with the sign of the divisor."""
    return jnp.remainder(*together(a, b))


def pow(a: Value, b: Value) -> Value:
    """A power; a number as exponent is known while tracing."""
    dtype = promoted(a, b)
    if isinstance(b, (int, float)) and not isinstance(b, bool) and hasattr(a, "dtype"):
        a = cast(a, dtype)
        if float(b).is_integer() and abs(b) <= 16 and (b >= 0 or not is_integral(a)):
            return lax.integer_pow(a, int(b))
        if b == 0.5:
            return jnp.sqrt(a)
        if b == -0.5:
            return lax.rsqrt(a)
    return jnp.power(cast(a, dtype), cast(b, dtype))


def _order(name: str) -> Callable[..., Value]:
    def op(a: Value, b: Value) -> Value:
        return getattr(jnp, name)(*together(a, b))

    return op


def _clamped(x: Value, low: Value, high: Value, inclusive: bool) -> Value:
    """Values within bounds, of which the upper one counts; with a derivative of 1 or 0 at them."""
    below, above = (jnp.less, jnp.greater) if inclusive else (jnp.less_equal, jnp.greater_equal)
    x = x if low is None else jnp.where(below(x, low), low, x)
    return x if high is None else jnp.where(above(x, high), high, x)


def clamp(x: Value, min: Value = None, max: Value = None) -> Value:
    """Values within bounds; the derivative at them is 1."""
    dtype = promoted(*(v for v in (x, min, max) if v is not None))
    low, high = (None if v is None else cast(v, dtype) for v in (min, max))
    return _clamped(cast(x, dtype), low, high, True)


def hardtanh(x: Value, min_val: Value = -1, max_val: Value = 1) -> Value:
    """Values within bounds; the derivative at them is 0."""
    return _clamped(x, cast(min_val, x.dtype), cast(max_val, x.dtype), False)


def leaky_relu(x: Value, negative_slope: Value = 0.01) -> Value:
    """Values, of which those that are not positive are scaled."""
    return jnp.where(x > 0, x, x * cast(negative_slope, x.dtype))


def elu(x: Value, alpha: Value = 1, scale: Value = 1, input_scale: Value = 1) -> Value:
    """Values, of which those that are not positive are exponentials less one, scaled."""
    positive = x > 0
    safe = jnp.where(positive, cast(0, x.dtype), x)
    low = jnp.expm1(safe * cast(input_scale, x.dtype)) * cast(alpha, x.dtype)
    return jnp.where(positive, x, low) * cast(scale, x.dtype)


def gelu(x: Value, approximate: str = "none") -> Value:
    """Gauss's error linear unit."""
    return nn.gelu(x, approximate=approximate == "tanh")


def round(x: Value, decimals: int = 0) -> Value:
    """The nearest number of some decimals, halves to even."""
    return x if is_integral(x) and decimals >= 0 else jnp.round(x, decimals)


def where(condition: Value, a: Value, b: Value) -> Value:
    """Elements of one array or another."""
    return jnp.where(cast(condition, bool), *together(a, b))


def to_copy(x: Value, dtype: Any = None, **options: Any) -> Value:
    """Values in another dtype; devices and layouts are of no account."""
    return x if dtype is None else cast(x, dtype_of(dtype))


def sign(x: Value) -> Value:
    """The sign; of complex numbers the number over its size."""
    return x if x.dtype == bool else jnp.sign(x)


def logical_not(x: Value) -> Value:
    """Whether elements are zero."""
    return jnp.logical_not(x)


def xlogy(a: Value, b: Value) -> Value:
    """One array times the logarithm of another; zero where the first is."""
    return special.xlogy(*floating(a, b))


def erfinv(x: Value) -> Value:
    """The inverse of the error function."""
    return lax.erf_inv(*floating(x))


# fmt: off
OPS: dict[str, Callable[..., Any]] = {
    **{name: _unary(function) for name, function in {
        "acos": jnp.arccos, "acosh": jnp.arccosh, "asin": jnp.arcsin, "asinh": jnp.arcsinh,
        "atan": jnp.arctan, "atanh": jnp.arctanh, "cos": jnp.cos, "cosh": jnp.cosh,
        "erf": lax.erf, "erfc": lax.erfc, "exp": jnp.exp, "exp2": jnp.exp2, "expm1": jnp.expm1,
        "log": jnp.log, "log10": jnp.log10, "log1p": jnp.log1p, "log2": jnp.log2,
        "lgamma": lax.lgamma, "digamma": lax.digamma, "reciprocal": lambda x: 1 / x,
        "rsqrt": lax.rsqrt, "sigmoid": nn.sigmoid, "sin": jnp.sin, "sinh": jnp.sinh,
        "sqrt": jnp.sqrt, "tan": jnp.tan, "tanh": jnp.tanh,
    }.items()},
    **{name: _unary(function) for name, function in {
        "i0": special.i0, "special_i0e": special.i0e, "special_i1": special.i1,
        "special_i1e": special.i1e, "special_ndtri": special.ndtri,
        "special_erfcx": special.erfcx, "special_modified_bessel_i0": special.i0,
        "special_modified_bessel_i1": special.i1,
        "special_spherical_bessel_j0": lambda x: jnp.sinc(x / np.pi),
    }.items()},
    **{name: _unchanged(function) for name, function in {
        "ceil": jnp.ceil, "floor": jnp.floor, "trunc": jnp.trunc,
    }.items()},
    **{name: _binary(function) for name, function in {
        "bitwise_and": jnp.bitwise_and, "bitwise_or": jnp.bitwise_or,
        "bitwise_xor": jnp.bitwise_xor, "bitwise_left_shift": jnp.left_shift,
        "bitwise_right_shift": jnp.right_shift, "fmod": jnp.fmod, "gcd": jnp.gcd, "lcm": jnp.lcm,
        "copysign": jnp.copysign, "nextafter": jnp.nextafter,
        "fmax": lambda a, b: jnp.where((a >= b) | (b != b), a, b),
        "fmin": lambda a, b: jnp.where((a <= b) | (b != b), a, b),
    }.items()},
    **{name: _of_floats(function) for name, function in {
        "atan2": jnp.arctan2, "hypot": jnp.hypot, "logaddexp": jnp.logaddexp,
        "igamma": special.gammainc, "igammac": special.gammaincc, "special_zeta": special.zeta,
    }.items()},
    **{op: _order(name) for op, name in {
        "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
        "ge": "greater_equal", "maximum": "maximum", "minimum": "minimum",
        "logical_and": "logical_and", "logical_or": "logical_or", "logical_xor": "logical_xor",
    }.items()},
    "abs": jnp.abs, "neg": jnp.negative, "bitwise_not": jnp.bitwise_not, "relu": nn.relu,
    "isinf": jnp.isinf, "isnan": jnp.isnan, "isfinite": jnp.isfinite, "signbit": jnp.signbit,
    "conj": jnp.conj, "_conj": jnp.conj, "resolve_conj": lambda x: x, "resolve_neg": lambda x: x,
    "real": jnp.real, "imag": jnp.imag, "angle": _unary(jnp.angle), "sgn": sign,
    "complex": lambda a, b: lax.complex(*jnp.broadcast_arrays(a, b)),
    "polar": lambda r, angle: lax.complex(r * jnp.cos(angle), r * jnp.sin(angle)),
    "view_as_real": lambda x: jnp.stack([x.real, x.imag], -1),
    "view_as_complex": lambda x: lax.complex(x[..., 0], x[..., 1]),
    "add": add, "sub": sub, "mul": mul, "div": div, "true_divide": div,
    "floor_divide": floor_divide,
    "remainder": remainder, "pow": pow, "clamp": clamp, "hardtanh": hardtanh, "round": round,
    "clamp_min": lambda x, low: clamp(x, low), "clamp_max": lambda x, high: clamp(x, None, high),
    "leaky_relu": leaky_relu, "elu": elu, "gelu": gelu, "where": where,
    "silu": nn.silu,
    "_to_copy": to_copy, "sign": sign, "logical_not": logical_not, "xlogy": xlogy,
    "erfinv": erfinv, "square": lambda x: x * x, "rsub": lambda a, b, alpha=1: sub(b, a, alpha),
    "ldexp": lambda x, n: floating(x)[0] * jnp.exp2(n.astype(np.float32)),
    "polygamma": lambda n, x: special.polygamma(n, *floating(x)), "frexp": jnp.frexp,
    "_conj_physical": jnp.conj,
    "prims::convert_element_type": to_copy,
}
# fmt: on
