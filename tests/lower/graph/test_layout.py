"""Memory layouts: strides as NumPy has them, panels, and padded rows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.graphs import assert_matches_oracle, p
from tests.lower.loops.test_tensorize import AMX
from tfn.dtypes import BFLOAT16
from tfn.lower.graph.layout import aliases_in_cache, is_panel_view, pad_rows, strides, to_panels
from tfn.lower.graph.packing import pack_for_matrix_unit
from tfn.trace import build
from tfn.trace.op import Op
from tfn.trace.uop import walk


def test_strides_of_views() -> None:
    """NumPy has the same, for any movement that it can do without a copy."""
    x = p(0, 4, 6, 10)
    a = np.zeros((4, 6, 10), np.float32)
    cases = [
        (build.permute(x, (2, 0, 1)), a.transpose(2, 0, 1)),
        (build.reshape(x, (4, 60)), a.reshape(4, 60)),
        (
            build.reshape(build.permute(x, (0, 2, 1)), (4, 5, 2, 6)),
            a.transpose(0, 2, 1).reshape(4, 5, 2, 6),
        ),
        (
            build.permute(build.reshape(x, (4, 6, 2, 5)), (0, 2, 1, 3)),
            a.reshape(4, 6, 2, 5).transpose(0, 2, 1, 3),
        ),
        (build.shrink(x, (0, 0, 0), (4, 6, 10), (1, 2, 3)), a[:, ::2, ::3]),
    ]
    for u, view in cases:
        assert np.shares_memory(view, a)
        assert strides(u) == tuple(n // 4 for n in view.strides)
    assert strides(build.reshape(build.permute(x, (2, 0, 1)), (10, 24))) == (1, 10)
    merged = build.reshape(build.permute(x, (1, 0, 2)), (24, 10))
    assert strides(merged) is None and strides(merged, innermost=True) == (60, 1)
    assert strides(build.reshape(build.permute(x, (1, 0, 2)), (12, 20)), innermost=True) is None
    assert strides(build.unary(Op.SIN, build.permute(x, (2, 0, 1)))) == (24, 6, 1)


@pytest.mark.parametrize(
    ("rows", "columns", "width", "together"),
    [
        (6, 33, 16, 1),
        (6, 32, 32, 2),
        (8, 5, 16, 4),
    ],
)
def test_panels_hold_the_same_matrix(rows: int, columns: int, width: int, together: int) -> None:
    x = p(0, 2, rows, columns)
    view = to_panels(x, width, together)
    assert view.shape == x.shape and is_panel_view(view) and not is_panel_view(x)
    assert to_panels(view, width, together) is view
    assert_matches_oracle([view])


def test_padded_rows() -> None:
    x = p(0, 3, 1024)
    view = pad_rows(x)
    assert strides(view) == (1024 + 16, 1)
    assert_matches_oracle([view])


def test_pitches_that_alias_in_the_cache() -> None:
    assert [n for n in (64, 1024, 2000, 2048, 2112, 3072, 4096, 6144) if aliases_in_cache(n)] == [
        2048,
        4096,
        6144,
    ]


@pytest.mark.parametrize(
    ("depth", "columns", "copies"), [(1024, 512, 2), (1000, 512, 1), (1024, 64, 1)]
)
def test_aliasing_rows_are_padded_for_a_matrix_unit(depth: int, columns: int, copies: int) -> None:
    x, w = p(0, 64, depth, dtype=BFLOAT16), p(1, depth, columns, dtype=BFLOAT16)
    packed = pack_for_matrix_unit(build.dot(x, w, ((1,), (0,))), AMX)
    assert sum(u.op is Op.GBARRIER for u in walk([packed])) == copies
