"""Arguments of JAX that tfn's functions have not."""

import importlib
import inspect
import pickle

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.compat import omitted
from tfn.compat.names import MODULES
from tfn.errors import NotAvailableError


def test_advice_is_taken_and_changes_nothing():
    inverse = omitted.adapted("jax.scipy.linalg", "inv", tfn.scipy.linalg.inv)
    x = np.eye(2, dtype="float32") * 2
    np.testing.assert_array_equal(inverse(x, overwrite_a=True, check_finite=False), x / 4)


def test_what_cannot_be_done_is_refused():
    add = omitted.adapted("jax.numpy", "add", tnp.add)
    assert add(1, 2, out=None, where=True).item() == 3
    with pytest.raises(NotAvailableError, match="add has no where"):
        add(1, 2, where=False)


def test_results_are_divided_as_out_sharding_says():
    ones = omitted.adapted("jax.numpy", "ones_like", tnp.ones_like)
    assert ones(1.0, out_sharding=None).item() == 1.0
    place = tfn.NamedSharding(tfn.make_mesh((1,), "x"), tfn.P("x"))
    assert ones(np.zeros(2), out_sharding=place).sharding == place


def test_functions_with_the_same_keywords_are_as_they_are():
    assert omitted.adapted("jax.numpy", "sin", tnp.sin) is tnp.sin
    assert omitted.adapted("jax.numpy", "pi", 3) == 3


def test_no_row_names_an_argument_that_is_there():
    for table in (omitted.IGNORED, omitted.ONLY_NONE, omitted.SHARDED):
        for module, rows in table.items():
            source = importlib.import_module(MODULES[module].source)
            for keys, names in rows.items():
                for name in names.split():
                    own = inspect.signature(getattr(source, name)).parameters
                    assert not own.keys() & {*keys.split()}, (module, name)


def test_a_wrapped_function_says_where_it_is():
    wrapped = omitted.adapted("jax.numpy", "copy", tnp.copy)
    assert (wrapped.__module__, wrapped.__qualname__) == ("jax.numpy", "copy")
    with pytest.raises((pickle.PicklingError, ImportError, AttributeError)):
        pickle.dumps(wrapped)  # in this process jax is not tfn


def test_positional_arguments_have_the_order_of_jax():
    solve = omitted.adapted("jax.scipy.linalg", "solve", tfn.scipy.linalg.solve)
    eye = np.eye(2, dtype="float32")
    assert solve(eye, eye, False, False, False, False, True, "pos").tolist() == eye.tolist()
    choice = omitted.adapted("jax.random", "choice", tfn.random.choice)
    with pytest.raises(TypeError, match="positional"):
        choice(*[eye] * 12)
