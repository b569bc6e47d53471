"""Transforms: one row per way to run a function that the writer writes.

A row writes one expression around functions of its own, and says whether the result is as exact as
the operands.  Loops carry a value of one type, so what a function gives is `fitted` to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tests.fuzz.values import (
    BOOL,
    COMPLEX,
    DTYPES,
    FLOATS,
    SIGNED,
    UNSIGNED,
    Skip,
    Value,
    precision,
)

if TYPE_CHECKING:
    from tests.fuzz.programs import Writer

INTEGERS = (*SIGNED, *UNSIGNED)


@dataclass(frozen=True)
class Function:
    """A function of a program, and what it gives for the samples that it was written on."""

    name: str
    source: str
    result: Value
    uses: tuple[tuple[str, str, tuple[str, ...]], ...]
    dtypes: frozenset[str]


Expression = tuple[str, bool]


@dataclass(frozen=True)
class Transform:
    """A way to run a function; `takes` are the dtypes of its operands."""

    write: Callable[[Writer], Expression]
    takes: tuple[str, ...] = DTYPES


def sample(value: Value, axis: int = 0) -> Value:
    """The first of the slices along an axis."""
    error = None if value.error is None else np.take(value.error, 0, axis)
    return Value(np.asarray(np.take(value.numbers, 0, axis)), error)


def rounded(value: Value) -> Value:
    """A value that a loop changes: floats are rounded after the first step."""
    if value.error is not None or value.dtype not in (*FLOATS, *COMPLEX):
        return value
    return Value(value.numbers, np.abs(value.numbers).astype(float) * precision(value.dtype)[0])


def fitted(carry: Value, function: Function) -> Expression:
    """An expression of the type of a carry `q`, from it and the result `s` of a function."""
    result, dtype = function.result, carry.dtype
    if (result.dtype, result.shape) == (dtype, carry.shape):
        return "s", result.exact
    if dtype in (*FLOATS, *COMPLEX):
        part = "s.real" if result.dtype in COMPLEX and dtype not in COMPLEX else "s"
        return f"(q * 0.5 + 0.1 * xp.sum({part}).astype({dtype})).astype({dtype})", False
    if not result.exact or result.dtype in (*FLOATS, *COMPLEX):
        return ("~q", carry.exact)
    if dtype == "bool":
        return "(q ^ xp.any(s != 0))", True
    return f"(q + xp.sum(s).astype({dtype}))", True


def applied(transform: str) -> Callable[[Writer], Expression]:
    """A transform that keeps the meaning of a function of one or two values."""

    def write(w: Writer) -> Expression:
        names = [w.value(DTYPES) for _ in range(w.one_of(1, 2))]
        g = w.function(transform, *(w.values[name] for name in names))
        return f"tfn.{transform}({g.name})({', '.join(names)})", g.result.exact

    return write


def vmap(w: Writer) -> Expression:
    a = w.value(DTYPES, least=1, fits=lambda v: v.numbers.size > 0)
    i = w.axis(a)
    b = w.value(DTYPES)
    samples, axes = [sample(w.values[a], i)], f"{i}"
    if w.one_of(True, False):
        samples, axes = [*samples, w.values[b]], f"({i}, None)"
    elif w.ndim(b) and w.shape(b)[0] == w.shape(a)[i]:
        samples, axes = [*samples, sample(w.values[b])], f"({i}, 0)"
    g = w.function("vmap", *samples)
    operands = f"{a}, {b}" if len(samples) > 1 else a
    out = w.one_of(0, -1)
    return f"tfn.vmap({g.name}, in_axes={axes}, out_axes={out})({operands})", g.result.exact


def differentiated(template: str, largest: int = 2_000) -> Transform:
    """A derivative of a function {g} of a value {a} of floats."""
    name = template.split("tfn.", 1)[1].split("(", 1)[0]

    def write(w: Writer) -> Expression:
        a = w.value(FLOATS, fits=lambda v: v.numbers.size <= largest)
        g = w.function(name, w.values[a], smooth=True, gives=FLOATS)
        if g.result.numbers.size > largest:
            return f"{g.name}({a})", g.result.exact
        return template.format(g=g.name, a=a), False

    return Transform(write, FLOATS)


FORWARD = ("jvp", "linearize", "jacfwd")


def custom_vjp(w: Writer) -> Expression:
    """A function with its own rule for reverse mode; forward mode has none."""
    if w.smooth_program or set(FORWARD).intersection(w.inside):
        raise Skip
    a = w.value(FLOATS)
    g = w.function("custom_vjp", w.values[a], smooth=True, closed=True)
    rule = f"lambda q: ({g.name}(q), q), lambda q, t: tfn.vjp({g.name}, q)[1](t)"
    return (
        f"(lambda c: (c.defvjp({rule}), c)[1])(tfn.custom_vjp({g.name}))({a})",
        g.result.exact,
    )


def custom_jvp(w: Writer) -> Expression:
    """A function with its own rule for forward mode, of which that for reverse mode follows."""
    a = w.value(FLOATS)
    g = w.function("custom_jvp", w.values[a], smooth=True, closed=True)
    rule = f"lambda q, t: tfn.jvp({g.name}, q, t)"
    return (
        f"(lambda c: (c.defjvp({rule}), c)[1])(tfn.custom_jvp({g.name}))({a})",
        g.result.exact,
    )


def scan(w: Writer) -> Expression:
    xs = w.value(DTYPES, least=1, fits=lambda v: v.shape[0] > 0)
    c = w.value(DTYPES, fits=lambda v: v.numbers.size < 100)
    carry = rounded(w.values[c])
    g = w.function("scan", carry, sample(w.values[xs]))
    fit, exact = fitted(carry, g)
    options = w.one_of("", ", reverse=True", ", unroll=2", ", checkpoint_every=2")
    body = f"lambda q, r: (lambda s: ({fit}, s))({g.name}(q, r))"
    return (
        f"lax.scan({body}, {c}, {xs}{options})[{w.one_of(0, 1)}]",
        exact and g.result.exact,
    )


def fori_loop(w: Writer) -> Expression:
    c = w.value(DTYPES)
    carry = rounded(w.values[c])
    g = w.function("fori_loop", carry)
    fit, exact = fitted(carry, g)
    stop = str(w.one_of(3, 1, 0, 5))
    if not w.smooth:  # bounds that are not known while tracing have no reverse mode
        k = w.value(INTEGERS, exact=True, fits=lambda v: v.numbers.size > 0)
        stop = w.one_of(stop, f"{k}.ravel()[0].astype(int32) % 5")
    return f"lax.fori_loop(0, {stop}, lambda j, q: (lambda s: {fit})({g.name}(q)), {c})", exact


def while_loop(w: Writer) -> Expression:
    c = w.value(DTYPES)
    carry = rounded(w.values[c])
    g = w.function("while_loop", carry)
    fit, exact = fitted(carry, g)
    options = ", max_steps=4" if w.smooth else ""
    return (
        f"lax.while_loop(lambda t: t[0] < {w.one_of(3, 0)}, lambda t: (t[0] + 1, "
        f"(lambda q, s: {fit})(t[1], {g.name}(t[1]))), (0, {c}){options})[1]",
        exact,
    )


def branches(w: Writer, transform: str, number: int) -> tuple[str, str, bool]:
    a = w.value(DTYPES)
    functions = [w.function(transform, w.values[a]) for _ in range(number)]
    fits = [fitted(w.values[a], g) for g in functions]
    sources = [f"lambda q: (lambda s: {fit})({g.name}(q))" for g, (fit, _) in zip(functions, fits)]
    return a, ", ".join(sources), all(exact for _, exact in fits)


def cond(w: Writer) -> Expression:
    p = w.value((*BOOL, *INTEGERS), exact=True)
    a, sources, exact = branches(w, "cond", 2)
    return f"lax.cond(xp.any({p} != 0), {sources}, {a})", exact


def switch(w: Writer) -> Expression:
    k = w.value(INTEGERS, exact=True, fits=lambda v: v.numbers.size > 0)
    a, sources, exact = branches(w, "switch", w.one_of(1, 2, 3))
    return f"lax.switch({k}.ravel()[0].astype(int32), [{sources}], {a})", exact


def mapped(w: Writer) -> Expression:
    a = w.value(DTYPES, least=1, fits=lambda v: v.shape[0] > 0)
    g = w.function("map", sample(w.values[a]))
    return f"lax.map({g.name}, {a}{w.one_of('', ', batch_size=2')})", g.result.exact


def associative_scan(w: Writer) -> Expression:
    combine = w.one_of("add", "multiply", "maximum")
    exact = combine == "maximum"
    w.exact_only = exact and w.smooth
    try:
        a = w.value((*INTEGERS, *FLOATS), least=1)
    finally:
        w.exact_only = False
    return (
        f"lax.associative_scan(xp.{combine}, {a}, axis={w.axis(a)}, "
        f"reverse={w.one_of(False, True)})",
        exact,
    )


# fmt: off
TRANSFORMS: dict[str, Transform] = {
    **{name: Transform(applied(name)) for name in ("jit", "call", "checkpoint")},
    "vmap": Transform(vmap),
    "grad": differentiated("tfn.grad(lambda q: xp.sum({g}(q)))({a})"),
    "jvp": differentiated("tfn.jvp({g}, ({a},), ({a} * 0.5,))[1]"),
    "vjp": differentiated("(lambda q, r: r(q * 0.5)[0])(*tfn.vjp({g}, {a}))"),
    "linearize": differentiated("tfn.linearize({g}, {a})[1]({a})"),
    "jacfwd": differentiated("tfn.jacfwd({g})({a})", largest=9),
    "jacrev": differentiated("tfn.jacrev({g})({a})", largest=9),
    "custom_jvp": Transform(custom_jvp, FLOATS),
    "custom_vjp": Transform(custom_vjp, FLOATS),
    "scan": Transform(scan),
    "fori_loop": Transform(fori_loop),
    "while_loop": Transform(while_loop),
    "cond": Transform(cond),
    "switch": Transform(switch),
    "map": Transform(mapped),
    "associative_scan": Transform(associative_scan, (*INTEGERS, *FLOATS)),
}
# fmt: on
