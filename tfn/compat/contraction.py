"""`einsum` that a library computes by a product of its own: JAX's argument ``_dot_general``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tfn.numpy as tnp
from tfn.errors import NotAvailableError
from tfn.lax import dot_general
from tfn.numpy.einstein_summation import as_text


def einsum(
    subscripts: Any,
    /,
    *operands: Any,
    _dot_general: Callable[..., Any] | None = None,
    **options: Any,
) -> Any:
    """`tfn.numpy.einsum`; with `_dot_general` the product of two operands is computed by it.

    Args:
        subscripts: the letters of each operand, and of the result, or the first operand.
        *operands: arrays or numbers, and their sublists.
        _dot_general: a function with the arguments of `lax.dot_general`; None for that.
        **options: as `tfn.numpy.einsum` takes them.

    Raises:
        NotAvailableError: for other than two operands with distinct letters.

    Example:
        >>> x = tnp.ones((2, 3))
        >>> einsum("ij,kj->ki", x, x, _dot_general=lambda *args: dot_general(*args)).shape
        (2, 2)
    """
    if _dot_general is None or getattr(_dot_general, "__wrapped__", _dot_general) is dot_general:
        return tnp.einsum(subscripts, *operands, **options)
    subscripts, operands = as_text("einsum", subscripts, operands)
    inputs, arrow, out = subscripts.replace(" ", "").partition("->")
    terms = inputs.split(",")
    ellipsis = "..." in subscripts
    if len(terms) != 2 or ellipsis or not arrow or any(len(set(t)) != len(t) for t in terms):
        raise NotAvailableError(
            "einsum computes two operands with distinct letters by a product of the user's",
            got=f"einsum({subscripts!r}, ..., _dot_general=...)",
            hint="leave _dot_general out, or contract two operands at a time",
        )
    arrays = [tnp.asarray(x) for x in operands]
    for i, (term, other) in enumerate(zip(terms, reversed(terms), strict=True)):
        alone = [letter for letter in term if letter not in other and letter not in out]
        arrays[i] = arrays[i].sum(axis=tuple(map(term.index, alone)))
        terms[i] = "".join(letter for letter in term if letter not in alone)
    left, right = terms
    batch = [letter for letter in left if letter in right and letter in out]
    contracted = [letter for letter in left if letter in right and letter not in out]
    axes = [
        tuple(tuple(map(term.index, letters)) for term in terms) for letters in (contracted, batch)
    ]
    known = {k: v for k, v in options.items() if k in ("precision", "preferred_element_type")}
    product = _dot_general(*arrays, tuple(axes), **known)
    rest = [letter for term in terms for letter in term if letter not in batch + contracted]
    found = batch + rest
    return tnp.transpose(product, [found.index(letter) for letter in out])
