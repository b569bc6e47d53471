"""Functions of float32 by words of 32 bits: errors in units of the last place, special values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import special

from tests.lower.graphs import jaxpr, p, run_compiled
from tfn import dtypes
from tfn.lower.math.words import RULES, decomposed
from tfn.trace.jaxpr import Jaxpr
from tfn.trace.op import Op
from tfn.trace.uop import UOp, walk

Value = np.ndarray[Any, Any]
Run = Callable[[Jaxpr, Sequence[Value]], Sequence[Value]]

SPECIAL = np.float32(
    [
        *(0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 2, 0.5, 1e-40, -1e-40, 3.4e38, -3.4e38),
        *(1e-30, 0.78, np.pi, np.pi / 2, 3, -3, 2.5, -2.5, 16367173 * 2.0**72, 2.0**127),
    ]
)
"""The last but one is nearest to a multiple of pi / 2."""


def drawn(n: int) -> tuple[Value, Value]:
    """Pairs of numbers: any bits, usual ones, bases near one, whole exponents, special values."""
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 2 * n, np.uint32).view(np.float32).reshape(2, n)
    usual = rng.uniform(-10, 10, (2, n)).astype(np.float32)
    near = np.stack([1 + rng.uniform(-1e-3, 1e-3, n), rng.uniform(-9e4, 9e4, n)])
    whole = np.stack([usual[0], np.round(usual[1])])
    ends = np.stack([x.ravel() for x in np.meshgrid(SPECIAL, SPECIAL)])
    x, y = np.concatenate([bits, usual, near.astype(np.float32), whole, ends], 1)
    return x, y


# fmt: off
ROWS: dict[Op, tuple[Callable[..., Value], float]] = {
    Op.SIN: (np.sin, 1.5), Op.COS: (np.cos, 1.5), Op.TAN: (np.tan, 3),
    Op.ERFC: (special.erfc, 5), Op.MOD: (np.mod, 0.5),
    Op.POW: (lambda x, y: np.power(np.longdouble(x), np.longdouble(y)).astype(float), 5),
}
# fmt: on
"""The exact function of each op, and the largest error in units of the last place."""


def assert_functions_are_close(run: Run, n: int, more: float = 1) -> None:
    """Raise if an error is larger than `more` times that of its row.

    Results below the normal numbers are not compared: devices may flush them.
    """
    x, y = drawn(n)
    for op, (exact, bound) in ROWS.items():
        values = [x, y] if op in (Op.POW, Op.MOD) else [x]
        (got,) = run(jaxpr([UOp(op, tuple(p(i, len(x)) for i in range(len(values))))]), values)
        with np.errstate(all="ignore"):
            want = exact(*(np.float32(v).astype(float) for v in values))
            near = want.astype(np.float32)
            off = np.abs(got.astype(float) - want) / np.spacing(np.abs(near))
        normal = np.isfinite(near) & (np.abs(near) >= np.finfo(np.float32).tiny)
        worst = np.argmax(np.where(normal, off, 0))
        assert off[worst] <= more * bound, (op, *(v[worst] for v in values), got[worst])
        same = (got == near) | (np.isnan(got) & np.isnan(near)) | np.isfinite(near)
        assert same.all() and (np.isfinite(got) | ~np.isfinite(near)).all(), op


def narrow(graph: Jaxpr, values: Sequence[Value]) -> Sequence[Value]:
    (root,) = graph.function.src[-1:]
    return run_compiled([decomposed(root, frozenset())], list(values))


def test_errors_are_small_and_special_values_those_of_numpy() -> None:
    assert set(ROWS) == set(RULES)
    assert_functions_are_close(narrow, 3000)


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
@pytest.mark.parametrize("op", RULES)
def test_no_number_has_64_bits(op: Op, name: str) -> None:
    dtype = dtypes.canonical(name)
    operands = [p(i, dtype=dtype) for i in range(1 + (op in (Op.POW, Op.MOD)))]
    root = decomposed(UOp(op, tuple(operands)), frozenset({Op.FMA}))
    assert root.dtype == dtype and all(u.dtype.itemsize <= 4 for u in walk([root]))
