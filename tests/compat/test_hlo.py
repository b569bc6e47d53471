"""Operations of StableHLO by both of their names."""

from __future__ import annotations

import numpy as np
import pytest

from tfn.compat import hlo
from tfn.errors import NotAvailableError


def test_operations_have_two_names() -> None:
    x = np.float32([1.0, 4.0])
    for built in (hlo.SubtractOp(x, hlo.SqrtOp(x)).result, hlo.subtract(x, hlo.sqrt(x))):
        assert built.tolist() == [0.0, 2.0]
    assert hlo.SineOp(x).results[0].shape == (2,)
    assert hlo.exponential(np.float32(0)).item() == 1.0
    assert hlo.constant([1, 2]).tolist() == [1, 2]


def test_others_are_told_when_they_are_used() -> None:
    with pytest.raises(NotAvailableError, match="builds CustomCallOp, which tfn has not"):
        hlo.CustomCallOp(1.0)
    with pytest.raises(AttributeError, match="builds custom_call, which tfn has not"):
        hlo.custom_call(1.0)


def test_tools_find_no_names_of_their_own() -> None:
    for name in ("pytest_plugins", "setup_module", "__wrapped__"):
        assert not hasattr(hlo, name)
