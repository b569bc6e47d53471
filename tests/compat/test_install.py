"""``import jax`` in a process of its own, where it means tfn."""

import subprocess
import sys
import textwrap

import pytest


def run(code: str) -> str:
    """Returns the output of a new process."""
    actual = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert actual.returncode == 0, actual.stderr
    return actual.stdout


def test_modules_resolve_to_tfn():
    out = run("""
        from tfn.compat import install_as_jax
        install_as_jax()
        install_as_jax()  # twice does no harm
        import importlib.util
        import jax, jax.numpy as jnp, jax.tree_util
        from jax import lax, nn, random, vmap
        from jax.flatten_util import ravel_pytree
        from jax.sharding import PartitionSpec as P
        import tfn
        assert importlib.util.find_spec("jax") is not None
        assert jax.linearize is tfn.linearize and jnp.sin is tfn.numpy.sin
        assert lax.scan is tfn.lax.scan
        assert jax.Array is tfn.Array and isinstance(jnp.ones(2), jax.Array)
        assert nn.relu is tfn.nn.relu and random.key is tfn.random.key
        assert "sin" in dir(jnp) and "grad" in dir(jax)
        assert jax.jit(lambda x: 2 * x, inline=True, keep_unused=True)(2.0) == 4
        assert jax.devices()[0].platform == "cpu" and jax.device_count() == 1
        assert jax.process_index() == 0 and jax.process_count() == 1
        assert str(jax.typeof(jnp.ones((2, 3)))) == "float32[2,3]"
        assert jax.tree_util.tree_map(lambda x: x + 1, {"a": 1}) == {"a": 2}
        assert jax.lax.cond(True, 1.0, lambda x: x, 2.0, lambda y: y) == 1.0
        jax.clear_caches()
        assert jax.jit(lambda x: 3 * x)(2.0) == 6 and jnp.ones(2).sum() == 2
        assert jax.config.jax_enable_x64 is False
        jax.config.update("jax_enable_x64", True)
        assert tuple(P("a", None)) == ("a", None)
        key = jax.random.key(0)
        jax.random.normal(key), jax.random.normal(key)
        jax.config.update("jax_debug_key_reuse", True)
        try:
            jax.random.normal(key), jax.random.normal(key)
        except jax.errors.KeyReuseError:
            print("used twice")
        kinds = []
        jax.jit(lambda x: kinds.append(isinstance(x, jax.core.Tracer)) or x)(1.0)
        print(kinds, isinstance(jnp.ones(2), jax.core.Tracer), jax.__version_info__ > (0, 4))
    """)
    assert out == "used twice\n[True] False True\n"


def test_a_name_that_is_not_there_is_named():
    out = run("""
        from tfn.compat import install_as_jax
        install_as_jax()
        import jax.numpy as jnp
        print(hasattr(jnp, "no_such_thing"))
        try:
            jnp.arcsinn
        except AttributeError as error:
            print(error)
        try:
            import jax.no_such_module
        except ModuleNotFoundError as error:
            print(error)
    """)
    lines = out.splitlines()
    assert lines[0] == "False"
    assert lines[1].startswith("tfn has nothing under the name jax.numpy.arcsinn; there is arcsin")
    assert lines[2] == "No module named 'jax.no_such_module'"


def test_jax_itself_is_not_replaced():
    out = run("""
        import sys, types
        from importlib.machinery import ModuleSpec
        real = sys.modules["jax"] = types.ModuleType("jax")
        from tfn.compat import install_as_jax
        try:
            install_as_jax()
        except ValueError as error:
            print(error)
        assert sys.modules["jax"] is real
    """)
    assert "JAX itself has been imported already" in out


@pytest.mark.parametrize("module", ["jax", "jax.numpy", "jax.lax"])
def test_nothing_is_installed_unasked(module):
    assert run(f"import sys, tfn, tfn.compat; print({module!r} in sys.modules)") == "False\n"


def test_names_of_dtypes_are_found_among_those_of_numpy() -> None:
    out = run("""
        from tfn.compat import install_as_jax
        install_as_jax()
        import jax, jax.numpy as jnp, numpy as np
        print(np.int32 in {jnp.int32}, jnp.float32 in {np.float32: 0})
        print(jnp.float_ == np.float64, jnp.int_ == np.int64, jnp.zeros(1, jnp.float_).dtype)
        jax.config.update("jax_enable_x64", True)
        print(jnp.zeros(1, jnp.float_).dtype, jnp.zeros(1, jnp.complex_).dtype)
    """)
    assert out == "True True\nTrue True float32\nfloat64 complex128\n"


def test_dicts_of_results_have_sorted_keys():
    """As JAX's have, whatever made them."""
    run("""
        from tfn.compat import install_as_jax
        install_as_jax()
        import jax, jax.numpy as jnp
        from collections import OrderedDict, defaultdict
        made = lambda x: {"b": x, "a": {"z": (x, x), "y": x}}
        for tree in (jax.jit(made)(1.0), jax.jit(made)(1.0), jax.vmap(made)(jnp.ones(2)),
                     jax.tree.map(lambda x: x, made(1)), jax.eval_shape(made, 1.0),
                     jax.grad(lambda d: d["b"] * d["a"]["y"])(made(2.0) | {"c": 3.0}),
                     jax.tree.unflatten(jax.tree.structure(made(1)), range(4))):
            assert list(tree)[:2] == ["a", "b"] and list(tree["a"]) == ["y", "z"], tree
        kept = jax.tree.map(lambda x: x, OrderedDict(b=1, a=2))
        assert list(kept) == ["b", "a"]
        lists = jax.tree.map(lambda x: x, defaultdict(list, b=1, a=2))
        assert list(lists) == ["a", "b"] and lists["c"] == []
        assert jax.tree.structure({"b": 1, "a": 2}) == jax.tree.structure({"a": 1, "b": 2})
    """)
