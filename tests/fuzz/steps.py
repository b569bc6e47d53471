"""Steps: one row per operation, with its source and how rounding passes through it.

A row writes one expression over the values of a writer.  Its `result` says what becomes of
rounding errors:

    ROUNDED    floating arithmetic: the result is rounded, whatever the operands are
    EXACT      movement, minima, negation: as exact as the operands
    DISCRETE   floor, comparisons, positions: jumps, so it takes exact operands only

`kink` marks what has no derivative at some operands: where gradients are drawn it takes exact
operands only.  `numpy` rows mean in NumPy what they mean in tfn, and are compared with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tests.fuzz.values import BOOL, COMPLEX, DTYPES, FLOATS, LARGEST, SIGNED, UNSIGNED

if TYPE_CHECKING:
    from tests.fuzz.programs import Writer

ROUNDED, EXACT, DISCRETE = "rounded", "exact", "discrete"

INTEGERS = (*SIGNED, *UNSIGNED)
REAL = (*INTEGERS, *FLOATS)
INEXACT = (*FLOATS, *COMPLEX)
DECOMPOSED = ("float32", "float64")
"""Dtypes that LAPACK has."""
ARITHMETIC = (*REAL, *COMPLEX)

Write = Callable[["Writer"], str]


@dataclass(frozen=True)
class Step:
    """An operation; `takes` are the dtypes of its first operand."""

    write: Write
    result: str
    takes: tuple[str, ...]
    kink: bool = False
    numpy: bool = True


def unary(template: str, takes: tuple[str, ...], result: str, **flags: bool) -> Step:
    """A row of one operand {a}, of any shape."""
    return Step(lambda w: template.format(a=w.value(takes)), result, takes, **flags)


def along(
    template: str, takes: tuple[str, ...], result: str, empty: bool = True, **flags: bool
) -> Step:
    """A row of one operand {a}, one of its axes {i}, and a random {flag}; `empty` axes too."""

    def write(w: Writer) -> str:
        a = w.value(takes, least=1, fits=lambda v: empty or v.numbers.size > 0)
        return template.format(a=a, i=w.axis(a), flag=w.one_of(True, False))

    return Step(write, result, takes, **flags)


def pair(template: str, takes: tuple[str, ...], result: str, **flags: bool) -> Step:
    """A row of two operands that broadcast, of one dtype."""

    def write(w: Writer) -> str:
        a = w.value(takes)
        return template.format(a=a, b=w.broadcasts(a, (w.dtype(a),)))

    return Step(write, result, takes, **flags)


def rest(template: str) -> Step:
    """A row of a remainder; in float64 a quotient beyond 2**1023 is promised to be NaN."""

    def write(w: Writer) -> str:
        a = w.value(REAL)
        b = w.broadcasts(a, (w.dtype(a),))
        if w.dtype(a) == "float64":
            b = f"xp.where(xp.abs({b}) < 1e-290, 1, {b})"
        return template.format(a=a, b=b)

    return Step(write, DISCRETE, REAL, numpy=False)


def mixed(template: str) -> Step:
    """A row of two operands that broadcast, of two dtypes that promote."""

    def write(w: Writer) -> str:
        a = w.value(ARITHMETIC)
        return template.format(a=a, b=w.broadcasts(a, ARITHMETIC))

    return Step(write, ROUNDED, ARITHMETIC, numpy=False)


def inner(template: str, takes: tuple[str, ...] = ARITHMETIC, empty: bool = True) -> Step:
    """A row of two operands with the same last axis, of size {n}."""

    def write(w: Writer) -> str:
        a = w.value(takes, least=1, fits=lambda v: v.shape[-1] > 0)
        n = w.shape(a)[-1]
        rows = prod(w.shape(a)[:-1])
        b = w.value(
            (w.dtype(a),),
            least=1,
            fits=lambda v: (
                v.shape[-1] == n
                and (empty or v.numbers.size > 0)
                and rows * prod(v.shape[:-1]) <= LARGEST
            ),
        )
        return template.format(a=a, b=b, n=n)

    return Step(write, ROUNDED, takes)


def narrowed(takes: tuple[str, ...], into: tuple[str, ...], result: str) -> Step:
    """A conversion of dtype."""
    return Step(lambda w: f"{w.value(takes)}.astype({w.one_of(*into)})", result, takes, numpy=False)


def scalar(w: Writer) -> str:
    a = w.value(REAL)
    number = w.one_of("2", "3", "-1") if w.dtype(a) in SIGNED else w.one_of("2", "3")
    return w.one_of(f"{a} * {number}", f"{a} + {number}", f"{number} - {a}", f"{a} - {number}")


def select(w: Writer) -> str:
    a = w.value(DTYPES)
    condition = w.broadcasts(a, BOOL, exact=True)
    b = w.broadcasts(a, (w.dtype(a),), among=(w.shape(condition),))
    return f"xp.where({condition}, {a}, {b})"


def reduction(
    function: str, takes: tuple[str, ...], result: str, empty: bool = True, **flags: bool
) -> Step:
    """A reduction over one axis, some or all; of no elements too, if it may be `empty`."""

    def write(w: Writer) -> str:
        a = w.value(takes, least=1, fits=lambda v: empty or v.numbers.size > 0)
        axes = w.one_of("None", str(w.axis(a)), str(tuple(range(w.ndim(a)))), "(0, -1)")
        axes = axes if w.ndim(a) > 1 or axes != "(0, -1)" else "0"
        return f"xp.{function}({a}, axis={axes}, keepdims={w.one_of(False, True)})"

    return Step(write, result, takes, **flags)


def transposed(w: Writer) -> str:
    a = w.value(DTYPES, least=1)
    return f"xp.transpose({a}, {w.choices.permutation(w.ndim(a))})"


def reshaped(w: Writer) -> str:
    a = w.value(DTYPES)
    shape = w.shape(a)
    shapes = [(prod(shape),), (1, *shape), (*shape, 1)]
    if len(shape) > 1:
        shapes += [(prod(shape[:2]), *shape[2:]), shape[::-1], (*shape[:-2], prod(shape[-2:]))]
    return f"xp.reshape({a}, {w.one_of(*shapes)})"


def broadcast(w: Writer) -> str:
    a = w.value(DTYPES)
    return f"xp.broadcast_to({a}, {(w.one_of(2, 3, 0), *w.shape(a))})"


def joined(w: Writer) -> str:
    a = w.value(DTYPES, least=1)
    i, shape = w.axis(a), w.shape(a)
    rest = [n for at, n in enumerate(shape) if at != i % len(shape)]
    b = w.value(
        (w.dtype(a),),
        least=1,
        fits=lambda v: (
            v.ndim == len(shape)
            and [n for at, n in enumerate(v.shape) if at != i % len(shape)] == rest
        ),
    )
    return f"xp.concatenate([{a}, {b}, {a}], {i})"


def padded(w: Writer) -> str:
    a = w.value(DTYPES, least=1)
    widths = [w.one_of((0, 1), (2, 0), (1, 3)) for _ in w.shape(a)]
    return f"xp.pad({a}, {widths})"


def lax_padded(w: Writer) -> str:
    a = w.value(REAL, least=1, fits=lambda v: v.numbers.size > 0)
    widths = [w.one_of((0, 1, 0), (-1, 2, 0), (1, 0, 1), (0, -1, 2)) for _ in w.shape(a)]
    return f"lax.pad({a}, {a}.dtype.type(1), {widths})"


def padded_by(mode: str) -> Step:
    def write(w: Writer) -> str:
        a = w.value(DTYPES, least=1, fits=lambda v: min(v.shape) > 2)
        return f"xp.pad({a}, {w.one_of(1, 2)}, mode={mode!r})"

    return Step(write, EXACT, DTYPES)


def basic_slice(w: Writer) -> str:
    a = w.value(DTYPES, least=1)
    steps = ["::-1", "1:", "::2", ":-1", "-2:", "::-2", "3:0:-1", ":", "None, :", "5:2"]
    if w.shape(a)[0] > 0:
        steps += ["0", "-1"]
    index = w.one_of(*steps)
    return f"{a}[{index}]" if w.one_of(True, False) or index[-1] in "01" else f"{a}[..., {index}]"


def integer_index(w: Writer, a: str) -> str:
    """An expression of integers, some of which may be out of range of any axis."""
    k = w.value(INTEGERS, exact=True, fits=lambda v: v.ndim < 3 and v.numbers.size < 50)
    return w.one_of(k, f"{k}.ravel()", f"{k}.astype(int32) % 7 - 3")


def index_at(w: Writer) -> str:
    a = w.value(DTYPES, least=1, fits=lambda v: v.shape[0] > 0)
    k = integer_index(w, a)
    mode = w.one_of("", ".get(mode='clip')", ".get(mode='fill')", ".get(mode='fill', fill_value=1)")
    return f"{a}.at[{k}]{mode}" if mode else f"{a}[{k}]"


def take(w: Writer) -> str:
    a = w.value(DTYPES, least=1, fits=lambda v: min(v.shape) > 0)
    mode = w.one_of("'fill'", "'clip'", "'wrap'", "None")
    return f"tfn.numpy.take({a}, {integer_index(w, a)}, axis={w.axis(a)}, mode={mode})"


def take_along(w: Writer) -> str:
    a = w.value(REAL, least=1, exact=True)
    i = w.axis(a)
    return f"xp.take_along_axis({a}, xp.argsort({a}, axis={i}, stable=True), axis={i})"


def update_at(method: str, takes: tuple[str, ...], result: str, **flags: bool) -> Step:
    def write(w: Writer) -> str:
        a = w.value(takes, least=1, fits=lambda v: v.shape[0] > 0)
        k = integer_index(w, a)
        if method == "set":  # which of several writes to one element is last is not defined
            change = "1"
        else:
            first = w.value((w.dtype(a),), least=1, fits=lambda v: v.numbers.size > 0)
            change = w.one_of("2", f"{first}.ravel()[0]")
        mode = w.one_of("", ", mode='clip'", ", mode='drop'")
        return f"{a}.at[{k}].{method}({change}{mode})"

    return Step(write, result, takes, numpy=False, **flags)


def dynamic_slice(w: Writer) -> str:
    a = w.value(DTYPES, least=1)
    k = w.value(("int32", "int64", "int8", "uint32"), exact=True, fits=lambda v: v.numbers.size > 0)
    sizes = [max(0, n - w.one_of(0, 1, 2)) for n in w.shape(a)]
    starts = ", ".join(w.one_of(f"{k}.ravel()[0]", "0", "1") for _ in sizes)
    return f"lax.dynamic_slice({a}, ({starts},), {sizes})"


def dynamic_update(w: Writer) -> str:
    a = w.value(DTYPES, least=1)
    k = w.value(("int32", "int64"), exact=True, fits=lambda v: v.numbers.size > 0)
    # A sort is a kernel of its own, so that the update is a copy of what it has written.
    changes = f"xp.flip({a}[:2])", f"{a}[::-1][:3]", f"xp.sort({a}, axis=0)", f"xp.sort({a}[:2], 0)"
    return (
        f"lax.dynamic_update_slice_in_dim({a}, {w.one_of(*changes)}, "
        f"{k}.ravel()[{w.one_of(0, -1)}], 0)"
    )


def windows_at(w: Writer, takes: tuple[str, ...]) -> tuple[str, str, str]:
    """A value, starts of windows along its first axis, and the other axes."""
    a = w.value(takes, least=1, fits=lambda v: v.shape[0] > 0)
    k = w.value(INTEGERS, exact=True, fits=lambda v: 0 < v.numbers.size < 30)
    starts = f"({k}.ravel().astype(int32) % 9 - 2)[:, None]"  # some of them are out of range
    return a, starts, str(tuple(range(1, w.ndim(a))))


def gathered(w: Writer) -> str:
    a, starts, rest = windows_at(w, DTYPES)
    size = w.one_of(1, 2) if w.shape(a)[0] > 1 else 1
    collapsed = size == 1 and w.one_of(True, False)
    windows = rest if collapsed else str(tuple(range(1, w.ndim(a) + 1)))
    mode = w.one_of("clip", "fill")
    return (
        f"lax.gather({a}, {starts}, lax.GatherDimensionNumbers({windows}, "
        f"{(0,) if collapsed else ()}, (0,)), {(size, *w.shape(a)[1:])}, mode={mode!r})"
    )


def scattered(method: str, takes: tuple[str, ...], result: str, **flags: bool) -> Step:
    """A row of `lax.scatter` of whole rows, of one number or of the first rows of the operand."""

    def write(w: Writer) -> str:
        a, starts, rest = windows_at(w, takes)
        shape = f"({starts}.shape[0], *{a}.shape[1:])"
        updates = w.one_of(f"xp.full({shape}, 2, {a}.dtype)", f"xp.broadcast_to({a}[:1], {shape})")
        return (
            f"lax.{method}({a}, {starts}, {updates}, lax.ScatterDimensionNumbers({rest}, (0,), "
            f"(0,)), mode={w.one_of('clip', 'drop')!r})"
        )

    return Step(write, result, takes, numpy=False, **flags)


def matrix(template: str, result: str = ROUNDED) -> Step:
    """A row of a square matrix {m} with large numbers on its diagonal, and a vector {b}.

    {spd} is symmetric and positive definite.
    """

    def write(w: Writer) -> str:
        a = w.value(
            DECOMPOSED, fits=lambda v: v.numbers.size > 0 and bool(np.isfinite(v.numbers).all())
        )
        n = min(w.one_of(1, 2, 3, 5), w.values[a].numbers.size)
        bounded = f"xp.resize(xp.tanh({a}), ({n}, {n}))"
        m = f"({bounded} * 0.3 + xp.eye({n}, dtype={a}.dtype) * 3)"
        return template.format(m=m, b=f"{bounded}[0]", spd=f"({m} @ {m}.T)")

    return Step(write, result, DECOMPOSED, numpy=False)


def drawn(template: str) -> Step:
    """A row of random numbers of a key from an integer; the bits are the same everywhere."""

    def write(w: Writer) -> str:
        k = w.value(INTEGERS, exact=True, fits=lambda v: v.numbers.size > 0)
        return template.format(
            k=f"tfn.random.key({k}.ravel()[0])", shape=w.one_of((), (3,), (2, 5))
        )

    return Step(write, DISCRETE, INTEGERS, numpy=False)


def called_back(function: str) -> Step:
    """A row of a function of Python, of values without derivatives."""
    takes = (*INTEGERS, *BOOL)

    def write(w: Writer) -> str:
        a = w.value(takes)
        options = ", vmap_method='sequential'" if function == "pure_callback" else ""
        return (
            f"tfn.{function}(lambda q: np.flip(np.asarray(q)), "
            f"tfn.ShapeDtypeStruct({a}.shape, {a}.dtype), {a}{options})"
        )

    return Step(write, DISCRETE, takes, numpy=False)


def searched(w: Writer) -> str:
    a = w.value(REAL, least=1, exact=True, fits=lambda v: v.numbers.size > 0)
    return f"xp.searchsorted(xp.sort({a}.ravel()), {a}, side={w.one_of('left', 'right')!r})"


def convolution(w: Writer) -> str:
    a = w.value(FLOATS, least=1, fits=lambda v: v.shape[-1] > 2 and v.numbers.size > 0)
    n = w.shape(a)[-1]
    stride, dilation = w.one_of(1, 2), w.one_of(1, 2)
    padding = w.one_of("'SAME'", "'VALID'", "[(2, 1)]")
    return (
        f"lax.conv_general_dilated({a}.reshape(-1, 1, {n}), xp.stack([{a}.reshape(-1, 1, {n})[0, :,"
        f" :2], {a}.reshape(-1, 1, {n})[-1, :, -2:]]), ({stride},), {padding}, "
        f"rhs_dilation=({dilation},))"
    )


def pooled(w: Writer) -> str:
    a = w.value(FLOATS, least=1)
    window = [w.one_of(1, 2, 3) for _ in w.shape(a)]
    stride = [w.one_of(1, 2) for _ in window]
    return (
        f"lax.reduce_window({a}, {a}.dtype.type(0), lax.add, {window}, {stride}, "
        f"{w.one_of('SAME', 'VALID')!r})"
    )


def extremes_of_windows(w: Writer) -> str:
    a = w.value(FLOATS, least=1)
    window = [w.one_of(1, 2, 3) for _ in w.shape(a)]
    return (
        f"lax.reduce_window({a}, {a}.dtype.type(-xp.inf), lax.max, {window}, {[1] * len(window)}, "
        f"{w.one_of('SAME', 'VALID')!r})"
    )


def attention(w: Writer) -> str:
    a = w.value(FLOATS, least=2, fits=lambda v: v.numbers.size > 0)
    d = w.shape(a)[-1]
    q = f"{a}.reshape(1, -1, 1, {d})"
    return (
        f"nn.dot_product_attention({q}, {q}[:, ::-1] * 0.5, {q}, is_causal={w.one_of(True, False)})"
    )


def einsum(w: Writer) -> str:
    a = w.value(INEXACT, least=2)
    text = w.one_of("...ij,...ij->...i", "...ij,...kj->...ik", "...ii->...i", "...ij->...ji")
    if text == "...ii->...i" and w.shape(a)[-1] != w.shape(a)[-2]:
        text = "...ij->...j"
    return f"xp.einsum({text!r}, {', '.join([a] * (1 + text.count(',')))})"


def rolled(w: Writer) -> str:
    a = w.value(DTYPES, least=1)
    return f"xp.roll({a}, {w.one_of(1, -2, 5)}, {w.axis(a)})"


# fmt: off
STEPS: dict[str, Step] = {
    # floating functions of one operand
    **{name: unary(f"xp.{name}({{a}})", INEXACT, ROUNDED) for name in
       ("exp", "sin", "cos", "tanh", "square")},
    **{name: unary(f"xp.{name}({{a}})", FLOATS, ROUNDED) for name in (
        "tan", "expm1", "exp2", "log", "log1p", "log2", "log10", "sqrt", "sinh", "cosh",
        "arctan", "arcsinh", "reciprocal", "sinc", "deg2rad")},
    "cbrt": unary("xp.cbrt({a})", FLOATS, ROUNDED, kink=True),  # infinitely steep at 0
    # Away from where their slopes are infinite: arccosh of cosh is known to few digits near 1.
    **{name: unary(f"xp.{name}(xp.tanh({{a}}) * 0.875)", FLOATS, ROUNDED) for name in
       ("arcsin", "arccos", "arctanh")},
    "lax.erf_inv": unary(
        "lax.erf_inv(xp.tanh({a}) * 0.875)", FLOATS, ROUNDED, numpy=False),
    "arccosh": unary("xp.arccosh({a} * {a} + 1.5)", FLOATS, ROUNDED),
    **{f"lax.{name}": unary(f"lax.{name}({{a}})", FLOATS, ROUNDED, numpy=False) for name in
       ("erf", "erfc", "lgamma", "digamma", "logistic", "rsqrt", "bessel_i0e")},
    **{f"nn.{name}": unary(f"nn.{name}({{a}})", FLOATS, ROUNDED, numpy=False) for name in
       ("softplus", "silu", "log_sigmoid")},
    # Below -3 it is x times a difference near 0, known to the last place of x only, as in JAX.
    "nn.gelu": unary("nn.gelu({a}) + {a} * 0.5", FLOATS, ROUNDED, numpy=False),
    "nn.softmax": along("nn.softmax({a}, axis={i})", FLOATS, ROUNDED, numpy=False),
    "nn.relu": unary("nn.relu({a})", FLOATS, EXACT, kink=True, numpy=False),
    "integer to float": unary("xp.sin({a} * 0.5)", (*INTEGERS, *BOOL), ROUNDED, numpy=False),
    # the same bits
    "negative": unary("-{a}", ARITHMETIC, EXACT),
    "abs": unary("xp.abs({a})", REAL, EXACT, kink=True),
    "complex abs": unary("xp.abs({a})", COMPLEX, ROUNDED, kink=True),
    "conj": unary("xp.conj({a})", COMPLEX, EXACT),
    "real": unary("xp.real({a})", COMPLEX, EXACT),
    "imag": unary("xp.imag({a})", COMPLEX, EXACT),
    "clip": unary("xp.clip({a}, 1, 3)", REAL, EXACT, kink=True),
    "scalar": Step(scalar, ROUNDED, REAL, numpy=False),
    "where": Step(select, EXACT, DTYPES),
    "nan_to_num": unary("xp.nan_to_num({a}, nan=2, posinf=3, neginf=-3)", FLOATS, EXACT, kink=True),
    # jumps; the sign of a NaN is anything
    **{name: unary(f"xp.{name}({{a}})", FLOATS, DISCRETE) for name in
       ("floor", "ceil", "rint", "trunc", "isnan", "isinf", "isfinite")},
    "signbit": unary("xp.signbit(xp.where({a} == {a}, {a}, 1))", FLOATS, DISCRETE),
    "sign": unary("xp.sign({a})", REAL, DISCRETE, numpy=False),  # of -0.0 it is -0.0
    "round": unary("xp.round({a}, 0)", FLOATS, DISCRETE),
    "invert": unary("~{a}", (*INTEGERS, *BOOL), DISCRETE),
    "bitwise_count": unary("xp.bitwise_count({a})", INTEGERS, DISCRETE),
    "clz": unary("lax.clz({a})", INTEGERS, DISCRETE, numpy=False),
    "cast float": narrowed(FLOATS, INEXACT, ROUNDED),
    "cast complex": narrowed(COMPLEX, COMPLEX, ROUNDED),
    "cast integer": narrowed((*INTEGERS, *BOOL), DTYPES, ROUNDED),
    "cast to integer": narrowed(FLOATS, (*INTEGERS, *BOOL), DISCRETE),
    # two operands
    **{name: pair(f"{{a}} {sign} {{b}}", ARITHMETIC, ROUNDED) for name, sign in
       {"add": "+", "subtract": "-", "multiply": "*"}.items()},
    "divide": pair("{a} / {b}", INEXACT, ROUNDED),
    "divide safely": pair("{a} / (1 + xp.abs({b}))", FLOATS, ROUNDED),
    **{name: pair(f"xp.{name}({{a}}, {{b}})", FLOATS, ROUNDED) for name in
       ("hypot", "arctan2", "logaddexp", "logaddexp2")},
    "power": pair("xp.power(xp.abs({a}), {b})", FLOATS, ROUNDED, kink=True),
    "integer_pow": unary("{a} ** 3", ARITHMETIC, ROUNDED),
    **{name: pair(f"xp.{name}({{a}}, {{b}})", REAL, EXACT, kink=True) for name in
       ("maximum", "minimum")},
    **{name: pair(f"xp.{name}({{a}}, {{b}})", FLOATS, EXACT, kink=True) for name in
       ("fmax", "fmin")},
    **{name: pair(f"{{a}} {sign} {{b}}", REAL, DISCRETE) for name, sign in
       {"less": "<", "less_equal": "<=", "equal": "==", "not_equal": "!=", "greater": ">"}.items()},
    **{name: pair(f"{{a}} {sign} {{b}}", (*INTEGERS, *BOOL), DISCRETE) for name, sign in
       {"and": "&", "or": "|", "xor": "^"}.items()},
    "floor_divide": pair("{a} // {b}", INTEGERS, DISCRETE, numpy=False),
    "remainder": rest("{a} % {b}"),
    "fmod": rest("xp.fmod({a}, {b})"),
    "lax.div": pair("lax.div(*xp.broadcast_arrays({a}, {b}))", INTEGERS, DISCRETE, numpy=False),
    "shift left": unary("{a} << 3", INTEGERS, DISCRETE),
    "shift right": unary("{a} >> 2", INTEGERS, DISCRETE),
    "gcd": pair("xp.gcd({a}, {b})", ("int32", "int64", "uint8"), DISCRETE),
    "copysign": pair("xp.copysign({a}, xp.where({b} == {b}, {b}, 1))", FLOATS, DISCRETE),
    "nextafter": pair("xp.nextafter({a}, {b})", ("float32", "float64"), DISCRETE, numpy=False),
    "heaviside": pair("xp.heaviside({a}, {b})", FLOATS, DISCRETE),
    "mixed add": mixed("{a} + {b}"),
    "mixed multiply": mixed("{a} * {b}"),
    # reductions
    "sum": reduction("sum", ARITHMETIC, ROUNDED, numpy=False),
    "count": unary("xp.sum({a})", BOOL, DISCRETE),
    "prod": reduction("prod", ARITHMETIC, ROUNDED, numpy=False),
    **{name: reduction(name, FLOATS, ROUNDED) for name in ("mean", "var", "nansum")},
    "std": reduction("std", FLOATS, ROUNDED, kink=True),  # the square root of 0 has no derivative
    **{name: reduction(name, REAL, EXACT, empty=False, kink=True) for name in ("max", "min")},
    **{name: reduction(name, (*INTEGERS, *BOOL), DISCRETE) for name in ("any", "all")},
    **{name: along(f"xp.{name}({{a}}, axis={{i}})", REAL, DISCRETE, empty=False) for name in
       ("argmax", "argmin")},
    "median": along("xp.median({a}, axis={i})", FLOATS, ROUNDED, empty=False, kink=True),
    "logsumexp": along("nn.logsumexp({a}, axis={i})", FLOATS, ROUNDED, numpy=False),
    "softmax": along(
        "xp.exp({a} - {a}.max({i}, keepdims=True)) / "
        "xp.exp({a} - {a}.max({i}, keepdims=True)).sum({i}, keepdims=True)", FLOATS, ROUNDED,
        empty=False),
    "normalize": along(
        "({a} - {a}.mean({i}, keepdims=True)) / xp.sqrt({a}.var({i}, keepdims=True) + 1)",
        FLOATS, ROUNDED),
    # prefixes and order
    "cumsum": along("xp.cumsum({a}, axis={i})", ARITHMETIC, ROUNDED, numpy=False),
    "cumprod": along("xp.cumprod({a}, axis={i})", FLOATS, ROUNDED),
    "lax.cumsum": along(
        "lax.cumsum({a}, axis={i} % {a}.ndim, reverse={flag})", REAL, ROUNDED, numpy=False),
    "cummax": along(
        "lax.cummax({a}, axis={i} % {a}.ndim, reverse={flag})", REAL, EXACT, kink=True,
        numpy=False),
    "cumlogsumexp": along(
        "lax.cumlogsumexp({a}, axis={i} % {a}.ndim)", FLOATS, ROUNDED, numpy=False),
    "sort": along("xp.sort({a}, axis={i}, stable=True)", REAL, EXACT, kink=True),
    "argsort": along("xp.argsort({a}, axis={i}, stable=True)", REAL, DISCRETE),
    "top_k": along("lax.top_k(xp.stack([{a}, {a}[::-1]], -1), 1)[0]", REAL, EXACT, kink=True,
                   numpy=False),
    "searchsorted": Step(searched, DISCRETE, REAL),
    "diff": along("xp.diff({a}, axis={i})", ARITHMETIC, ROUNDED),
    # products
    "matmul": inner("{a}.reshape(-1, {n}) @ {b}.reshape(-1, {n}).T"),
    "dot": inner("xp.dot({a}, {b}.reshape(-1, {n}).T)"),
    "tensordot": inner("xp.tensordot({a}, {b}, (-1, -1))"),
    "outer": inner("xp.outer({a}[..., 0], {b}[..., 0])"),
    "vecdot": inner(
        "xp.vecdot({a}.reshape(-1, {n}), {b}.reshape(-1, {n})[:1])", INEXACT, empty=False),
    "einsum": Step(einsum, ROUNDED, INEXACT),
    "conv": Step(convolution, ROUNDED, FLOATS, numpy=False),
    "reduce_window sum": Step(pooled, ROUNDED, FLOATS, numpy=False),
    "reduce_window max": Step(extremes_of_windows, EXACT, FLOATS, kink=True, numpy=False),
    "attention": Step(attention, ROUNDED, FLOATS, numpy=False),
    "rfft": along("xp.fft.rfft({a}, axis={i}).real", ("float32", "float64"), ROUNDED,
        empty=False, numpy=False),
    "fft": along("xp.fft.fft({a}, axis={i})", COMPLEX, ROUNDED, empty=False, numpy=False),
    # decompositions of matrices
    "solve": matrix("xp.linalg.solve({m}, {b})"),
    "inv": matrix("xp.linalg.inv({m})"),
    "det": matrix("xp.linalg.det({m})"),
    "slogdet": matrix("xp.linalg.slogdet({m})[1]"),
    "cholesky": matrix("xp.linalg.cholesky({spd})"),
    "eigvalsh": matrix("xp.linalg.eigvalsh({spd})"),
    "svdvals": matrix("xp.linalg.svdvals({m})"),
    "qr": matrix("xp.abs(xp.linalg.qr({m})[1])"),
    "triangular_solve": matrix("lax.linalg.triangular_solve({m}, {b}[:, None], left_side=True)"),
    # random numbers
    "random.bits": drawn("tfn.random.bits({k}, {shape})"),
    "random.randint": drawn("tfn.random.randint({k}, {shape}, -3, 9)"),
    "random.bernoulli": drawn("tfn.random.bernoulli({k}, 0.5, {shape})"),
    "random.permutation": drawn("tfn.random.permutation({k}, 7)"),
    "random.split": drawn(
        "tfn.random.bits(tfn.random.fold_in(tfn.random.split({k})[1], 3), {shape})"),
    # functions of Python
    "pure_callback": called_back("pure_callback"),
    "io_callback": called_back("io_callback"),
    # movement
    "transpose": Step(transposed, EXACT, DTYPES),
    "reshape": Step(reshaped, EXACT, DTYPES),
    "broadcast_to": Step(broadcast, EXACT, DTYPES),
    "concatenate": Step(joined, EXACT, DTYPES),
    "stack": along("xp.stack([{a}, {a}], {i})", DTYPES, EXACT),
    "flip": along("xp.flip({a}, {i})", DTYPES, EXACT),
    "roll": Step(rolled, EXACT, DTYPES),
    "repeat": along("xp.repeat({a}, 2, {i})", DTYPES, EXACT),
    "tile": along("xp.tile({a}, 2)", DTYPES, EXACT),
    "pad": Step(padded, EXACT, DTYPES),
    "lax.pad": Step(lax_padded, EXACT, REAL, numpy=False),
    **{f"pad {mode}": padded_by(mode) for mode in ("edge", "reflect", "wrap")},
    "tril": along("xp.tril(xp.stack([{a}, {a}], -1))", DTYPES, EXACT),
    "diagonal": along("xp.diag({a}.ravel()[:7])", DTYPES, EXACT),
    # indices
    "slice": Step(basic_slice, EXACT, DTYPES),
    "index": Step(index_at, EXACT, DTYPES, numpy=False),
    "take": Step(take, EXACT, DTYPES, numpy=False),
    "take_along_axis": Step(take_along, DISCRETE, REAL),
    "at set": update_at("set", DTYPES, EXACT),
    "at add": update_at("add", ARITHMETIC, ROUNDED),
    "at multiply": update_at("multiply", REAL, ROUNDED),
    "at max": update_at("max", REAL, EXACT, kink=True),
    "at min": update_at("min", REAL, EXACT, kink=True),
    "gather": Step(gathered, EXACT, DTYPES, numpy=False),
    "scatter": scattered("scatter_add", ARITHMETIC, ROUNDED),
    "scatter_mul": scattered("scatter_mul", REAL, ROUNDED),
    "scatter_max": scattered("scatter_max", REAL, EXACT, kink=True),
    "scatter_min": scattered("scatter_min", REAL, EXACT, kink=True),
    "dynamic_slice": Step(dynamic_slice, EXACT, DTYPES, numpy=False),
    "dynamic_update_slice": Step(dynamic_update, EXACT, DTYPES, numpy=False),
}
# fmt: on
