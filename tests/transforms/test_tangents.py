"""Tangents and cotangents as users give them: what fits, and what is said of what does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tfn import tree
from tfn.errors import DTypeError, ShapeError, TreeError
from tfn.transforms.shapes import ShapeDtypeStruct
from tfn.transforms.tangents import SymbolicZero, Vectors

SLOTS = (ShapeDtypeStruct((2,), "float32"), ShapeDtypeStruct((), "int32"))
VECTORS = Vectors(tree.structure({"a": 0, "b": 0}), SLOTS, "tangent")


def test_integers_and_zeros_are_none() -> None:
    given = tfn.numpy.ones(2)
    assert VECTORS.every({"a": given, "b": None}) == [given, None]
    assert VECTORS.check({"a": None, "b": None}) == [None]
    assert VECTORS.check({"a": SymbolicZero((2,), np.dtype("float32")), "b": None}) == [None]
    float0 = np.zeros((), np.dtype([("float0", "V")]))
    assert VECTORS.check({"a": given, "b": float0}) == [given]
    assert VECTORS.build([given]) == {"a": given, "b": None}
    assert VECTORS.weak == [False]
    zero = SymbolicZero((2, 3), np.dtype("float32"))
    assert (zero.ndim, zero.size) == (2, 6)
    assert zero.aval == ShapeDtypeStruct((2, 3), "float32")


@pytest.mark.parametrize("cotangent", [3, tfn.numpy.int32(0), 1.5])
def test_cotangents_of_integers_are_ignored(cotangent: Any) -> None:
    """As in JAX, where the values themselves may serve as cotangents."""
    pull = tfn.vjp(lambda x: (2 * x, x.astype("int32")), tfn.numpy.float32(4.0))[1]
    assert [float(x) for x in pull((1.0, cotangent))] == [2]
    with pytest.raises(DTypeError, match="has none"):
        pull((1.0, np.ones(2)))

    @tfn.custom_vjp
    def product(x: Any, n: Any) -> Any:
        return x * n

    product.defvjp(lambda x, n: (x * n, n), lambda n, g: (g * n, cotangent))
    assert float(tfn.grad(lambda x: product(x, 3))(2.0)) == 3


@pytest.mark.parametrize(
    ("given", "kind", "words"),
    [
        ([1.0], TreeError, r"structure of their values(.|\n)*\[\*\] instead of {'a': \*, 'b': \*}"),
        ({"a": np.ones(3, "float32"), "b": None}, ShapeError, r"the tangent at \['a'\]"),
        ({"a": np.ones(2), "b": None}, DTypeError, r"f64\[2\] for f32\[2\](.|\n)*use .astype"),
        ({"a": None, "b": np.ones(())}, DTypeError, "has none(.|\n)*pass None there"),
    ],
)
def test_vectors_of_other_types_are_refused(given: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        VECTORS.check(given)


def test_a_python_number_must_be_of_the_kind_of_its_value() -> None:
    x = tfn.numpy.asarray(3.0, "float16")
    assert float(tfn.jvp(lambda x: x * x, (x,), (2.0,))[1]) == 12
    for given in (2, True, 2j, tfn.numpy.asarray(2)):  # JAX raises a TypeError for these, too
        with pytest.raises(TypeError, match="must have the dtype of its value"):
            tfn.jvp(lambda x: x * x, (x,), (given,))
    pull = tfn.vjp(lambda x: x * 1j, tfn.numpy.asarray(1j))[1]
    assert complex(pull(2.0)[0]) == 2j
    with pytest.raises(DTypeError, match="the cotangent must have the dtype"):
        pull(2)
