"""Keyword arguments under JAX's names."""

import importlib
import inspect
import json
import pickle
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.compat import keywords
from tfn.compat.names import MODULES
from tfn.errors import NotAvailableError


def test_a_function_takes_the_names_of_jax():
    x = tnp.arange(6.0).reshape(2, 3)
    assert tnp.sum(a=x, axis=1).tolist() == [3.0, 12.0]
    assert tfn.grad(fun=lambda x: x * x)(3.0).item() == 6.0
    assert tfn.lax.reshape(operand=x, new_sizes=(6,)).shape == (6,)


def test_advice_is_taken_and_changes_nothing():
    inverse = keywords.adapted("jax.scipy.linalg", "inv", tfn.scipy.linalg.inv)
    x = np.eye(2, dtype="float32") * 2
    np.testing.assert_array_equal(inverse(x, overwrite_a=True, check_finite=False), x / 4)


def test_what_cannot_be_done_is_refused():
    add = keywords.adapted("jax.numpy", "add", tnp.add)
    assert add(1, 2, out=None, where=True).item() == 3
    with pytest.raises(NotAvailableError, match="add has no where"):
        add(1, 2, where=False)


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


ROOT = Path(__file__).parents[2]
names_of_compat = SimpleNamespace(**runpy.run_path(str(ROOT / "docs" / "jax_names.py")))
SIGNATURES = json.loads((Path(__file__).parents[1] / "data" / "jax_signatures.json").read_text())
LEFT_OUT = {
    "jax.lax.linalg.qdwh": {"dynamic_shape": "shapes are static"},
    "jax.lax.linalg.schur": {
        "sort_eig_vals": "values are in LAPACK's order",
        "select_callable": "values are in LAPACK's order",
    },
    "jax.lax.scan": {"_split_transpose": "private"},
}


@pytest.mark.parametrize("module", SIGNATURES)
def test_functions_take_the_arguments_of_jax(module):
    """All keywords, and positional arguments in JAX's order: ``(a, axis, out, keepdims)``."""
    names = MODULES.get(module)
    for name, text in SIGNATURES[module].items():
        if names is None or not names_of_compat.there(module, name):
            continue
        place = names.elsewhere.get(name) or f"{names.source}:{name}"
        source, _, attribute = place.partition(":")
        function = importlib.import_module(source)
        function = getattr(function, attribute) if attribute else function
        if not callable(function) or isinstance(function, type):
            continue
        own = inspect.signature(function).parameters
        if any(p.kind == p.VAR_KEYWORD for p in own.values()):
            continue
        positional, _, keyword = text.partition("|")
        theirs = [key.rstrip("/") for key in positional.split()]
        known = {**dict.fromkeys(own), **keywords.spellings(module, name)}
        missing = {key for key in (*theirs, *keyword.split()) if key not in known}
        missing -= {key.rstrip("/") for key in positional.split() if key.endswith("/")}
        missing -= LEFT_OUT.get(f"{module}.{name}", {}).keys()
        assert not missing, f"{module}.{name} takes no {missing}: tfn/compat/keywords.py"
        table = keywords.positions(module, name)
        if table:
            assert list(table) == theirs, f"{module}.{name}: ORDER in tfn/compat/keywords.py"
            continue
        mine = [
            p.name for p in own.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        translated = [keywords.spellings(module, name).get(key) or key for key in theirs]
        for i, key in enumerate(theirs):
            is_private = key in LEFT_OUT.get(f"{module}.{name}", {})
            unnamed = positional.split()[i].endswith("/")
            fits = i < len(mine) and (unnamed or mine[i] == translated[i])
            assert fits or is_private, f"{module}.{name}: ORDER in tfn/compat/keywords.py, {theirs}"


def test_positional_arguments_have_the_order_of_jax():
    total = keywords.adapted("jax.numpy", "sum", tnp.sum)
    x = np.ones((2, 3), "float32")
    assert total(x, 1, None, None, True).shape == (2, 1)
    assert keywords.adapted("jax.numpy", "max", tnp.max)(x, 0, None, True).shape == (1, 3)
    solve = keywords.adapted("jax.scipy.linalg", "solve", tfn.scipy.linalg.solve)
    eye = np.eye(2, dtype="float32")
    assert solve(eye, eye, False, False, False, False, True, "pos").tolist() == eye.tolist()
    with pytest.raises(TypeError, match="positional"):
        total(*[x] * 12)
