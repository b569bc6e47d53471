"""Keyword arguments under JAX's names."""

import importlib
import inspect
import pickle

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.compat import keywords
from tfn.compat.names import MODULES
from tfn.errors import NotAvailableError


def test_a_function_takes_both_names():
    total = keywords.adapted("jax.numpy", "sum", tnp.sum)
    x = tnp.arange(6.0).reshape(2, 3)
    assert total(a=x, axis=1).tolist() == total(x=x, axis=1).tolist() == [3.0, 12.0]
    grad = keywords.adapted("jax", "grad", tfn.grad)
    assert grad(fun=lambda x: x * x)(3.0).item() == 6.0


def test_advice_is_taken_and_changes_nothing():
    inverse = keywords.adapted("jax.scipy.linalg", "inv", tfn.scipy.linalg.inv)
    x = np.eye(2, dtype="float32") * 2
    np.testing.assert_array_equal(inverse(x, overwrite_a=True, check_finite=False), x / 4)


def test_what_cannot_be_done_is_refused():
    total = keywords.adapted("jax.numpy", "prod", tnp.prod)
    assert total(np.ones(3, "float32"), promote_integers=True).item() == 1.0
    with pytest.raises(NotAvailableError, match="promote_integers"):
        total(np.ones(3, "float32"), promote_integers=False)


def test_results_are_divided_as_out_sharding_says():
    ones = keywords.adapted("jax.numpy", "ones_like", tnp.ones_like)
    assert ones(1.0, out_sharding=None).item() == 1.0
    place = tfn.NamedSharding(tfn.make_mesh((1,), "x"), tfn.P("x"))
    assert ones(np.zeros(2), out_sharding=place).sharding == place


def test_functions_with_the_same_keywords_are_as_they_are():
    assert keywords.adapted("jax.numpy", "sin", tnp.sin) is tnp.sin
    assert keywords.adapted("jax.numpy", "pi", 3) == 3


def test_every_row_names_a_function_and_its_argument():
    for module, rows in keywords.RENAMED.items():
        source = importlib.import_module(MODULES[module].source)
        for pairs, names in rows.items():
            for name in names.split():
                own = inspect.signature(getattr(source, name)).parameters
                for pair in pairs.split():
                    theirs, ours = pair.split("=")
                    assert ours in own and theirs not in own, (module, name, pair)


def test_a_wrapped_function_says_where_it_is():
    wrapped = keywords.adapted("jax.numpy", "sum", tnp.sum)
    assert (wrapped.__module__, wrapped.__qualname__) == ("jax.numpy", "sum")
    with pytest.raises((pickle.PicklingError, ImportError, AttributeError)):
        pickle.dumps(wrapped)  # in this process jax is not tfn
