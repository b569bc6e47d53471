"""Type rules of windows: the number of places of a convolution."""

from __future__ import annotations

from tests.covering import together
from tfn.trace.windows import conv_size


@together("n", [0, 1, 5, 7])
@together("window", [1, 3])
@together("stride", [1, 2])
@together("padding", [(0, 0), (1, 2)])
@together("dilation", [(1, 1), (2, 1), (1, 2), (3, 2)])
def test_places_of_a_window(n, window, stride, padding, dilation):
    have = max((n - 1) * dilation[0] + 1, 0) + sum(padding)
    reach = (window - 1) * dilation[1] + 1
    places = sum(1 for at in range(0, have, stride) if at + reach <= have)
    assert conv_size(n, window, stride, padding, *dilation) == places
