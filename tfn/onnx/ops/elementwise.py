"""Elementwise operations, casts and activations."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from tfn import lax, nn, random
from tfn import numpy as jnp
from tfn.errors import NotAvailableError
from tfn.onnx.ops.known import Value, library, like, numbers
from tfn.onnx.schema import DTYPES


def named(name: str) -> Callable[..., Value]:
    """The function of NumPy and of tfn that has this name."""

    def op(*values: Value) -> Value:
        return getattr(library(*values), name)(*values)

    return op


def of_lax(name: str) -> Callable[..., Value]:
    """The function of `tfn.lax` that has this name."""
    return lambda x: getattr(lax, name)(jnp.asarray(x))


def of_nn(name: str) -> Callable[..., Value]:
    """The function of `tfn.nn` that has this name."""
    return lambda x: getattr(nn, name)(jnp.asarray(x))


def compared(name: str) -> Callable[..., Value]:
    """A comparison."""
    return lambda a, b: getattr(library(a, b), name)(a, b)


def folded(name: str) -> Callable[..., Value]:
    """An operation of two values, over any number of them."""

    def op(*values: Value) -> Value:
        return reduce(getattr(library(*values), name), values)

    return op


def Mean(*values: Value) -> Value:
    """The mean of values, element by element."""
    return folded("add")(*values) / like(values[0], len(values))


def Div(a: Value, b: Value) -> Value:
    """The quotient; of integers toward zero."""
    if a.dtype.kind not in "iu":
        return library(a, b).divide(a, b)
    xp = library(a, b)
    if a.dtype.kind == "u":
        return a // b
    size = xp.abs(a) // xp.maximum(xp.abs(b), like(b, 1))  # toward zero, as in C
    return xp.where((a < 0) != (b < 0), -size, size).astype(a.dtype)


def Mod(a: Value, b: Value, fmod: int = 0) -> Value:
    """The remainder, with the sign of the divisor, or of the dividend if `fmod`."""
    return getattr(library(a, b), "fmod" if fmod else "remainder")(a, b)


def Pow(a: Value, b: Value) -> Value:
    """A power in the dtype of the base."""
    xp = library(a, b)
    if a.dtype.kind in "iu" and b.dtype.kind not in "iu":
        return xp.power(a.astype(b.dtype), b).astype(a.dtype)
    return xp.power(a, b.astype(a.dtype)).astype(a.dtype)


def BitShift(a: Value, b: Value, direction: str) -> Value:
    """Bits moved to the left or right."""
    xp = library(a, b)
    return (xp.left_shift if direction == "LEFT" else xp.right_shift)(a, b)


def IsInf(x: Value, detect_negative: int = 1, detect_positive: int = 1) -> Value:
    """Whether elements are infinite, of the signs that are asked for."""
    xp = library(x)
    found = xp.isinf(x)
    return found & ((x > 0) if detect_positive else False) | found & (
        (x < 0) if detect_negative else False
    )


def Round(x: Value) -> Value:
    """The nearest integer, halves to even."""
    return library(x).round(x)


def Not(x: Value) -> Value:
    """The negation of booleans."""
    return library(x).logical_not(x)


def Reciprocal(x: Value) -> Value:
    """One divided by each element."""
    return like(x, 1) / x


def Clip(
    x: Value,
    low: Value = None,
    high: Value = None,
    min: float | None = None,
    max: float | None = None,
) -> Value:
    """Values within bounds, of which the upper one counts where they cross."""
    low = like(x, min) if low is None and min is not None else low
    high = like(x, max) if high is None and max is not None else high
    xp = library(x, low, high)
    x = x if low is None else xp.maximum(x, low)
    return x if high is None else xp.minimum(x, high)  # high wins where low is above it


def Where(condition: Value, x: Value, y: Value) -> Value:
    """Elements of one array or another."""
    return library(condition, x, y).where(condition, x, y)


def Cast(x: Value, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    """Values in another dtype; 8-bit floats saturate if asked to."""
    if to not in DTYPES:
        raise NotAvailableError(
            "Cast makes texts of numbers in this model", got=f"to={to}", hint="tfn has no texts"
        )
    return _cast(x, DTYPES[to], bool(saturate))


def _cast(x: Value, dtype: np.dtype[Any], saturate: bool) -> Value:
    narrow = dtype.name.startswith("float8")
    if narrow and saturate and x.dtype.kind != "b":
        top = float(jnp.finfo(dtype).max)
        wide = x.astype(np.float32)
        xp = library(x)
        x = xp.where(xp.isnan(wide), wide, xp.clip(wide, -top, top))
    if dtype.name in ("int4", "uint4", "int2", "uint2") and x.dtype.kind not in "iu":
        x = x.astype(np.int32)
    return x.astype(dtype)


def CastLike(x: Value, target: Value, saturate: int = 1, round_mode: str = "up") -> Value:
    """Values in the dtype of another array."""
    return _cast(x, np.dtype(target.dtype), bool(saturate))


def BitCast(x: Value, to: int) -> Value:
    """The bits of values read as another dtype."""
    bits = x.astype("uint8") if x.dtype.kind == "b" else jnp.asarray(x)
    return (
        bits.astype(bool) if DTYPES[to].kind == "b" else lax.bitcast_convert_type(bits, DTYPES[to])
    )


def Identity(x: Value) -> Value:
    """The value itself."""
    return x


def LeakyRelu(x: Value, alpha: float = 0.01) -> Value:
    """Values, of which negative ones are scaled."""
    return jnp.where(x >= 0, x, like(x, alpha) * x)


def Elu(x: Value, alpha: float = 1.0) -> Value:
    """Values, of which negative ones are exponentials less one."""
    return jnp.where(x >= 0, x, like(x, alpha) * jnp.expm1(jnp.minimum(x, 0)))


def Celu(x: Value, alpha: float = 1.0) -> Value:
    """A continuously differentiable `Elu`."""
    return nn.celu(jnp.asarray(x), like(x, alpha))


def Selu(
    x: Value, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> Value:
    """A scaled `Elu`."""
    return like(x, gamma) * Elu(x, alpha)


def PRelu(x: Value, slope: Value) -> Value:
    """Values, of which negative ones are scaled by an array."""
    return jnp.where(x >= 0, x, slope * x)


def ThresholdedRelu(x: Value, alpha: float = 1.0) -> Value:
    """Values above a threshold, else zero."""
    return jnp.where(x > like(x, alpha), x, like(x, 0))


def HardSigmoid(x: Value, alpha: float = 0.2, beta: float = 0.5) -> Value:
    """A line cut at 0 and 1."""
    return jnp.clip(like(x, alpha) * x + like(x, beta), 0, 1)


def HardSwish(x: Value) -> Value:
    """Values times their `HardSigmoid`."""
    return x * HardSigmoid(x, 1 / 6, 0.5)


def Swish(x: Value, alpha: float = 1.0) -> Value:
    """Values times the logistic function of them."""
    return x * nn.sigmoid(jnp.asarray(like(x, alpha) * x))


def SwiGLU(x: Value, y: Value, alpha: float = 1.0) -> Value:
    """The `Swish` of one array times another."""
    return Swish(x, alpha) * y


def Shrink(x: Value, bias: float = 0.0, lambd: float = 0.5) -> Value:
    """Values moved toward zero, which is what small ones become."""
    moved = jnp.where(x > like(x, lambd), x - like(x, bias), like(x, 0))
    return jnp.where(x < like(x, -lambd), x + like(x, bias), moved)


def Gelu(x: Value, approximate: str = "none") -> Value:
    """Gauss's error linear unit."""
    return nn.gelu(jnp.asarray(x), approximate=approximate == "tanh")


def Mish(x: Value) -> Value:
    """Values times the hyperbolic tangent of their softplus."""
    return nn.mish(jnp.asarray(x))


def Softmax(x: Value, axis: int | None = None, opset: int = 13) -> Value:
    """Exponentials divided by their sum."""
    return _over_axis(nn.softmax, x, axis, opset)


def LogSoftmax(x: Value, axis: int | None = None, opset: int = 13) -> Value:
    """The logarithm of `Softmax`."""
    return _over_axis(nn.log_softmax, x, axis, opset)


def Hardmax(x: Value, axis: int | None = None, opset: int = 13) -> Value:
    """One at the first largest element, else zero."""

    def hardest(x: Value, axis: int) -> Value:
        return nn.one_hot(jnp.argmax(x, axis), x.shape[axis], axis=axis, dtype=x.dtype)

    return _over_axis(hardest, x, axis, opset)


def _over_axis(function: Callable[..., Value], x: Value, axis: int | None, opset: int) -> Value:
    """A function of one axis; before version 13, of all from that axis as one."""
    x = jnp.asarray(x)
    if opset >= 13:
        return function(x, axis=-1 if axis is None else axis)
    first = (1 if axis is None else axis) % max(x.ndim, 1)
    rows = x.reshape(int(np.prod(x.shape[:first])), -1)
    return function(rows, axis=1).reshape(x.shape)


def Dropout(
    x: Value,
    ratio: Value = None,
    training_mode: Value = None,
    seed: int | None = None,
    outputs: int = 1,
    key: Callable[[int | None], Value] | None = None,
    training: bool = False,
    opset: int = 13,
) -> Value:
    """Values of which some are zero while training, and the mask of those that are kept."""
    flagged = training_mode is not None and bool(numbers(training_mode, "its mode").any())
    rate = 0.5 if ratio is None else float(numbers(ratio, "its ratio"))
    if not (flagged or training) or rate == 0 or key is None:
        return (x, np.ones(x.shape, bool))[: max(outputs, 1)] if outputs > 1 else x
    from_key = key(seed)
    keep = _kept(from_key, rate, x.shape)
    y = jnp.where(keep, x / like(x, 1 - rate), like(x, 0))
    return (y, keep) if outputs > 1 else y


def _kept(key: Value, rate: float, shape: tuple[int, ...]) -> Value:
    return random.bernoulli(key, 1 - rate, shape)


# fmt: off
OPS: dict[str, Callable[..., Any]] = {
    **{op: named(name) for op, name in {
        "Abs": "abs", "Neg": "negative", "Sign": "sign", "Ceil": "ceil", "Floor": "floor",
        "Sqrt": "sqrt",
        "Exp": "exp", "Log": "log", "Sin": "sin", "Cos": "cos", "Tan": "tan", "Asin": "arcsin",
        "Acos": "arccos", "Atan": "arctan", "Sinh": "sinh", "Cosh": "cosh", "Tanh": "tanh",
        "Asinh": "arcsinh", "Acosh": "arccosh", "Atanh": "arctanh", "IsNaN": "isnan",
        "BitwiseNot": "bitwise_not", "BitwiseAnd": "bitwise_and", "BitwiseOr": "bitwise_or",
        "BitwiseXor": "bitwise_xor", "Add": "add", "Sub": "subtract", "Mul": "multiply",
        "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor",
    }.items()},
    **{op: compared(name) for op, name in {
        "Equal": "equal", "Less": "less", "Greater": "greater", "LessOrEqual": "less_equal",
        "GreaterOrEqual": "greater_equal",
    }.items()},
    **{op: folded(name) for op, name in {"Max": "maximum", "Min": "minimum", "Sum": "add"}.items()},
    **{op: of_nn(name) for op, name in {
        "Relu": "relu", "Sigmoid": "sigmoid", "Softplus": "softplus", "Softsign": "soft_sign",
    }.items()},
    "Erf": of_lax("erf"), "Mean": Mean, "Div": Div, "Mod": Mod, "Pow": Pow, "BitShift": BitShift,
    "IsInf": IsInf, "Round": Round, "Not": Not, "Reciprocal": Reciprocal, "Clip": Clip,
    "Where": Where,
    "Cast": Cast, "CastLike": CastLike, "BitCast": BitCast, "Identity": Identity,
    "LeakyRelu": LeakyRelu,
    "Elu": Elu, "Celu": Celu, "Selu": Selu, "PRelu": PRelu, "ThresholdedRelu": ThresholdedRelu,
    "HardSigmoid": HardSigmoid, "HardSwish": HardSwish, "Swish": Swish, "SwiGLU": SwiGLU,
    "Shrink": Shrink, "Gelu": Gelu, "Mish": Mish, "Softmax": Softmax, "LogSoftmax": LogSoftmax,
    "Hardmax": Hardmax, "Dropout": Dropout,
}
# fmt: on
