"""The table of JAX's names: what it names is there."""

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tfn.numpy as tnp
from tests.covering import together
from tfn.compat.names import MODULES


@together("name", sorted(MODULES))
def test_parents_come_before_their_modules(name):
    order = list(MODULES)
    parent = name.rpartition(".")[0]
    assert not parent or order.index(parent) < order.index(name)


@together("name", sorted(MODULES))
def test_every_row_can_be_imported(name):
    names = MODULES[name]
    if names.source:
        importlib.import_module(names.source)
    for place in names.elsewhere.values():
        module, _, attribute = place.partition(":")
        assert hasattr(importlib.import_module(module), attribute or "__name__"), place


def test_the_page_of_names_is_what_the_table_says_now():
    """In a process of its own: modules that other tests have imported are attributes, too."""
    place = Path(__file__).parents[2] / "docs" / "jax_names.py"
    code = f"import runpy; made = runpy.run_path({str(place)!r}); print(made['page'](), end='')"
    page = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert (place.parent / "jax_names.md").read_text() == page.stdout, (
        "run python docs/jax_names.py"
    )


def test_shapes_of_what_is_no_array():
    """TensorFlow Probability asks for the shape of None, and of lists."""
    shape, ndim, size = (
        getattr(importlib.import_module(module), name)
        for name in ("shape", "ndim", "size")
        for module, _, name in [MODULES["jax.numpy"].elsewhere[name].partition(":")]
    )
    x = tnp.ones((2, 3))
    assert (shape(None), ndim([[1]]), shape(x), size(x, 1)) == ((), 2, (2, 3), 3)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "bfloat16", "float16", "complex64"])
def test_limits_of_floats_are_scalars_of_their_dtype(dtype):
    """Libraries cast them: flax's 8-bit floats do."""
    module, _, name = MODULES["jax.numpy"].elsewhere["finfo"].partition(":")
    limits = getattr(importlib.import_module(module), name)(dtype)
    for limit in (limits.max, limits.min, limits.eps, limits.tiny, limits.smallest_normal):
        assert limit.dtype == limits.dtype and limit.astype("float32") == np.float32(limit)
