"""Types of values."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.compat import avals
from tfn.compat.avals import ShapedArray, float0, typeof
from tfn.compat.zeros import UndefinedPrimal
from tfn.errors import ArgumentError


def test_types_of_values():
    kind = typeof(tnp.ones((2, 3)))
    assert (kind.shape, kind.dtype, kind.ndim, kind.size) == ((2, 3), np.dtype("f"), 2, 6)
    assert kind.sharding.mesh.empty and not kind.sharding.mesh.are_all_axes_explicit
    assert typeof(2).weak_type and not typeof(2).strip_weak_type().weak_type
    assert typeof(UndefinedPrimal(kind)) is kind and typeof(kind) is kind
    assert str(kind) == "float32[2,3]" and kind.update(shape=()).ndim == 0


def test_tangents_of_integers_have_no_bits():
    assert ShapedArray((2,), "int32").to_tangent_aval().dtype is float0
    assert typeof(np.zeros(2, float0)) == ShapedArray((2,), float0)


def test_lanes():
    full, lane = ShapedArray((2, 3), "int8"), ShapedArray((2,), "int8")
    assert avals.mapped_aval(3, 1, full) == lane and avals.unmapped_aval(3, 1, lane) == full
    assert avals.mapped_aval(3, None, full) is full and avals.unmapped_aval(3, None, full) is full
    with pytest.raises(ArgumentError, match="not of the size"):
        avals.mapped_aval(4, 1, full)


def test_tracers_are_traced_values():
    kinds = []
    tfn.jit(lambda x: kinds.append(isinstance(x, avals.Tracer)) or x)(1.0)
    assert kinds == [True] and not isinstance(tnp.ones(2), avals.Tracer)

    @tfn.grad
    def f(x):
        values = [x, tnp.sin(x) * 2, tfn.lax.full_like(x, 1.0), tnp.ones(())]
        kinds[:] = [isinstance(y, avals.JVPTracer) for y in values]
        return x

    assert f(1.0) == 1.0 and kinds == [True, True, False, False]
    assert avals.is_array_type(np.float32(1)) and not avals.is_array_type(np.array("text"))


def test_tracer_is_a_class():
    kinds = []
    tfn.jit(lambda x: kinds.append(isinstance(x, avals.Tracer)) or x)(1.0)
    assert kinds == [True] and not isinstance(tnp.ones(2), avals.Tracer)
    assert not issubclass(np.ndarray, avals.Tracer) and isinstance(avals.Tracer, type)


def test_classes_of_values_are_shown_as_in_unions() -> None:
    """As beartype wants it, which refuses annotations with other ones."""
    for kind in (avals.Tracer, avals.JVPTracer):
        assert repr(kind | None) == f"{kind.__module__}.{kind.__qualname__} | None"
        assert repr(kind) == f"<class '{kind.__module__}.{kind.__qualname__}'>"
