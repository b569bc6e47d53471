"""Values and graphs for the tests of renderers: edge cases of ops, accesses of every kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.lower.graphs import Value
from tfn.dtypes import (
    BOOL,
    INT32,
    INTEGERS,
    REALS,
    SIGNED,
    DType,
    finfo,
    highest,
    lowest,
)
from tfn.hw.cpu.target import host
from tfn.trace import build
from tfn.trace.uop import UOp

every_dtype = pytest.mark.parametrize("dtype", REALS, ids=lambda d: d.name)


def edges(dtype: DType) -> Value:
    """The values where ops go wrong: zeros, ones, the extremes, halves, infinities, NaN."""
    if dtype == BOOL:
        return np.array([False, True, True, False])
    if dtype in INTEGERS:
        low, high = lowest(dtype), highest(dtype)
        return np.array(
            [
                low,
                high,
                0,
                1,
                2,
                3,
                7,
                high - 1,
                low + 1,
                high // 2 + 1,
                *((-1, -2, -3, -7) if dtype in SIGNED else ()),
            ],
            dtype,
        )
    tiny = max(float(finfo(dtype).smallest_subnormal), 1e-300)  # quotients of MOD end at 2**1023
    numbers = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, 3.0, -7.0, 1e4, tiny, -tiny]
    return np.array([*numbers, np.inf, -np.inf, np.nan], dtype)


TARGETS = {
    "wide": host(),
    "narrow": replace(host(), vector_bytes=16, vector_registers=16),
    "scalar": replace(host(), vector_bytes=1),
}
WIDTHS = tuple(TARGETS.values())
every_width = pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)


def gathered(x: UOp) -> UOp:
    """Rows by an index that is loaded, one of them out of bounds: it is clamped."""
    n = x.shape[0]
    at = build.iota((5,), 0, INT32) * 7 + (n - 3)
    return build.gather(x, build.reshape(at, (5, 1)), (1, x.shape[1]))


# fmt: off
MOVES: dict[str, Callable[[UOp], UOp]] = {
    "flipped": lambda x: build.flip(x, (0, 1)),
    "transposed": lambda x: build.permute(x, (1, 0)),
    "every other": lambda x: build.shrink(x, (0, 0), x.shape, (1, 2)),
    "every third, backwards": lambda x: build.flip(build.shrink(x, (0, 1), x.shape, (1, 3)), (1,)),
    "padded": lambda x: build.pad(x, (1, 2), (0, 3)),
    "spread out": lambda x: build.pad(x, (0, 0), (0, 1), (0, 2)),
    "beside itself": lambda x: build.concat([x, build.flip(x, (1,)), x], 1),
    "one column everywhere": lambda x: build.expand(build.shrink(x, (0, 0), (x.shape[0], 1)),
                                                    x.shape),
    "one row everywhere": lambda x: build.expand(build.shrink(x, (0, 0), (1, x.shape[1])), x.shape),
    "gathered": gathered,
    "regrouped": lambda x: build.reshape(build.permute(x, (1, 0)), x.shape),
    "chosen": lambda x: build.where(build.ne(x, build.flip(x, (1,))), x, build.flip(x, (0,))),
}
# fmt: on
