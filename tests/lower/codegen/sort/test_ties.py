"""Tie restoration: zeros and NaNs of rows sorted by keys only, in the order of the operand."""

from __future__ import annotations

import numpy as np

from tests.covering import covering
from tests.lower.graphs import Value, p, run_compiled
from tfn.dtypes import FLOATS, DType, width_bits
from tfn.lower.codegen.sort.key_encoding import bit_width
from tfn.trace import build

SPECIAL = (0.0, -0.0, np.nan, -np.nan, 1.0, -1.0, np.inf, -np.inf)


def rows(n: int, dtype: DType) -> dict[str, Value]:
    """Rows by the special values in them."""
    random = np.random.default_rng(n)
    normal = random.standard_normal(n).astype(dtype)
    one_zero = -np.abs(normal)
    one_zero[n // 2] = 0
    special = {
        name: random.choice(np.array(values, dtype), n)
        for name, values in {
            "all": SPECIAL,
            "zeros": SPECIAL[:2],
            "NaNs": SPECIAL[2:4],
            "no NaN": (*SPECIAL[4:], 0.0),
            "no zero": SPECIAL[2:],
            "neither": SPECIAL[4:],
            "above": (-0.0, 0.0, 2.0, np.nan),
            "below": (-0.0, 0.0, -2.0),
        }.items()
    }
    word = np.dtype(f"uint{bit_width(dtype)}")
    payload = np.array(SPECIAL[2], dtype).view(word) + (np.arange(n) % 100).astype(word)
    tags = (payload & (2 ** width_bits(dtype) - 1)).view(dtype)
    return special | {"NaNs with numbers": tags, "one zero": one_zero, "normal": normal}


@covering(
    "n, dtype", [33, 64, 65, 257, 1031], FLOATS, ids=lambda value: getattr(value, "name", None)
)
def test_ties_are_in_the_order_of_a_stable_sort(n: int, dtype: DType) -> None:
    by_name = rows(n, dtype)
    x = np.stack(list(by_name.values()))
    (got,) = run_compiled(list(build.sort([p(0, *x.shape, dtype=dtype)])), [x])
    with np.errstate(invalid="ignore"):  # of a NaN that signals
        order = np.argsort(x.astype(np.float64), axis=1, kind="stable")
    want = np.take_along_axis(x, order, 1)
    for name, a, b in zip(by_name, got, want, strict=True):
        assert a.tobytes() == b.tobytes(), name
