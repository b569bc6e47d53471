"""The four parts of a message, and what else its classes are."""

import pytest

import tfn.errors as errors
import tfn.numpy as tnp


def test_a_message_has_four_parts():
    error = errors.ShapeError("a broke", got="b", hint="c", where="train.py:3  x @ w")
    assert str(error) == "a broke\n  got: b\n  at: train.py:3  x @ w\n  hint: c"
    assert (error.what, error.got, error.hint) == ("a broke", "b", "c")


def test_parts_that_are_empty_are_left_out():
    assert str(errors.TfnError("a broke", where="")) == "a broke"


def test_the_place_is_the_users_own_line():
    with pytest.raises(errors.ShapeError) as caught:
        tnp.ones((2, 3)) @ tnp.ones((2, 3))  # the line
    assert caught.value.where.startswith("test_errors.py:")
    assert caught.value.where.endswith("tnp.ones((2, 3)) @ tnp.ones((2, 3))  # the line")


@pytest.mark.parametrize("error, also", [
    (errors.ShapeError, (TypeError, ValueError)), (errors.DTypeError, TypeError),
    (errors.ArgumentError, (TypeError, ValueError)), (errors.AxisError, (ValueError, IndexError)),
    (errors.OutOfBoundsError, IndexError), (errors.TreeError, ValueError),
    (errors.TracerBoolConversionError, errors.ConcretizationTypeError),
    (errors.NonConcreteBooleanIndexError, IndexError), (errors.OutOfMemoryError, MemoryError),
    (errors.ImmutableError, TypeError),
])  # fmt: skip
def test_classes_are_also_those_that_python_would_raise(error, also):
    for base in also if isinstance(also, tuple) else (also,):
        assert issubclass(error, base)
    assert issubclass(error, errors.TfnError)
