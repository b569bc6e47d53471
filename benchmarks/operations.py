"""Operations of the sweep: each draws shapes, dtypes, layouts and options from a generator.

A draw gives a function of a facade and arrays, and the arrays' shapes, dtypes and values.  Peers
run the same function, but for rows of `INSTEAD`, which say how a library does it in its own way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import loops
import ml_dtypes
import numpy as np
from facades import Facade

Random = np.random.Generator
Function = Callable[..., Any]

FLOATS = ("float32", "float32", "float32", "float64", "bfloat16")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64", "uint32")


@dataclass(frozen=True)
class Argument:
    """An array: its shape, its dtype, and what its values are."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    values: Any = "normal"

    def make(self, random: Random) -> np.ndarray[Any, Any]:
        """The array: normal numbers, positive ones, numbers in an interval, or matrices."""
        if isinstance(self.values, tuple):
            low, high = self.values
            if np.dtype(self.dtype).kind == "f":
                return random.uniform(low, high, self.shape).astype(self.dtype)
            return random.integers(low, high, self.shape).astype(self.dtype)
        made = np.asarray(random.standard_normal(self.shape))
        if self.dtype.startswith("complex"):
            made = made + 1j * random.standard_normal(self.shape)
        elif self.dtype == "bool":
            return made > 0
        elif self.values == "positive":
            made = np.abs(made) + 0.1
        elif self.values == "sorted":
            made = np.sort(made, axis=-1)
        elif self.values == "definite":
            n = self.shape[-1]
            made = made @ np.swapaxes(made, -1, -2) / n + np.eye(n)
        dtype = ml_dtypes.bfloat16 if self.dtype == "bfloat16" else np.dtype(self.dtype)
        if np.dtype(dtype).kind in "iu":
            made = random.integers(0, 100, self.shape)
        return np.asarray(made).astype(dtype)


@dataclass(frozen=True)
class Drawn:
    """A case: a function, its arguments, how it was drawn, and what other libraries do instead.

    Attributes:
        function: of a facade and arrays.
        arguments: the arrays.
        about: options and layout, in words.
        instead: the same by other means: of arrays for ``numpy`` and ``numba``, else of a facade.
    """

    function: Function
    arguments: tuple[Argument, ...]
    about: str = ""
    instead: dict[str, Function | None] = field(default_factory=dict)
    loose: bool = False


def length(r: Random, low: int, high: int) -> int:
    """A length, evenly drawn on a scale of powers; half of them are odd, some are powers of 2."""
    n = int(np.exp(r.uniform(np.log(low), np.log(high + 1))))
    return 1 << (n.bit_length() - 1) if r.random() < 0.3 else n


def some(r: Random, *choices: Any) -> Any:
    """One of them."""
    return choices[r.integers(len(choices))]


def shape(r: Random, most: int = 1 << 19) -> tuple[int, ...]:
    """One to four axes: vectors, thin and wide matrices, small images."""
    rank = int(r.choice([1, 2, 2, 2, 3, 4]))
    sizes = [length(r, *((1, 2000) if rank < 3 else (1, 100))) for _ in range(rank)]
    if rank == 1:
        return (length(r, 1, most),)
    while np.prod(sizes) > most:
        sizes[int(np.argmax(sizes))] //= 2
    return tuple(sizes)


def view(r: Random, rank: int) -> tuple[str, Function]:
    """A layout: rows as they stand, turned axes, each second element, or in reverse."""
    kind = r.choice(["", "", "", "turned", "every second", "reversed"])
    if kind == "turned" and rank > 1:
        axes = (*range(rank - 2), rank - 1, rank - 2)
        return " turned", lambda x, xp: xp.transpose(x, axes)
    if kind == "every second":
        return " [::2]", lambda x, xp: x[..., ::2]
    if kind == "reversed":
        return " reversed", lambda x, xp: xp.flip(x, (rank - 1,))
    return "", lambda x, xp: x


# fmt: off
UNARY = {
    "exp": "normal", "log": "positive", "log1p": "positive", "tanh": "normal", "sin": "normal",
    "cos": "normal", "sqrt": "positive", "expm1": "normal", "arctan": "normal", "sinh": "normal",
    "abs": "normal", "square": "normal", "floor": "normal", "sign": "normal", "log2": "positive",
}
# fmt: on


def unary(r: Random) -> Drawn:
    """An elementary function of a view."""
    name = some(r, *UNARY)
    s = shape(r)
    about, seen = view(r, len(s))
    return Drawn(
        lambda f, x: getattr(f.xp, name)(seen(x, f.xp)),
        (Argument(s, some(r, *FLOATS), UNARY[name]),),
        name + about,
    )


def binary(r: Random) -> Drawn:
    """Arithmetic of two arrays, one of which may be a row, a column or a number."""
    s = shape(r)
    name = some(r, "add", "multiply", "subtract", "divide", "maximum", "arctan2", "hypot", "power")
    kind = some(r, "same", "row", "column", "number")
    other = {"row": s[-1:], "column": (*s[:-1], 1), "number": ()}.get(kind, s)
    dtype = some(r, *FLOATS[:4])
    values = "positive" if name == "power" else "normal"
    return Drawn(
        lambda f, a, b: getattr(f.xp, name)(a, b),
        (Argument(s, dtype, values), Argument(other, dtype, "positive")),
        f"{name}, {kind}",
    )


def integers(r: Random) -> Drawn:
    """Arithmetic of integers of any width."""
    s, dtype = shape(r), some(r, *INTEGERS)
    name, f = some(
        r,
        ("a*b+a", lambda f, a, b: a * b + a),
        ("a//b", lambda f, a, b: a // b),
        ("a%b", lambda f, a, b: a % b),
        ("a&b^a", lambda f, a, b: (a & b) ^ a),
        ("a<<1|b", lambda f, a, b: (a << 1) | b),
        ("max(a,b)", lambda f, a, b: f.xp.maximum(a, b)),
        ("a<b", lambda f, a, b: a < b),
        ("where", lambda f, a, b: f.xp.where(a < b, a, b + b)),
    )
    if dtype == "uint32" and name != "a*b+a":
        dtype = "int32"  # PyTorch has next to nothing for it
    return Drawn(f, (Argument(s, dtype, (0, 11)), Argument(s, dtype, (1, 11))), name)


def booleans(r: Random) -> Drawn:
    """Logic, selection and counting."""
    s = shape(r)
    name, f = some(
        r,
        ("and not", lambda f, a, b: f.xp.logical_and(a, f.xp.logical_not(b))),
        ("any", lambda f, a, b: f.xp.any(a & b, axis=-1)),
        ("all", lambda f, a, b: f.xp.all(a | b, axis=0)),
        ("count", lambda f, a, b: f.xp.sum(f.cast(a ^ b, "int32"), axis=-1)),
        ("where", lambda f, a, b: f.xp.where(a, f.cast(b, "float32"), 2.0)),
    )
    return Drawn(f, (Argument(s, "bool"), Argument(s, "bool")), name)


def complexes(r: Random) -> Drawn:
    """Complex numbers."""
    s, dtype = shape(r, 1 << 17), some(r, "complex64", "complex64", "complex128")
    name, f = some(
        r,
        ("a*b", lambda f, a, b: a * b),
        ("abs", lambda f, a, b: f.xp.abs(a + b)),
        ("a/b", lambda f, a, b: a / b),
        ("exp", lambda f, a, b: f.xp.exp(a)),
        ("sum", lambda f, a, b: f.xp.sum(a * b, axis=-1)),
        ("conj", lambda f, a, b: f.xp.conj(a) * b),
    )
    return Drawn(f, (Argument(s, dtype), Argument(s, dtype)), name)


def casts(r: Random) -> Drawn:
    """From one dtype to another."""
    types = ("float32", "float64", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "bool")
    a, b = (types[i] for i in r.choice(len(types), 2, replace=False))
    values = "normal" if a == "bool" else "positive" if a in FLOATS else (0, 100)
    return Drawn(lambda f, x: f.cast(x, b), (Argument(shape(r), a, values),), f"to {b}")


def reductions(r: Random) -> Drawn:
    """Sums, maxima and the like along some axes of a view."""
    s = shape(r)
    name = some(r, "sum", "mean", "max", "min", "prod", "var", "argmax", "argmin", "sum", "max")
    axis = int(r.integers(len(s))) if name in ("argmax", "argmin", "prod") else None
    if axis is None:
        axis = some(r, tuple(range(len(s))), 0, len(s) - 1, len(s) - 1, len(s) // 2)
    about, seen = view(r, len(s))
    dtype = some(r, *FLOATS, "int32", "int8", "uint8", "int16")
    if name in ("mean", "var") and dtype.startswith(("int", "uint")):
        dtype = "float32"
    return Drawn(
        lambda f, x: getattr(f.xp, name)(seen(x, f.xp), axis=axis),
        (Argument(s, dtype, (0, 2) if dtype.startswith(("int", "uint")) else "normal"),),
        f"{name} axis {axis}{about}",
        {"torch": None} if name == "prod" and dtype == "bfloat16" else {},
        loose=name.startswith("arg"),
    )


def normalisations(r: Random) -> Drawn:
    """Softmax, log-softmax, layer norm, RMS norm and group norm, and their gradients."""
    slope = bool(r.random() < 0.4)
    name = some(r, "softmax", "log_softmax", "layer_norm", "rms_norm", "group_norm", "group_norm")
    n, m = length(r, 1, 1024), length(r, 8, 2048)

    def layer_norm(f: Facade, x: Any, g: Any) -> Any:
        if f.name == "torch":
            return f.own.nn.functional.layer_norm(x, x.shape[-1:], g)
        d = x - f.xp.mean(x, axis=-1, keepdims=True)
        return d / f.xp.sqrt(f.xp.mean(d * d, axis=-1, keepdims=True) + 1e-5) * g

    def rms_norm(f: Facade, x: Any, g: Any) -> Any:
        return x / f.xp.sqrt(f.xp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * g

    def softmax(f: Facade, x: Any, g: Any) -> Any:
        if f.name == "torch":
            return f.own.softmax(x, -1) * g
        e = f.xp.exp(x - f.xp.max(x, axis=-1, keepdims=True))
        return e / f.xp.sum(e, axis=-1, keepdims=True) * g

    def log_softmax(f: Facade, x: Any, g: Any) -> Any:
        if f.name == "torch":
            return f.own.log_softmax(x, -1) * g
        d = x - f.xp.max(x, axis=-1, keepdims=True)
        return (d - f.xp.log(f.xp.sum(f.xp.exp(d), axis=-1, keepdims=True))) * g

    def group_norm(f: Facade, x: Any, g: Any) -> Any:
        """Of images with channels first, in 4 groups."""
        if f.name == "torch":
            return f.own.nn.functional.group_norm(x, 4, g)
        y = f.xp.reshape(x, (x.shape[0], 4, -1))
        d = y - f.xp.mean(y, axis=-1, keepdims=True)
        d = d / f.xp.sqrt(f.xp.mean(d * d, axis=-1, keepdims=True) + 1e-5)
        return f.xp.reshape(d, x.shape) * g[:, None, None]

    arguments = (Argument((n, m)), Argument((m,)))
    if name == "group_norm":
        c, side = 4 * length(r, 1, 16), length(r, 4, 28)
        arguments = (Argument((length(r, 1, 8), c, side, side)), Argument((c,)))
    g = {"layer_norm": layer_norm, "rms_norm": rms_norm, "softmax": softmax,
         "log_softmax": log_softmax, "group_norm": group_norm}[name]  # fmt: skip
    return gradient(Drawn(g, arguments, name)) if slope else Drawn(g, arguments, name)


def gradient(d: Drawn) -> Drawn:
    """The gradient of half the sum of squares of a case's results, to all its arguments."""

    def slope(f: Facade, *args: Any) -> Any:
        def half(*args: Any) -> Any:
            y = d.function(f, *args)
            return 0.5 * f.xp.sum(y * y)

        return f.grad(half, len(args))(*args)

    return Drawn(slope, d.arguments, f"gradient of {d.about}", loose=d.loose)


def scans(r: Random) -> Drawn:
    """Running sums, maxima and products, along any axis, forward and backward."""
    s = shape(r, 1 << 18)
    axis = int(r.integers(len(s)))
    name = some(r, "cumsum", "cummax", "cumprod", "cummin", "cumsum reversed", "linear recurrence")
    dtype = some(r, "float32", "float64", "int32", "int16")
    values = (0, 2) if dtype.startswith("int") else (0.5, 1.5)

    def run(f: Facade, x: Any) -> Any:
        if name == "cumsum":
            return f.xp.cumsum(x, axis)
        if name == "cumprod":
            return f.xp.cumprod(x, axis)
        if name == "cumsum reversed":
            return f.xp.flip(f.xp.cumsum(f.xp.flip(x, (axis,)), axis), (axis,))
        if f.traces:
            return getattr(f.lax, name)(x, axis)
        if f.name == "torch":
            return getattr(f.own, name)(x, axis)[0]
        return {"cummax": np.maximum, "cummin": np.minimum}[name].accumulate(x, axis)

    if name == "linear recurrence":
        n, m = length(r, 8, 2048), length(r, 1, 64)

        def pairs(p: Any, q: Any) -> Any:
            return p[0] * q[0], q[0] * p[1] + q[1]

        def recurrence(f: Facade, a: Any, b: Any) -> Any:
            f.only("tfn", "jax")
            return f.lax.associative_scan(pairs, (a, b))[1]

        arguments = Argument((n, m), values=(0.0, 1.0)), Argument((n, m))
        return Drawn(recurrence, arguments, name, {"numba": loops.recurrence})
    return Drawn(run, (Argument(s, dtype, values),), f"{name} axis {axis}")


def movement(r: Random) -> Drawn:
    """Reordering without arithmetic."""
    s = shape(r)
    n = len(s)
    axes = tuple(int(a) for a in r.permutation(n))
    k = int(r.integers(1, 9))
    name, f = some(
        r,
        (f"transpose {axes}", lambda f, x: f.xp.transpose(x, axes) * 1),
        ("concatenate", lambda f, x: f.xp.concatenate([x, x * 2, x], -1)),
        ("stack", lambda f, x: f.xp.stack([x, x + x], -1)),
        ("flip", lambda f, x: f.xp.flip(x, tuple(range(n))) + x),
        (f"roll {k}", lambda f, x: f.xp.roll(x, k, n - 1)),
        (f"pad {k}", lambda f, x: f.xp.pad(x, [(k, 1)] * n)),
        ("tile", lambda f, x: f.xp.tile(x, (k,))),
        ("repeat", lambda f, x: f.xp.repeat(x, k, 0)),
        ("every third", lambda f, x: x[..., ::3] + 1),
        ("difference", lambda f, x: x[..., 1:] - x[..., :-1]),
        ("tril", lambda f, x: f.xp.tril(x) if x.ndim > 1 else x + 1),
    )
    dtype = some(r, "float32", "float64", "uint8", "int16", "bfloat16")
    instead: dict[str, Any] = {"torch": None} if dtype == "bfloat16" and name == "tril" else {}
    return Drawn(f, (Argument(s, dtype),), name, instead)


def gathers(r: Random) -> Drawn:
    """Rows of tables, elements at indices, places in a sorted array."""
    n, m, k = length(r, 2, 5000), length(r, 1, 128), length(r, 1, 5000)
    dtype = some(r, "float32", "float64", "int8", "bfloat16")
    table, index = Argument((n, m), dtype), Argument((k,), "int32", (0, n))
    kind = some(r, "rows", "columns", "along", "searchsorted", "rows gradient")
    if kind == "rows":
        return Drawn(lambda f, x, i: f.take(x, i), (table, index), kind)
    if kind == "columns":
        return Drawn(lambda f, x, i: f.take(x, i, 1), (Argument((m, n), dtype), index), kind)
    if kind == "along":
        return Drawn(
            lambda f, x, i: f.xp.take_along_axis(x, i, 1),
            (table, Argument((n, 1 + m // 2), "int32", (0, m))),
            kind,
        )
    if kind == "rows gradient":
        return Drawn(
            lambda f, x, i: f.grad(lambda x: f.xp.sum(f.take(x, i) ** 2))(x),
            (Argument((n, m)), index),
            kind,
        )
    return Drawn(
        lambda f, a, v: f.xp.searchsorted(a, v),
        (Argument((n,), values="sorted"), Argument((k,))),
        kind,
    )


def scatters(r: Random) -> Drawn:
    """Sums at indices with collisions, histograms, segment sums, single elements set."""
    n, m, k = length(r, 2, 2000), length(r, 1, 64), length(r, 1, 20_000)
    kind = some(r, "add rows", "add elements", "histogram", "segment_max", "bincount", "set")
    index = Argument((k,), "int32", (0, n))
    if kind == "add rows":
        k = min(k, 1 << 18 // m)
        arguments = Argument((n, m)), Argument((k,), "int32", (0, n)), Argument((k, m))
        return Drawn(
            lambda f, x, i, v: f.add_at(x, i, v), arguments, kind, {"numba": loops.add_rows}
        )
    if kind == "add elements":
        arguments = Argument((n,)), index, Argument((k,))
        return Drawn(
            lambda f, x, i, v: f.add_at(x, i, v), arguments, kind, {"numba": loops.add_elements}
        )
    if kind == "histogram":
        return Drawn(
            lambda f, x: (
                f.own.histc(x, n, -4.0, 4.0)
                if f.name == "torch"
                else f.xp.histogram(x, n, (-4.0, 4.0))[0]
            ),
            (Argument((k,)),),
            f"{kind} of {n}",
            {"numba": lambda x: loops.histogram(x, n, -4.0, 4.0)},
            loose=True,
        )
    if kind == "segment_max":

        def largest(f: Facade, v: Any, i: Any) -> Any:
            if f.name == "torch":
                full = f.own.full((n, m), -np.inf)
                return full.index_reduce(0, i.long(), v, "amax")
            f.only("tfn", "jax")
            return f.own.ops.segment_max(v, i, n)

        k = min(k, 1 << 18 // m)
        arguments = Argument((k, m)), Argument((k,), "int32", (0, n))
        instead = {"numba": lambda v, i: loops.segment_max(v, i, n)}
        return Drawn(largest, arguments, kind, instead)
    if kind == "bincount":
        return Drawn(
            lambda f, i: f.xp.bincount(i, length=n) if f.traces else f.xp.bincount(i, minlength=n),
            (index,),
            f"{kind} of {n}",
        )

    def put(f: Facade, x: Any, i: Any, v: Any) -> Any:
        if f.traces:
            return x.at[i].set(v)
        y = x.clone() if f.name == "torch" else x.copy()
        y[i] = v
        return y

    k = min(k, n)
    index = Argument((k,), "int32", (0, n))
    return Drawn(put, (Argument((n, m)), index, Argument((m,))), kind)


def sorts(r: Random) -> Drawn:
    """Sorted rows, their order, their largest."""
    s = shape(r, 1 << 16)
    kind = some(r, "sort", "argsort", "top_k", "median", "sort axis 0")
    dtype = some(r, "float32", "float64", "int32", "int16", "uint8")
    if kind == "sort":
        return Drawn(lambda f, x: f.xp.sort(x), (Argument(s, dtype),), kind)
    if kind == "sort axis 0":
        return Drawn(lambda f, x: f.xp.sort(x, 0), (Argument(s, dtype),), kind)
    if kind == "argsort":
        return Drawn(lambda f, x: f.xp.argsort(x, -1), (Argument(s),), kind)
    if kind == "median":
        return Drawn(lambda f, x: f.xp.median(x, axis=-1), (Argument(s),), kind, {"torch": None})
    n, k = length(r, 16, 5000), int(r.integers(1, 11))

    def best(f: Facade, x: Any) -> Any:
        if f.traces:
            return f.lax.top_k(x, k)[0]
        f.only("torch")
        return f.own.topk(x, k)[0]

    return Drawn(best, (Argument((length(r, 1, 64), n)),), f"top {k}")


def products(r: Random) -> Drawn:
    """Matrix products: square, thin, tiny, batched, turned, of every dtype, with gradients."""
    kind = some(r, "square", "thin", "tiny", "batched", "batched tiny", "vector", "33", "long")
    n = length(r, 16, 400)
    batch: tuple[int, ...] = ()
    a, b, c = {
        "square": (n, n, n),
        "thin": (int(r.integers(1, 9)), length(r, 64, 2048), length(r, 64, 1024)),
        "tiny": tuple(int(v) for v in r.integers(1, 9, 3)),
        "batched": tuple(length(r, 8, 80) for _ in range(3)),
        "batched tiny": tuple(int(v) for v in r.integers(1, 9, 3)),
        "vector": (1, length(r, 16, 2048), length(r, 16, 2048)),
        "33": (33, 33, 33),
        "long": (int(r.integers(1, 17)), length(r, 2000, 50_000), int(r.integers(1, 17))),
    }[kind]
    if kind.startswith("batched"):
        batch = (length(r, 2, 32 if kind == "batched" else 5000),)
    turn = some(r, "", "", "a.T", "b.T")
    dtype = some(r, *FLOATS, "int8", "int32", "complex64")

    def product(f: Facade, x: Any, y: Any) -> Any:
        if turn == "a.T":
            x = f.xp.swapaxes(x, -1, -2)
        if turn == "b.T":
            y = f.xp.swapaxes(y, -1, -2)
        if dtype == "int8":  # summed in 32 bits
            if f.traces:
                dims = (((x.ndim - 1,), (y.ndim - 2,)), ((0,), (0,)) if batch else ((), ()))
                return f.lax.dot_general(x, y, dims, preferred_element_type="int32")
            if f.name == "torch" and not batch and x.shape[0] > 16:
                return f.own._int_mm(x, y)
            x, y = f.cast(x, "int32"), f.cast(y, "int32")
        return f.xp.matmul(x, y)

    first = (*batch, b, a) if turn == "a.T" else (*batch, a, b)
    second = (*batch, c, b) if turn == "b.T" else (*batch, b, c)
    values = (-5, 6) if dtype.startswith("int") else "normal"
    d = Drawn(product, (Argument(first, dtype, values), Argument(second, dtype, values)),
              f"{kind} {turn}")  # fmt: skip
    return gradient(d) if dtype in ("float32", "float64") and r.random() < 0.25 else d


def einsums(r: Random) -> Drawn:
    """Sums of products over named axes."""
    i, j, k, b = (length(r, 2, 48) for _ in range(4))
    sizes = {"i": i, "j": j, "k": k, "b": b, "d": 16}
    text = some(
        r,
        *("ij,jk->ki", "bij,bjk->bik", "bi,bj->ij", "bi,bij->bj", "bid,bjd->bij", "ijk->kj"),
        *("ij,ik->ijk", "bijd,bikd->bijk", "ii->i", "bij,ij->b", "ij,jk,kb->ib"),
    )
    words = text.split("->")[0].split(",")
    arguments = tuple(Argument(tuple(sizes[w] for w in word)) for word in words)
    return Drawn(lambda f, *args: f.xp.einsum(text, *args), arguments, text)


def convolutions(r: Random) -> Drawn:
    """One and two axes, strided, grouped by channel, with gradients; pooling."""
    kind = some(r, "1d", "1d", "2d", "depthwise", "strided", "pool", "signal")
    n, ci, co = length(r, 1, 8), length(r, 1, 48), length(r, 1, 48)
    if kind == "signal":
        size, taps = length(r, 64, 20_000), length(r, 2, 65)
        return Drawn(
            lambda f, x, w: f.xp.convolve(x, w),
            (Argument((size,)), Argument((taps,))),
            kind,
            {
                "torch": lambda f, x, w: f.own.nn.functional.conv1d(
                    x[None, None], f.own.flip(w, (0,))[None, None], padding=taps - 1
                )[0, 0]
            },
        )
    axes = 1 if kind == "1d" else 2
    side = length(r, 16, 1000) if axes == 1 else length(r, 8, 40)
    taps = int(r.choice([1, 3, 5])) if axes == 2 else int(r.integers(1, 10))
    stride = 2 if kind == "strided" else 1
    x = Argument((n, ci, *(side,) * axes))
    groups = ci if kind == "depthwise" else 1
    if kind == "pool":

        def pool(f: Facade, x: Any) -> Any:
            if f.name == "torch":
                return f.own.nn.functional.max_pool2d(x, 2)
            f.only("tfn", "jax")
            window = (1, 1, 2, 2)
            return f.lax.reduce_window(x, -np.inf, f.lax.max, window, window, "VALID")

        d = Drawn(pool, (x,), kind)
        return gradient(d) if r.random() < 0.4 else d
    w = Argument((ci if groups > 1 else co, 1 if groups > 1 else ci, *(taps,) * axes))

    def convolve(f: Facade, x: Any, w: Any) -> Any:
        if f.name == "torch":
            call = getattr(f.own.nn.functional, f"conv{axes}d")
            return call(x, w, stride=stride, padding=taps // 2, groups=groups)
        f.only("tfn", "jax")
        padding = [(taps // 2, taps // 2)] * axes
        return f.lax.conv_general_dilated(
            x, w, (stride,) * axes, padding, feature_group_count=groups
        )

    d = Drawn(convolve, (x, w), f"{kind}, {taps} taps")
    return gradient(d) if r.random() < 0.35 else d


def matrices(r: Random) -> Drawn:
    """Factorisations and systems, of single matrices and of stacks of small ones."""
    stacked = r.random() < 0.7
    n = int(r.integers(2, 33)) if stacked else length(r, 16, 128)
    batch = (length(r, 4, 1000),) if stacked else ()
    while np.prod(batch) * n**3 > 1 << 22:
        batch = (batch[0] // 2,)
    name = some(r, "cholesky", "inv", "det", "solve", "eigvalsh", "qr", "solve")
    dtype = some(r, "float32", "float64")
    a = Argument((*batch, n, n), dtype, "definite")
    if name == "solve":
        b = Argument((*batch, n, 2), dtype)
        return Drawn(lambda f, a, b: f.xp.linalg.solve(a, b), (a, b), name)
    if name == "qr":
        return Drawn(lambda f, a: f.xp.abs(f.xp.linalg.qr(a)[1]), (a,), name)
    return Drawn(lambda f, a: getattr(f.xp.linalg, name)(a), (a,), name)


def transforms(r: Random) -> Drawn:
    """Fourier transforms of all lengths."""
    n = length(r, 4, 2000)
    batch = (length(r, 1, 64),)
    name = some(r, "fft", "rfft", "ifft", "fft2")
    if name == "fft2":
        n, batch = length(r, 4, 100), (length(r, 1, 8), length(r, 4, 64))
    dtype = "float32" if name == "rfft" else some(r, "complex64", "complex128")
    return Drawn(lambda f, x: getattr(f.xp.fft, name)(x), (Argument((*batch, n), dtype),), name)


def attentions(r: Random) -> Drawn:
    """Attention: full, causal, windowed, one query; with gradients."""
    heads, n, d = int(r.integers(1, 9)), length(r, 8, 256), int(r.choice([8, 16, 32, 64, 40]))
    kind = some(r, "full", "causal", "windowed", "one query")
    queries = 1 if kind == "one query" else n
    i, j = np.arange(queries)[:, None], np.arange(n)[None, :]
    masks = {"causal": i >= j, "windowed": (i >= j) & (i - j < 16)}

    def attend(f: Facade, q: Any, k: Any, v: Any) -> Any:
        mask = f.array(masks[kind]) if kind in masks else None
        if f.name == "torch":
            call = f.own.nn.functional.scaled_dot_product_attention
            return call(q, k, v, mask if kind == "windowed" else None, is_causal=kind == "causal")
        scores = f.xp.matmul(q, f.xp.swapaxes(k, -1, -2)) * d**-0.5
        if mask is not None:
            scores = f.xp.where(mask, scores, -1e30)
        e = f.xp.exp(scores - f.xp.max(scores, axis=-1, keepdims=True))
        return f.xp.matmul(e / f.xp.sum(e, axis=-1, keepdims=True), v)

    key = Argument((heads, n, d))
    drawn = Drawn(attend, (Argument((heads, queries, d)), key, key), kind)
    return gradient(drawn) if r.random() < 0.4 else drawn


def stencils(r: Random) -> Drawn:
    """Neighbours on one, two and three axes, floats and small integers, several steps."""
    kind = some(r, "life", "heat 1d", "heat 2d", "heat 3d", "rule 110", "blur uint8", "erode")
    steps = int(r.choice([1, 1, 4, 10]))
    n, m = length(r, 16, 512), length(r, 16, 512)

    def life(f: Facade, x: Any) -> Any:
        roll = f.xp.roll
        rows = roll(x, 1, 0) + x + roll(x, -1, 0)
        total = roll(rows, 1, 1) + rows + roll(rows, -1, 1)
        return f.cast((total == 3) | ((total == 4) & (x == 1)), "uint8")

    def rule(f: Facade, x: Any) -> Any:
        left, right = f.xp.roll(x, 1, 0), f.xp.roll(x, -1, 0)
        return (x | right) & ~(left & x & right) & 1

    def heat(axes: int) -> Function:
        def step(f: Facade, x: Any) -> Any:
            around = sum(f.xp.roll(x, s, a) for a in range(axes) for s in (1, -1))
            return x + 0.1 * (around - 2 * axes * x)

        return step

    def blur(f: Facade, x: Any) -> Any:
        y = f.cast(x, "int16")
        rows = y[:-2] + 2 * y[1:-1] + y[2:]
        return f.cast((rows[:, :-2] + 2 * rows[:, 1:-1] + rows[:, 2:]) >> 4, "uint8")

    def erode(f: Facade, x: Any) -> Any:
        low = f.xp.minimum(f.xp.minimum(x[:-2], x[1:-1]), x[2:])
        return f.xp.minimum(f.xp.minimum(low[:, :-2], low[:, 1:-1]), low[:, 2:])

    if kind in ("blur uint8", "erode"):
        step = blur if kind == "blur uint8" else erode
        return Drawn(step, (Argument((n, m), "uint8", (0, 255)),), kind)
    one, sizes, dtype, name = {
        "life": (life, (n, m), "uint8", "life"),
        "rule 110": (rule, (n * 16,), "uint8", "rule110"),
        "heat 1d": (heat(1), (n * 64,), "float32", "heat1"),
        "heat 2d": (heat(2), (n, m), "float32", "heat2"),
        "heat 3d": (heat(3), (n // 8 + 2, n // 8 + 2, m // 8 + 2), "float32", "heat3"),
    }[kind]
    values: Any = (0, 2) if dtype == "uint8" else "normal"
    return Drawn(
        lambda f, x: f.repeat(steps, lambda x: one(f, x), x),
        (Argument(sizes, dtype, values),),
        f"{kind}, {steps} steps",
        {"numba": lambda x: getattr(loops, name)(x, steps)},
    )


def pairs(r: Random) -> Drawn:
    """All pairs of points: distances, kernels, forces, nearest neighbours."""
    n, m, d = length(r, 8, 400), length(r, 8, 400), int(r.choice([1, 2, 3, 8, 16]))
    kind = some(r, "distances", "gaussian sum", "forces", "nearest", "manhattan")

    def run(f: Facade, x: Any, y: Any) -> Any:
        xp = f.xp
        apart = x[:, None, :] - y[None, :, :]
        if kind == "manhattan":
            return xp.sum(xp.abs(apart), axis=-1)
        squares = xp.sum(apart * apart, axis=-1)
        if kind == "distances":
            return xp.sqrt(squares)
        if kind == "gaussian sum":
            return xp.sum(xp.exp(-0.5 * squares), axis=1)
        if kind == "nearest":
            return xp.argmin(squares, axis=1)
        return xp.sum(apart / ((squares + 0.01) ** 1.5)[:, :, None], axis=1)

    name = {"gaussian sum": "gaussian"}.get(kind, kind)
    instead = {"numba": getattr(loops, name)}
    return Drawn(run, (Argument((n, d)), Argument((m, d))), kind, instead, loose=kind == "nearest")


def batched_loops(r: Random) -> Drawn:
    """A loop with a test, for each of a batch."""
    n = length(r, 4, 4096)
    kind = some(r, "newton", "collatz", "escape")

    def run(f: Facade, x: Any) -> Any:
        f.only("tfn", "jax")
        lax, xp = f.lax, f.xp

        def newton(a: Any) -> Any:
            return lax.while_loop(
                lambda s: xp.abs(s * s - a) > 1e-4 * a, lambda s: 0.5 * (s + a / s), a
            )

        def collatz(a: Any) -> Any:
            return lax.while_loop(
                lambda s: s[0] > 1,
                lambda s: (xp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1),
                (a, xp.int32(0)),
            )[1]

        def escape(c: Any) -> Any:
            return lax.while_loop(
                lambda s: (s[0] * s[0] + s[1] * s[1] < 4) & (s[2] < 100),
                lambda s: (s[0] * s[0] - s[1] * s[1] + c, 2 * s[0] * s[1] + 0.4, s[2] + 1),
                (c * 0, c * 0, xp.int32(0)),
            )[2]

        return f.vmap({"newton": newton, "collatz": collatz, "escape": escape}[kind])(x)

    x = Argument((n,), "int32", (1, 1000)) if kind == "collatz" else Argument((n,), "float32",
        (0.5, 100.0) if kind == "newton" else (-2.0, 1.0))  # fmt: skip
    return Drawn(run, (x,), kind, {"numba": getattr(loops, kind)})


def many_arrays(r: Random) -> Drawn:
    """One Adam step of many small arrays."""
    count, n = length(r, 8, 120), length(r, 1, 300)

    def step(f: Facade, *args: Any) -> Any:
        p, g, m, v = (args[i * count : (i + 1) * count] for i in range(4))
        m = [0.9 * a + 0.1 * b for a, b in zip(m, g)]
        v = [0.99 * a + 0.01 * b * b for a, b in zip(v, g)]
        return [a - 0.01 * b / (f.xp.sqrt(c) + 1e-8) for a, b, c in zip(p, m, v)], m, v

    arguments = (Argument((n,), values="positive"),) * (4 * count)
    return Drawn(step, arguments, f"Adam, {count} arrays")


def experts(r: Random) -> Drawn:
    """A mixture of experts: dense, or with tokens grouped by expert."""
    e, t, d, h = int(r.choice([2, 4, 8])), length(r, 8, 256), length(r, 8, 64), length(r, 16, 128)
    if r.random() < 0.5:

        def dense(f: Facade, x: Any, gate: Any, w: Any) -> Any:
            s = f.xp.exp(f.xp.matmul(x, gate))
            s = s / f.xp.sum(s, axis=-1, keepdims=True)
            y = f.xp.maximum(f.xp.einsum("td,edh->teh", x, w), 0.0)
            return f.xp.einsum("te,teh->th", s, y)

        return Drawn(dense, (Argument((t, d)), Argument((d, e)), Argument((e, d, h))), "dense")
    sizes = np.bincount(r.integers(0, e, t), minlength=e).astype(np.int32)

    def ragged(f: Facade, x: Any, w: Any) -> Any:
        if f.traces:
            return f.lax.ragged_dot(x, w, f.array(sizes))
        ends = np.cumsum(sizes)
        rows = [x[b - s : b] @ w[i] for i, (s, b) in enumerate(zip(sizes, ends))]
        return f.xp.concatenate(rows, 0)

    return Drawn(ragged, (Argument((t, d)), Argument((e, d, h))), "ragged")


def losses(r: Random) -> Drawn:
    """Losses and their gradients."""
    n, m = length(r, 4, 1024), length(r, 2, 1000)
    kind = some(r, "cross entropy", "huber", "logistic")

    def loss(f: Facade, x: Any, y: Any) -> Any:
        xp = f.xp
        if kind == "huber":
            a = xp.abs(x[:, 0] - f.cast(y, "float32"))
            return xp.mean(xp.where(a < 1, 0.5 * a * a, a - 0.5))
        if kind == "logistic":
            return xp.mean(xp.log1p(xp.exp(-xp.abs(x))) + xp.maximum(x, 0.0))
        d = x - xp.max(x, axis=-1, keepdims=True)
        ls = d - xp.log(xp.sum(xp.exp(d), axis=-1, keepdims=True))
        return -xp.mean(xp.take_along_axis(ls, y[:, None], 1))

    slope = bool(r.random() < 0.6)
    f: Function = (lambda f, x, y: f.grad(lambda x: loss(f, x, y))(x)) if slope else loss
    arguments = Argument((n, m)), Argument((n,), "int32", (0, m))
    return Drawn(f, arguments, ("gradient of " if slope else "") + kind)


# fmt: off
OPERATIONS: dict[str, tuple[int, Callable[[Random], Drawn]]] = {
    "unary": (40, unary), "binary": (30, binary), "integers": (30, integers),
    "booleans": (14, booleans), "complex": (18, complexes), "casts": (20, casts),
    "reductions": (60, reductions), "normalisations": (30, normalisations), "scans": (24, scans),
    "movement": (36, movement), "gathers": (24, gathers), "scatters": (26, scatters),
    "sorts": (16, sorts), "products": (56, products), "einsums": (16, einsums),
    "convolutions": (28, convolutions), "matrices": (14, matrices), "transforms": (8, transforms),
    "attentions": (16, attentions), "stencils": (20, stencils), "pairs": (16, pairs),
    "loops": (10, batched_loops), "many": (6, many_arrays), "experts": (8, experts),
    "losses": (12, losses),
}
# fmt: on
"""The share of each operation in 578 cases, and how one is drawn."""
