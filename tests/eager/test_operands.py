"""Operands: promotion, broadcasting, axes; one program per function."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.eager import operands
from tfn.errors import ArgumentError, AxisError, ShapeError


def test_errors_for_other_objects_name_the_function():
    with pytest.raises(ArgumentError) as caught:
        tnp.sum([1, 2])
    assert caught.value.what == "sum needs arrays, not a list"
    assert "tfn.numpy.array([1, 2])" in caught.value.hint
    with pytest.raises(ArgumentError, match="add needs arrays or numbers, not str"):
        tnp.add(1, "a")
    with pytest.raises(ArgumentError, match="exp needs arrays or numbers, not NoneType"):
        tnp.exp(None)


def test_python_numbers_never_need_another_program():
    x = tnp.ones(3)
    _ = x * 1.5
    before = len(operands._PROGRAMS)
    for value in (2.5, -0.0, np.nan, 1e30):
        _ = x * value
    assert len(operands._PROGRAMS) == before
    assert str(float((x * 0.0)[0])) == "0.0" and str(float((x * -0.0)[0])) == "-0.0"


def test_python_numbers_are_constants_of_a_trace():
    jaxpr = tfn.make_jaxpr(lambda x: x * 2.0)(tnp.ones(3))
    assert len(jaxpr.params) == 1 and "2.0:f32" in str(jaxpr)


def test_one_program_for_a_function_of_many_nodes():
    x = tnp.arange(5.0)
    before = len(operands._PROGRAMS)
    for y in (x, -x):
        _ = tnp.var(y)
    assert len(operands._PROGRAMS) == before + 1


@pytest.mark.parametrize(
    "shapes, result",
    [
        (((2, 1), (3,)), (2, 3)),
        (((), ()), ()),
        (((0,), (1,)), (0,)),
        (((4, 1, 1), (5, 1), (6,)), (4, 5, 6)),
    ],
)
def test_broadcast_shapes(shapes, result):
    assert operands.broadcast_shape("add", *shapes) == result


def test_axes():
    assert operands.some_axes("f", None, 3) == (0, 1, 2)
    assert operands.some_axes("f", [-1, 0], 3) == (2, 0)
    assert operands.one_axis("f", np.int64(-2), 3) == 1
    with pytest.raises(AxisError, match="f got axis 3 of an array that has 3 axes") as caught:
        operands.one_axis("f", 3, 3)
    assert caught.value.hint == "axes go from -3 to 2"


def test_shapes():
    assert operands.a_shape("f", 3) == (3,) and operands.a_shape("f", [2, np.int32(1)]) == (2, 1)
    with pytest.raises(ShapeError):
        operands.a_shape("f", (-1,))
    with pytest.raises(TypeError) as caught:
        tfn.jit(lambda n: tnp.zeros(n))(3)
    assert "static" in str(caught.value)


def test_shape_questions_take_anything():
    assert (
        tnp.shape(np.ones((2, 3))) == (2, 3) and tnp.ndim(1.0) == 0 and tnp.size(tnp.ones(4)) == 4
    )
    assert tnp.size(tnp.ones((4, 2)), -1) == 2


def test_weak_types_survive_arithmetic_with_numbers():
    x = tnp.asarray(2)
    assert (x + 1).weak_type and (x / 2).weak_type and tnp.sin(x).weak_type and (-x).weak_type
    assert not (x + tnp.ones(1)).weak_type
    assert (x + tnp.ones(1, "int8")).dtype == np.int8
