"""Private parts of JAX that libraries import."""

import sys

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.compat import private


def test_frames_of_tfn_are_told_apart():
    private.register_exclusion(__file__)
    assert private.include_frame(sys._getframe())
    frames = []
    with private.user_context(None):
        frames.append(private.api_boundary(sys._getframe)())
    assert private.include_frame(frames[0]) and private.current() is None


def test_the_registry_knows_nodes():
    assert dict in private.REGISTRY and int not in private.REGISTRY


def test_classes_with_array_are_arrays():
    """Which is why their rows in JAX's tables are not needed."""

    class Variable:
        shape, dtype = (2,), np.dtype("float32")

        def __array__(self, dtype=None, copy=None):
            return np.ones(2, np.float32)

    for table in (private.TYPES_OF, private.CANONICAL):
        table[Variable] = table[np.ndarray]
        table.pop(Variable)
    assert tnp.sum(Variable()) == 2 and tfn.jit(lambda x: 2 * x)(Variable()).tolist() == [2, 2]
    assert str(private.TYPES_OF[np.ndarray](np.ones(2, np.float32))) == "float32[2]"


def test_errors_of_prefixes_are_functions_of_a_name():
    assert private.prefix_errors({"a": 1}, {"a": [1, 2]}) == []
    (error,) = private.prefix_errors({"a": [1]}, {"a": [1, 2]})
    with pytest.raises(ValueError, match=r"does not fit(.|\n)*in_axes\['a'\]"):
        raise error("in_axes")
