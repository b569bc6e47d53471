"""Running error analysis: each value of a program with a bound of its rounding error.

A value is *exact* if every correct device gives the same bits: inputs, movement, integers, truths,
and comparisons, minima and negation of those.  All other values are *rounded*.  Their error is
measured, not proved: a line is evaluated by the oracle in the dtypes of the program, then in
float64 on the same operands, then in float64 on operands that are moved at random by their errors
(Monte Carlo arithmetic).

    error = |moved - wide| + |narrow - wide| + one unit in the last place

A line that multiplies errors too much, overflows, or has NaN and infinities at other places once
its operands are moved is no line that two devices must agree on: it raises Unfit, and the writer
draws another.  A line that is well conditioned, and for which the oracle is far from float64, is a
mistake of the oracle or of the function, and raises Disagreement.

Source: D. S. Parker, Monte Carlo Arithmetic, UCLA 1997.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType
from typing import Any
from warnings import catch_warnings

import ml_dtypes
import numpy as np

import tfn
import tfn.lax as lax
import tfn.nn as nn
import tfn.numpy as tnp
from tfn.config import config

Numbers = np.ndarray[Any, Any]

BOOL = ("bool",)
SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64", "float16", "bfloat16")
COMPLEX = ("complex64", "complex128")
DTYPES = (*BOOL, *SIGNED, *UNSIGNED, *FLOATS, *COMPLEX)

LIMIT = {"float16": 60.0, "bfloat16": 1e4, "float32": 1e4, "float64": 1e8, "complex64": 1e3}
"""Largest magnitude of a rounded value: its square, summed over an array, must not overflow."""

LARGEST, MAX_AXES = 10_000, 5
"""Elements and axes of a value, at most."""

MAX_RELATIVE_ERROR = 0.1
"""A value with a larger error, relative to the largest number beside it and 0.1, tells nothing."""

LINE_FACTOR = 32.0
"""A line may err by so many times what moving its operands by one unit in the last place does."""

TERMS_PER_ERROR = 64
"""A sum of so many terms may err by as much again: half a unit each, if all round the same way."""

PROGRAM_FACTOR = 16.0
"""A program may err by so many times the error that its lines gather."""


class Skip(Exception):
    """A step that finds no operands."""


class Unfit(Exception):
    """A line whose result depends on rounding too much to be compared."""


class Disagreement(AssertionError):
    """Two ways to compute one value differ by more than rounding explains."""


@dataclass(frozen=True)
class Value:
    """Numbers by the oracle; `error` bounds them elementwise, and is None if they are exact."""

    numbers: Numbers
    error: Numbers | None = None
    weak: bool = False
    """Whether its dtype gives way to others: a line that reads its numbers would not know."""

    @property
    def exact(self) -> bool:
        return self.error is None

    @property
    def dtype(self) -> str:
        return self.numbers.dtype.name

    @property
    def shape(self) -> tuple[int, ...]:
        return self.numbers.shape

    @property
    def ndim(self) -> int:
        return self.numbers.ndim


def has_both_zeros(values: Sequence[Value]) -> bool:
    """Whether there are 0.0 and -0.0."""
    signs: set[bool] = set()
    for value in values:
        if value.numbers.dtype.name in FLOATS:
            x = widened(value.numbers)
            signs |= set(np.signbit(x[x == 0]).tolist())
    return len(signs) > 1


@contextmanager
def device(name: str) -> Iterator[None]:
    """Another default device."""
    before = config.device
    config.device = name
    try:
        yield
    finally:
        config.device = before


@contextmanager
def devices(count: int) -> Iterator[None]:
    """As many CPU devices in this process."""
    before = config.devices
    config.devices = max(before, count)
    try:
        yield
    finally:
        config.devices = before


NARROW: dict[str, Any] = {name: getattr(tnp, name) for name in DTYPES} | {
    "bool": tnp.bool_, "xp": tnp, "lax": lax, "tfn": tfn, "nn": nn, "np": np,
}  # fmt: skip
"""Names that the source of a program uses."""

_WIDER = {name: "complex128" if name in COMPLEX else "float64" for name in (*FLOATS, *COMPLEX)}
WIDE: dict[str, Any] = NARROW | {name: getattr(tnp, wide) for name, wide in _WIDER.items()}
WIDE_NUMPY: dict[str, Any] = {name: np.dtype(_WIDER.get(name, name)) for name in DTYPES} | {
    "xp": np,
    "np": np,
}


@lru_cache(maxsize=256)
def compiled(source: str) -> CodeType:
    """The code of a line."""
    return compile(source, "<program>", "exec")


_IDENTIFIER = re.compile(r"\b[a-z]\d*\b")


def operands(source: str, values: Mapping[str, Value]) -> list[str]:
    """Names of values that a line reads."""
    return [name for name in dict.fromkeys(_IDENTIFIER.findall(source)) if name in values]


def widened(x: Numbers) -> Numbers:
    """Floats as float64, complex numbers as complex128."""
    wide = _WIDER.get(x.dtype.name)
    return x if wide is None else x.astype(wide)


def is_inexact(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype rounds."""
    return dtype.name in _WIDER


@lru_cache
def precision(dtype: str) -> tuple[float, float]:
    """Unit in the last place of 1, and the smallest number above 0."""
    info = ml_dtypes.finfo({"complex64": "float32", "complex128": "float64"}.get(dtype, dtype))
    return float(info.eps), float(info.smallest_subnormal)


def _run(source: str, names: Sequence[str], scope: dict[str, Any]) -> list[Numbers]:
    """Values of the names after a line, as NumPy arrays."""
    exec(compiled(source), scope)
    return [np.asarray(scope[name]) for name in names]


def narrow(source: str, names: Sequence[str], values: Mapping[str, Value]) -> list[Value]:
    """A line by the oracle, without errors."""
    with device("python"):
        reads = {name: tnp.asarray(values[name].numbers) for name in operands(source, values)}
        scope = NARROW | reads
        numbers = _run(source, names, scope)
        return [Value(x, weak=scope[name].weak_type) for name, x in zip(names, numbers)]


def wide(
    source: str, names: Sequence[str], samples: Sequence[Mapping[str, Numbers]], by_numpy: bool
) -> list[list[Numbers]]:
    """A line in float64 on each of several samples, by NumPy or by the oracle."""
    if by_numpy:
        with catch_warnings(action="ignore"):  # means of nothing, and their like
            return [_run(source, names, WIDE_NUMPY | dict(reads)) for reads in samples]

    def line(reads: dict[str, Any]) -> list[Any]:
        scope = WIDE | reads
        exec(compiled(source), scope)
        return [scope[name] for name in names]

    with device("python"):
        traced = tfn.jit(line)  # once for all samples
        results = [traced({k: tnp.asarray(v) for k, v in reads.items()}) for reads in samples]
        return [[np.asarray(x) for x in result] for result in results]


def _moved(
    reads: Mapping[str, Value], random: np.random.Generator, ulp: float
) -> list[dict[str, Numbers]]:
    """Operands moved by their errors, or by one unit in the last place, in two ways.

    In the second the first operand goes the other way: so no two errors cancel in both.
    """
    rounding = [name for name, value in reads.items() if is_inexact(value.numbers.dtype)]
    steps = {}
    for name in rounding:
        value = reads[name]
        size = max(ulp, precision(value.dtype)[0]) * np.abs(widened(value.numbers))
        if value.error is not None:
            size = np.maximum(size, value.error)
        directions = [1 + 1j, 1 - 1j, -1 + 1j, -1 - 1j] if value.dtype in COMPLEX else [-1.0, 1.0]
        steps[name] = size * random.choice(np.array(directions), value.shape)
    ways = []
    for turn in (1, -1):
        way = {name: widened(value.numbers) for name, value in reads.items()}
        for name in rounding:
            x, step = way[name], steps[name] * (turn if name == rounding[0] else 1)
            way[name] = np.where(np.isfinite(x), x + step * random.uniform(0.5, 1, x.shape), x)
        ways.append(way)
    return ways


MOVES, MOVES_OF_DOUBT, LARGEST_MOVE_ULPS = 2, 24, 8
"""So often operands of functions are moved in their own dtypes, and before the oracle is called
wrong; by so much, as digamma errs by up to 6 ulp."""


def _wavering(
    source: str,
    names: Sequence[str],
    reads: Mapping[str, Value],
    results: Sequence[Value],
    random: np.random.Generator,
    moves: int,
) -> list[Numbers]:
    """How much results change when operands move a little in their own dtypes.

    Rounding inside a function is not seen when its operands are moved in float64: near a pole of a
    later step it may decide about all digits.
    """
    spread = [np.zeros(value.shape) for value in results]
    for _ in range(moves):
        moved = {}
        for name, value in reads.items():
            x = value.numbers
            if is_inexact(x.dtype):
                ulps = random.integers(-LARGEST_MOVE_ULPS, LARGEST_MOVE_ULPS + 1, x.shape)
                x = (widened(x) * (1 + precision(value.dtype)[0] * ulps)).astype(x.dtype)
            moved[name] = Value(np.asarray(x))  # NumPy makes a number of an array without axes
        for at, value in enumerate(narrow(source, names, moved)):
            if is_inexact(value.numbers.dtype) and value.shape == spread[at].shape:
                if not np.array_equal(_places(value.numbers), _places(results[at].numbers)):
                    raise Unfit
                change = np.abs(widened(value.numbers) - widened(results[at].numbers))
                spread[at] = np.fmax(spread[at], np.where(np.isfinite(change), change, 0))
    return spread


def _places(x: Numbers) -> Numbers:
    """0 where a number is finite, others where it is NaN or infinite."""
    if x.dtype.kind == "c":
        return _places(x.real) * 4 + _places(x.imag)
    return np.where(np.isnan(x), 3, np.where(np.isinf(x), np.where(x > 0, 1, 2), 0))


def evaluate(
    source: str,
    names: Sequence[str],
    values: Mapping[str, Value],
    exact: bool,
    by_numpy: bool,
    ulp: float = 0.0,
) -> list[Value]:
    """Values of the names that a line defines.

    Args:
        exact: the bits must be the same in all ways.
        by_numpy: NumPy evaluates the line in float64; else the oracle does.
        ulp: unit in the last place of the coarsest dtype inside the functions of the line, or 0.

    Raises:
        Unfit: the line is ill conditioned on these operands, or a value is too large.
        Disagreement: the oracle is wrong.
    """
    with np.errstate(all="ignore"):
        results = narrow(source, names, values)
        if any(value.numbers.size > LARGEST or value.ndim > MAX_AXES for value in results):
            raise Unfit
        reads = {name: values[name] for name in operands(source, values)}
        if exact:
            if by_numpy:
                inputs = {name: widened(value.numbers) for name, value in reads.items()}
                for value, w in zip(results, wide(source, names, [inputs], True)[0]):
                    x = widened(value.numbers)
                    require_same(x, w.astype(x.dtype), "oracle and NumPy")
            return results
        for value in reads.values():
            if is_inexact(value.numbers.dtype):
                _require_moderate(widened(value.numbers), value.dtype)
                if ulp:
                    _require_normal(widened(value.numbers), value.dtype)
                if _PRODUCTS.search(source):
                    _require_normal_products(widened(value.numbers), value.dtype)
        _require_no_overflow(reads.values(), results)
        inputs = {name: widened(value.numbers) for name, value in reads.items()}
        terms = max((x.size for x in inputs.values()), default=0) if _SUMS.search(source) else 0
        is_normwise = "linalg" in source
        random = np.random.default_rng(zlib.crc32(source.encode()))
        references, *near = wide(source, names, [inputs, *_moved(reads, random, ulp)], by_numpy)
        if ulp and _SINGULAR.search(source):
            _require_same_poles(results, references)
        hidden = [_hidden_terms(inputs.values(), value.shape) for value in results]
        wavering = [np.zeros(value.shape) for value in results]
        for moves in (MOVES, MOVES_OF_DOUBT):
            if ulp:
                wavering = _wavering(source, names, reads, results, random, moves)
            try:
                return [
                    _bounded(value, reference, samples, terms, ulp, size, more, is_normwise)
                    for value, reference, size, more, *samples in zip(
                        results, references, hidden, wavering, *near, strict=True
                    )
                ]
            except Disagreement:
                if not ulp or moves == MOVES_OF_DOUBT:
                    raise
    raise AssertionError("the last of the moves returns or raises")


def _largest(x: Numbers) -> float:
    finite = np.abs(x[np.isfinite(x)])
    return float(finite.max(initial=0))


def _hidden_terms(operands: Iterable[Numbers], shape: tuple[int, ...]) -> Numbers:
    """The size of terms that may cancel inside a function: unknown, about that of the operands.

    Derivatives of logarithms and quotients have terms as large as inverses of their operands.
    """
    size = np.ones(shape)
    for x in operands:
        magnitude = np.abs(x)
        size += _largest(x)
        if x.shape == shape and x.dtype.kind in "fc":
            size += np.where((magnitude > 0) & np.isfinite(magnitude), 1 / magnitude, 0)
    return size


_SINGULAR = re.compile(
    r"/|\b(log\w*|tan|divide|reciprocal|power|rsqrt|arctanh|arccosh|lgamma|digamma|erf_inv)\b"
)
"""Functions that are infinite at some finite operand."""


def _require_same_poles(results: Sequence[Value], references: Sequence[Numbers]) -> None:
    """Inside a function an operand may be rounded to where the next step has no finite value."""
    for value, reference in zip(results, references):
        if not is_inexact(value.numbers.dtype) or value.shape != reference.shape:
            continue
        if np.any(~np.isfinite(widened(value.numbers)) & np.isfinite(reference)):
            raise Unfit


def _require_moderate(x: Numbers, dtype: str) -> None:
    if _largest(x) > LIMIT.get(dtype, 1e8):
        raise Unfit


def _require_no_overflow(operands: Iterable[Value], results: Iterable[Value]) -> None:
    """Integers that are infinite in a dtype of a result tell nothing: 0 times them is NaN."""
    largest = max(
        (_largest(x.numbers.astype(np.float64)) for x in operands if x.numbers.dtype.kind in "iu"),
        default=0.0,
    )
    floats = [x.dtype for x in results if x.dtype in FLOATS]
    if any(largest > float(ml_dtypes.finfo(dtype).max) for dtype in floats):
        raise Unfit


def _require_normal(x: Numbers, dtype: str) -> None:
    """Derivatives divide, so what they compute from denormal numbers overflows."""
    size = np.abs(x)
    if np.any((size > 0) & (size < precision(dtype)[1] / precision(dtype)[0])):
        raise Unfit


_PRODUCTS = re.compile(r"\b(prod|cumprod|multiply|scatter_mul)\b")
"""Functions that multiply many numbers of one operand, in an order of their own."""


_SUMS = re.compile(
    r"@|\b(\w*sum\w*|mean|var|std|dot|vecdot|tensordot|matmul|einsum|conv\w*|softmax|linalg|fft|add"
    r"|scatter_add|\w*attention|reduce_window\w*)\b"
)
"""Functions that may add up as many terms as an operand has elements, one after the other."""


def _require_normal_products(x: Numbers, dtype: str) -> None:
    """No product of some of the numbers overflows or is denormal: it may stand in the middle."""
    powers = np.log2(np.abs(x[np.isfinite(x) & (x != 0)]))
    info = ml_dtypes.finfo({"complex64": "float32", "complex128": "float64"}.get(dtype, dtype))
    if powers[powers > 0].sum() >= info.maxexp - 1 or powers[powers < 0].sum() <= info.minexp + 1:
        raise Unfit


def _bounded(
    value: Value,
    reference: Numbers,
    samples: Sequence[Numbers],
    terms: int,
    ulp: float,
    hidden: Numbers,
    wavering: Numbers,
    is_normwise: bool,
) -> Value:
    """A value with the error that samples of moved operands show.

    Sums of so many terms err by more; so do functions inside the line, whose terms are `hidden`,
    and whose rounding the `wavering` of results shows.  Factors of matrices err by a share of their
    norms: small elements are differences of large ones.
    """
    x = value.numbers
    if not is_inexact(x.dtype):
        if any(not np.array_equal(x, sample) for sample in (reference, *samples)):
            raise Unfit
        return value
    if x.shape != reference.shape:
        raise Disagreement(f"oracle and float64: shapes {x.shape} and {reference.shape}")
    if x.dtype.kind != "c" and reference.dtype.kind == "c":
        raise Disagreement(f"oracle and float64: {x.dtype} and {reference.dtype}")
    places = _places(reference)
    if any(not np.array_equal(places, _places(sample)) for sample in samples):
        raise Unfit
    _require_moderate(reference, x.dtype.name)
    got = widened(x)
    last, least = precision(x.dtype.name)
    finite = places == 0
    zero = np.zeros(x.shape)
    spread = zero
    for sample in samples:
        spread = np.maximum(spread, np.where(finite, np.abs(sample - reference), 0))
    # Random signs may cancel at one element: its neighbours say how much they do on average.
    if spread[finite].size:
        spread = np.maximum(spread, np.median(spread[finite]))
    size = np.where(finite, np.abs(reference), 0)
    if is_normwise:
        size = np.max(size, initial=0)
    own = last * (1 + terms / TERMS_PER_ERROR) * size + 4 * least
    if ulp:
        own = own + ulp * (hidden + np.max(np.abs(reference[finite]), initial=0)) + wavering
    if not np.array_equal(places, _places(got)):
        raise Disagreement(
            "oracle and float64: NaN or infinities at other places"
            + shown(got, reference, places != _places(got))
        )
    off = np.where(finite, np.abs(got - reference), 0)
    tolerance = LINE_FACTOR * (spread + own)
    if np.any(off > tolerance):
        raise Disagreement("oracle and float64 differ" + shown(got, reference, off > tolerance))
    error = 2 * spread + 2 * own + off
    largest = np.max(np.abs(reference[finite]), initial=0)
    if np.any(error > MAX_RELATIVE_ERROR * max(largest, 0.1)):
        raise Unfit
    return Value(x, error, value.weak)


def shown(got: Numbers, expected: Numbers, where: Numbers) -> str:
    """Numbers that differ, the first few."""
    first = np.argwhere(where)[:3].tolist()
    pairs = ", ".join(f"{got[tuple(i)]!r} for {expected[tuple(i)]!r} at {i}" for i in first)
    return f" at {int(np.sum(where))} of {where.size}: {pairs}"


def require_same(got: Numbers, expected: Numbers, ways: str) -> None:
    """Raise Disagreement unless the bits are the same; one NaN is as good as another."""
    if got.shape != expected.shape or got.dtype != expected.dtype:
        raise Disagreement(
            f"{ways}: {got.dtype}{list(got.shape)} and {expected.dtype}{list(expected.shape)}"
        )
    wide_got, wide_expected = widened(got), widened(expected)
    parts = [(wide_got, wide_expected)]
    if wide_got.dtype.kind == "c":
        parts = [(wide_got.real, wide_expected.real), (wide_got.imag, wide_expected.imag)]
    for a, b in parts:
        same = (a == b) | ((a != a) & (b != b))
        if a.dtype.kind == "f":
            same &= (np.signbit(a) == np.signbit(b)) | (a != a)
        if not np.all(same):
            raise Disagreement(f"{ways} differ" + shown(a, b, ~same))


def require_close(got: Any, value: Value, ways: str) -> None:
    """Raise Disagreement unless an array is a value, up to its error."""
    got = np.asarray(got)
    if value.error is None:
        require_same(got, value.numbers, ways)
        return
    if got.shape != value.shape or got.dtype != value.numbers.dtype:
        raise Disagreement(
            f"{ways}: {got.dtype}{list(got.shape)} and {value.dtype}{list(value.shape)}"
        )
    with np.errstate(all="ignore"):
        a, b = widened(got), widened(value.numbers)
        places = _places(b)
        wrong = places != _places(a)
        wrong |= (places == 0) & (np.abs(a - b) > PROGRAM_FACTOR * value.error)
    if np.any(wrong):
        raise Disagreement(f"{ways} differ" + shown(a, b, wrong))
