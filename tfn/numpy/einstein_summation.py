"""Einstein summation: einsum, and the order in which its operands are contracted."""

from __future__ import annotations

import operator
import string
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tfn._support.validate import no_out, shown
from tfn.array import Array, ArrayLike
from tfn.dtypes import BOOL, DType, DTypeLike, canonical
from tfn.eager.operands import apply, array_of, together
from tfn.errors import ArgumentError, ShapeError
from tfn.numpy.contraction import Numbers, contract, is_tf32
from tfn.numpy.creation import resolved
from tfn.trace import build
from tfn.trace.build import add_up, cast, expand, permute, reshape
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp

Subscripts = str | ArrayLike
"""Text, or the first operand, before its sublist."""


def einsum_path(
    subscripts: Subscripts, /, *operands: ArrayLike | Sequence[Any], optimize: Any = "auto"
) -> tuple[list[tuple[int, ...]], str]:
    """The order in which operands of `einsum` are contracted, and a table of it.

    `einsum` finds an order of its own; this is NumPy's.

    Args:
        subscripts: the letters of each operand and of the result, or sublists, as of `einsum`.
        *operands: arrays or numbers, of which only the shapes count.
        optimize: "auto" or "greedy", "optimal", False for all at once, or a path.

    Returns:
        The places of the operands of each step, results coming last, and a text.

    Raises:
        ArgumentError: for subscripts that do not fit the operands.

    Example:
        >>> import numpy as np
        >>> x = np.ones((2, 2))
        >>> einsum_path("ij,jk,kl", x, x, x)[0]
        [(0, 1), (0, 1)]
    """
    subscripts, operands = as_text("einsum_path", subscripts, operands)
    shapes = [array_of("einsum_path", x).shape for x in operands]
    known = [np.broadcast_to(np.float32(0), shape) for shape in shapes]
    chosen = "greedy" if optimize in ("auto", True) else optimize
    if isinstance(chosen, list):
        chosen = ["einsum_path", *chosen]
    try:
        path, text = np.einsum_path(subscripts, *known, optimize=chosen)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            "einsum_path needs subscripts that fit the operands",
            got=f"{subscripts!r} of shapes {shapes}: {error}",
        ) from None
    return [tuple(step) for step in path[1:]], text


def einsum(
    subscripts: Subscripts,
    /,
    *operands: ArrayLike | Sequence[Any],
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
    optimize: object = None,
    out_sharding: Any = None,
    out: None = None,
) -> Array:
    """The sum of products in Einstein's notation, such as ``"bij,bjk->bik"``.

    A letter names an axis; letters missing after the arrow are summed over; ``...`` stands for axes
    that are broadcast. Several operands are contracted in an order that keeps the intermediate
    results small.

    Args:
        subscripts: the letters of each operand, commas between, an arrow, and those of the result;
            without an arrow those that occur once, in alphabetical order.  Or no text, but after
            each operand a sublist of its axes, numbers from 0 to 51 or ``...``, and last, if it
            is not to follow from them, that of the result.
        *operands: arrays or numbers, one for each term.
        precision: "tensorfloat32" rounds factors of float32 to 10 bits of mantissa, with which GPUs
            multiply them on matrix units; all others of JAX are accepted, and exact.
        preferred_element_type: dtype of the result, in which products are added up; None takes the
            one that the operands promote to.
        optimize: accepted as in NumPy, and changes nothing.
        out_sharding: the sharding of the result, or its `PartitionSpec` over the mesh that is set;
            None leaves it to the compiler.
        out: None, for NumPy's calls of it: an array never changes.

    Returns:
        An array with the axes after the arrow.

    Raises:
        ArgumentError: for subscripts that do not fit the operands.
        ShapeError: if axes of one letter differ in size.

    Example:
        >>> import numpy as np
        >>> einsum("ij->i", np.ones((2, 3), np.float32))
        Array([3., 3.], dtype=float32)
        >>> einsum(np.ones((2, 3), np.float32), [0, 1], np.ones(3, np.float32), [1], [0])
        Array([3., 3.], dtype=float32)
    """
    no_out("einsum", out)
    subscripts, operands = as_text("einsum", subscripts, operands)
    if out_sharding is not None:
        return resolved(
            out_sharding,
            lambda: einsum(
                subscripts,
                *operands,
                precision=precision,
                preferred_element_type=preferred_element_type,
            ),
        )
    if not operands:
        raise ArgumentError(
            "einsum needs at least one operand",
            got=f"subscripts={subscripts!r}",
            hint="pass an array for each term",
        )
    arrays, dtype, weak = together("einsum", *operands)
    names, letters = _letters(subscripts.replace(" ", ""), tuple(x.ndim for x in arrays))
    _sizes(subscripts, names, [x.shape for x in arrays])
    result_dtype = dtype if preferred_element_type is None else canonical(preferred_element_type)
    path = _path(names, letters, tuple(x.shape for x in arrays))
    weak = weak and preferred_element_type is None
    static = dtype, result_dtype, names, letters, path, is_tf32(precision)
    return apply(_einsum, arrays, *static, weak=weak)


def as_text(function: str, subscripts: Any, operands: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    """The subscripts of a call as text, and its operands without their sublists.

    Args:
        function: the name of the function called, for errors.
        subscripts, operands: as of `einsum`, with text or with sublists.

    Raises:
        ArgumentError: for sublists that are none.

    Example:
        >>> as_text("einsum", 5, [[1, 0], 6, [..., 0], [1, ...]])
        ('ba,...a->b...', (5, 6))
    """
    if isinstance(subscripts, str):
        return subscripts, tuple(operands)
    given = (subscripts, *operands)
    pairs = len(given) // 2 * 2
    if len(given) < 2 or not isinstance(given[1], list | tuple | range | np.ndarray):
        raise ArgumentError(
            f"{function} needs its subscripts as text",
            got=shown(subscripts),
            hint=f"write {function}('ij,jk->ik', x, y)",
        )
    terms = [_term(function, sublist) for sublist in given[1:pairs:2]]
    if len(given) > pairs:
        out = _term(function, given[-1])
    else:
        every = "".join(terms)
        out = "..." * ("..." in every)
        out += "".join(c for c in string.ascii_letters if every.count(c) == 1)
    return ",".join(terms) + "->" + out, given[:pairs:2]


def _term(function: str, sublist: Any) -> str:
    """The letters of a sublist."""
    letters = dict(enumerate(string.ascii_letters))
    try:
        if any(isinstance(axis, bool) for axis in sublist):
            raise TypeError
        return "".join("..." if c is ... else letters[operator.index(c)] for c in sublist)
    except (TypeError, KeyError):
        raise ArgumentError(
            f"{function} needs a sublist of axes after each operand, and last that of the result",
            got=shown(sublist),
            hint=f"numbers from 0 to 51, or ..., as in {function}(x, [0, 1], y, [1, 2], [0, 2])",
        ) from None


# One private character for each axis under `...`, the last of them the last one used.
_DOTS = "".join(map(chr, range(0xE000, 0xE000 + 64)))

_NO_LABELS = {*_DOTS, *".->"}


@lru_cache(maxsize=1024)
def _letters(subscripts: str, ndims: Numbers) -> tuple[tuple[str, ...], str]:
    """The axes of each operand and of the result, a character for each; `_DOTS` for ``...``."""
    inputs, arrow, output = subscripts.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(ndims):
        raise ArgumentError(
            f"einsum {subscripts!r} names {len(terms)} operands",
            got=f"{len(ndims)} operands",
            hint="write a term for each operand, between commas",
        )
    hidden = [n - len(term.replace("...", "")) for term, n in zip(terms, ndims)]
    dots = _DOTS[: max([own for term, own in zip(terms, hidden) if "..." in term], default=0)]
    for term, own, n in zip(terms, hidden, ndims):
        plain = term.replace("...", "", 1)
        if own < 0 or (own and "..." not in term) or set(plain) & _NO_LABELS:
            raise ArgumentError(
                f"einsum {subscripts!r} does not fit its operands",
                got=f"{term!r} for an array of {n} axes",
                hint="write a letter for each axis, and ... for those that are broadcast",
            )
    names = tuple(t.replace("...", dots[len(dots) - own :]) for t, own in zip(terms, hidden))
    letters = "".join(names)
    if arrow:
        out = output.replace("...", dots)
    else:
        once = sorted(c for c in set(letters) if letters.count(c) == 1 and c not in _DOTS)
        out = dots + "".join(once)
    if len(set(out)) != len(out) or not set(out) <= set(letters):
        raise ArgumentError(
            f"einsum {subscripts!r} has a result that does not follow from it",
            got=f"{output!r} after the arrow",
            hint="each letter after the arrow stands there once, and also before it",
        )
    return names, out


def _sizes(subscripts: str, names: tuple[str, ...], shapes: list[Shape]) -> None:
    sizes: dict[str, int] = {}
    for term, shape in zip(names, shapes):
        for letter, n in zip(term, shape):
            size = sizes.setdefault(letter, n)
            if size == 1 and letter in _DOTS:
                sizes[letter] = n
            elif size != n and not (n == 1 and letter in _DOTS):
                raise ShapeError(
                    f"einsum {subscripts!r} got two sizes for axis {letter!r}",
                    got=", ".join(map(str, shapes)),
                    hint="axes of one letter have one size: transpose, or use another letter",
                )


MEMORY_LIMIT_ELEMENTS = 1 << 62
"""Limit of intermediate results in elements: with a lower one, NumPy may contract all at once."""


@lru_cache(maxsize=1024)
def _path(names: tuple[str, ...], out: str, shapes: tuple[Shape, ...]) -> tuple[Numbers, ...]:
    """The operands of each contraction, whose result is put last."""
    if len(names) <= 2:
        return (tuple(range(len(names))),)
    letters = dict.fromkeys("".join(names))
    plain = {c: chr(97 + i) if i < 26 else chr(65 + i - 26) for i, c in enumerate(letters)}
    spec = ",".join("".join(plain[c] for c in term) for term in names)
    spec += "->" + "".join(plain[c] for c in out)
    dummies = [
        np.broadcast_to(np.float32(0), shape) for shape in shapes
    ]  # strides of 0 take no memory
    steps = np.einsum_path(spec, *dummies, optimize=("greedy", MEMORY_LIMIT_ELEMENTS))[0][1:]
    return tuple(tuple(step) for step in steps)


def _einsum(*nodes_and_static: Any) -> UOp:
    *nodes, dtype, result_dtype, names, out, path, tf32 = nodes_and_static
    parts = [(cast(u, dtype), term) for u, term in zip(nodes, names)]
    for step in path:
        operands = [parts[i] for i in step]
        parts = [part for i, part in enumerate(parts) if i not in step]
        u, term = operands.pop(0)
        u, term = _reduce_term(
            u, term, set(out).union(*(other for _, other in (*parts, *operands)))
        )
        while operands:
            v, other = operands.pop(0)
            needed = set(out).union(*(later for _, later in (*parts, *operands)))
            v, other = _reduce_term(v, other, needed | set(term))
            last = not parts and not operands
            kind = result_dtype if last else dtype
            u, term = _contract_pair(u, term, v, other, needed, kind, tf32)
        parts.append((u, term))
    u, term = parts[0]
    return cast(permute(u, [term.index(c) for c in out]), result_dtype)


def _reduce_term(u: UOp, term: str, needed: set[str]) -> tuple[UOp, str]:
    """Diagonals for repeated letters; a letter that is not needed later is summed over."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            i = term.index(letter)
            j = term.index(letter, i + 1)
            on_diagonal = build.eq(build.iota(u.shape, i), build.iota(u.shape, j))
            u = _total(build.where(on_diagonal, u, build.full_like(u, 0)), (j,))
            term = term[:j] + term[j + 1 :]
    summed = tuple(i for i, c in enumerate(term) if c not in needed)
    return _total(u, summed), "".join(c for c in term if c in needed)


def _total(u: UOp, axes: Numbers) -> UOp:
    return build.reduce(u, Op.MAX, axes) if u.dtype == BOOL else add_up(u, axes)


def _contract_pair(
    x: UOp, a: str, y: UOp, b: str, needed: set[str], dtype: DType, tf32: bool
) -> tuple[UOp, str]:
    """The product of two operands: common letters are kept if needed later, else summed over."""
    common = [c for c in a if c in b]
    for c in common:  # an axis under `...` may be of size 1 in one of them
        size = max(x.shape[a.index(c)], y.shape[b.index(c)])
        x, y = _expand_axis(x, a.index(c), size), _expand_axis(y, b.index(c), size)
    batch = [c for c in common if c in needed]
    summed = [c for c in common if c not in needed]
    term = "".join(batch + [c for c in a if c not in common] + [c for c in b if c not in common])
    if not summed:
        sizes = dict(zip(a + b, x.shape + y.shape))
        shape = tuple(sizes[c] for c in term)
        x, y = _align(x, a, term, shape), _align(y, b, term, shape)
        return x & y if x.dtype == BOOL else x * y, term
    pairs = tuple(a.index(c) for c in summed), tuple(b.index(c) for c in summed)
    steps = tuple(a.index(c) for c in batch), tuple(b.index(c) for c in batch)
    return contract(x, y, pairs, steps, dtype, tf32), term


def _expand_axis(u: UOp, axis: int, size: int) -> UOp:
    return expand(u, (*u.shape[:axis], size, *u.shape[axis + 1 :]))


def _align(u: UOp, own: str, term: str, shape: Shape) -> UOp:
    """A node with axes `own`, permuted and broadcast to the axes of `term`."""
    u = permute(u, [own.index(c) for c in term if c in own])
    return expand(reshape(u, tuple(n if c in own else 1 for c, n in zip(term, shape))), shape)
