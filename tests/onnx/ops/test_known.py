"""Values that are known while tracing, and those that are not."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
from tfn import numpy as tnp
from tfn.errors import ConcretizationTypeError
from tfn.onnx.ops.known import axes_of, integers, known, library


def test_numpy_computes_what_is_known() -> None:
    assert known(np.ones(2), None, np.float32(1)) and not known(np.ones(2), tnp.ones(2))
    assert library(np.ones(2)) is np and library(tnp.ones(2)) is tnp


def test_axes_are_an_input_or_an_attribute() -> None:
    assert axes_of(np.array([-1, 0]), None, 3) == (2, 0)
    assert axes_of(None, (-2,), 3) == (1,) and axes_of(None, None, 3) is None


def test_traced_sizes_are_an_error_that_says_what_for() -> None:
    with pytest.raises(ConcretizationTypeError) as raised:
        tfn.jit(lambda n: tnp.zeros(integers(n, "a shape")))(tnp.array([2, 3]))
    assert "a shape" in "".join(raised.value.__notes__)
