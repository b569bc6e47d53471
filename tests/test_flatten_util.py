"""Trees as vectors: values, dtypes, gradients, the empty tree, and errors."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.errors import DTypeError, ShapeError
from tfn.flatten_util import ravel_pytree


def test_round_trip_keeps_structure_shapes_and_dtypes():
    given = {"w": tnp.arange(6.0).reshape(2, 3), "b": (tnp.arange(2), tnp.float16(1.5)), "n": None}
    vector, unravel = ravel_pytree(given)
    assert vector.shape == (9,) and vector.dtype == "float32"
    again = unravel(vector)
    for old, new in zip(tfn.tree.leaves(given), tfn.tree.leaves(again), strict=True):
        assert old.dtype == new.dtype and np.array_equal(old, new)


@pytest.mark.parametrize("given", [{}, (), None, [tnp.zeros((0, 3))]])
def test_trees_without_elements(given):
    vector, unravel = ravel_pytree(given)
    assert vector.shape == (0,)
    assert tfn.tree.structure(unravel(vector)) == tfn.tree.structure(given)


def test_gradients_and_lanes_go_through():
    point = {"a": tnp.array([1.0, 2.0]), "b": 3.0}
    vector, unravel = ravel_pytree(point)

    def loss(flat):
        parts = unravel(flat)
        return (parts["a"] ** 2).sum() * parts["b"]

    assert tfn.jit(tfn.grad(loss))(vector).tolist() == [6.0, 12.0, 5.0]
    rows = tnp.stack([vector, 2 * vector])
    assert tfn.vmap(unravel)(rows)["a"].tolist() == [[1.0, 2.0], [2.0, 4.0]]


def test_another_size_is_refused():
    with pytest.raises(ShapeError, match="vector of 2 elements"):
        ravel_pytree([1.0, 2.0])[1](tnp.zeros(3))


def test_a_vector_of_another_dtype_fits_a_tree_of_one_dtype_alone():
    flat, unravel = ravel_pytree((tnp.ones(2), tnp.ones(1)))
    assert [x.dtype.name for x in unravel(flat < 5)] == ["bool", "bool"]
    flat, unravel = ravel_pytree((tnp.ones(2), tnp.arange(1)))
    assert [x.dtype.name for x in unravel(flat)] == ["float32", "int32"]
    with pytest.raises(DTypeError, match="dtype that the leaves of the tree promote to"):
        unravel(flat < 5)
