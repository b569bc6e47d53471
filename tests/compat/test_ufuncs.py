"""Methods of functions of two arrays agree with NumPy's."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.compat.ufuncs import BEGINS, PAIRS, with_methods
from tfn.errors import ArgumentError

X = np.array([[3, 1, 2], [6, 4, 5]])


def methods(name: str):
    return with_methods(name, getattr(tnp, name)), getattr(np, name)


@pytest.mark.parametrize("name", sorted(BEGINS))
def test_reductions(name: str) -> None:
    own, theirs = methods(name)
    x = X.astype(np.float32) / 4 if name.startswith("logadd") else X
    for axis in (0, -1):
        np.testing.assert_allclose(own.reduce(x, axis), theirs.reduce(x, axis), 1e-6)
        np.testing.assert_allclose(own.accumulate(x, axis), theirs.accumulate(x, axis), 1e-6)
    kept = own.reduce(x, 1, keepdims=True)
    np.testing.assert_allclose(kept, theirs.reduce(x, 1, keepdims=True), 1e-6)
    np.testing.assert_allclose(own.outer(x, x[0]), theirs.outer(x, x[0]), 1e-6)


def test_chosen_elements_and_initial_values() -> None:
    add, theirs = methods("add")
    mask = X > 2
    assert (
        add.reduce(X, 0, where=mask, initial=10).tolist()
        == theirs.reduce(X, 0, where=mask, initial=10).tolist()
    )
    assert add.reduce(X, None).item() == 21 and add.reduce(tnp.zeros(0)).item() == 0
    largest, _ = methods("maximum")
    with pytest.raises(ArgumentError, match="needs an initial value"):
        largest.reduce(X, where=mask)


def test_updates_are_new_arrays() -> None:
    add, _ = methods("add")
    found = tfn.jit(lambda x: add.at(x, np.array([0, 0, 2]), 1.0, inplace=False))(tnp.zeros(3))
    assert found.tolist() == [2, 0, 1]
    with pytest.raises(ArgumentError, match="arrays do not change"):
        add.at(tnp.zeros(3), 0, 1.0)


def test_what_is_not_associative_is_not_reduced() -> None:
    minus, _ = methods("subtract")
    with pytest.raises(ArgumentError, match="subtract cannot be reduced"):
        minus.reduce(X)


def test_the_table_names_functions() -> None:
    assert not [name for name in PAIRS if not callable(getattr(tnp, name, None))]
