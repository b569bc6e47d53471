"""Cost analysis: FLOPs and bytes, compared with hand counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tfn
from tfn import lax
from tfn import numpy as tnp
from tfn.lower.report.cost import _overlaps


def cost(f: Any, *shapes: tuple[int, ...], dtype: str = "float32") -> dict[str, float]:
    types = [tfn.ShapeDtypeStruct(shape, dtype) for shape in shapes]
    result: dict[str, float] = tfn.jit(f).lower(*types).cost_analysis()
    return result


def convolved(x: Any, w: Any) -> Any:
    numbers = lax.conv_dimension_numbers(x.shape, w.shape, ("NWC", "WIO", "NWC"))
    return lax.conv_general_dilated(x, w, (1,), "SAME", dimension_numbers=numbers)


# fmt: off
FLOPS = {
    "add": (lambda x: x + x, [(7,)], 7),
    "dot": (lambda a, b: a @ b, [(4, 5), (5, 6)], 2 * 4 * 5 * 6),
    "dot in a batch": (lambda a, b: tnp.einsum("bij,bjk->bik", a, b), [(3, 4, 5), (3, 5, 6)], 720),
    "sum": (lambda x: x.sum(), [(8, 3)], 23),
    "movement": (lambda x: x.T.reshape(-1)[::2], [(8, 3)], 0),
    "scan": (lambda x: lax.scan(lambda c, _: (c * x + 1, None), x, None, 10)[0], [(7,)], 140),
    "scan in scan": (
        lambda x: lax.fori_loop(0, 3, lambda i, c: lax.fori_loop(0, 5, lambda i, c: c + x, c), x),
        [()], 15),
    "branch": (lambda p, x: lax.cond(p.sum() > 0, lambda x: x + x * x, lambda x: x, x),
               [(1,), (7,)], 14),
    "convolution": (lambda x, w: convolved(x, w), [(2, 5, 3), (3, 3, 7)],
                    2 * 2 * 3 * 7 * (5 * 3 - 2)),
    "one step": (lambda x: lax.while_loop(lambda c: c[0] < 9, lambda c: c + 1, x), [(7,)], 7),
}
# fmt: on


@pytest.mark.parametrize("name", FLOPS)
def test_flops(name: str) -> None:
    f, shapes, expected = FLOPS[name]
    assert cost(f, *shapes)["flops"] == expected


@given(st.data())
def test_convolution_flops_exclude_padding(data: st.DataObject) -> None:
    """Compared with enumeration."""
    small = st.integers(1, 7)
    stride, window, spread, size, dilation = (data.draw(small) for _ in range(5))
    out, low, size = data.draw(st.integers(0, 9)), data.draw(st.integers(-6, 12)), size - 1
    elements = {k * dilation for k in range(size)}
    pairs = sum(
        p * stride + t * spread - low in elements for p in range(out) for t in range(window)
    )
    assert _overlaps(out, stride, window, spread, size, dilation, low) == pairs


def test_least_traffic() -> None:
    both = lambda *args: tuple(cost(*args)[key] for key in ("bytes in", "bytes out"))
    assert both(lambda x, y: (x + y, x), (100,), (100,)) == (800, 400)
    assert both(lambda x, y: (x * 2, x * 2), (100,), (100,)) == (400, 400)
    assert both(lambda x: x[tnp.arange(3)], (50, 10)) == (120, 120)
    assert both(lambda x: x[3:7, 1:3], (50, 10)) == (32, 32)
    assert both(lambda x: x[tnp.arange(3)] * x.sum(), (50, 10)) == (2000, 120)
    assert both(lambda x: x[tnp.arange(99)], (5, 10)) == (200, 3960)


def test_integers_are_not_counted() -> None:
    assert cost(lambda x: x * x + 1, (9,), dtype="int32")["flops"] == 0


def test_transcendentals_are_counted_separately() -> None:
    counts = cost(lambda x: tnp.exp(tnp.sin(x)) * 2, (9,))
    assert (counts["flops"], counts["transcendentals"]) == (9, 18)


def test_traffic() -> None:
    assert cost(lambda x, y: x + y, (100,), (100,))["bytes accessed"] == 1200
    assert cost(lambda x: tnp.exp(x) * x + 2, (100,))["bytes accessed"] == 800
    host = lambda x: tfn.pure_callback(np.sort, tfn.ShapeDtypeStruct((100,), "float32"), x)
    assert cost(host, (100,))["bytes accessed"] == 800


def test_calls_are_counted_each_time() -> None:
    f = tfn.call(lambda x: x * x)
    assert cost(lambda x: f(f(x)), (7,))["flops"] == 14
