"""Lowering rules."""

import pytest

from tfn.compat import primitives
from tfn.compat.mlir import lower_fun, register_lowering
from tfn.compat.primitives import CALLED_ON_HOST, Primitive
from tfn.errors import ArgumentError


def test_rules_for_other_platforms_are_ignored():
    p = Primitive("p")
    register_lowering(p, lower_fun(abs), platform="tpu")
    assert p not in primitives.lowerings
    register_lowering(p, lower_fun(abs), platform="cpu")
    assert primitives.lowerings.pop(p) is abs
    register_lowering(p, lambda context, x: x)
    assert primitives.lowerings.pop(p) is CALLED_ON_HOST


def test_rules_cannot_be_called():
    with pytest.raises(ArgumentError, match="no MLIR"):
        lower_fun(abs)(1.0)
