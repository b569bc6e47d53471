"""optax, as it comes from PyPI: its optimisers, schedules and losses give what they give with JAX.

`compat/optax_runs.py` was run with JAX 0.10.2 and optax 0.2.8 to record ``data/optax.json``; here
it runs in a process of its own, where ``import jax`` means tfn.
"""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

HERE = Path(__file__).parent
RECORDED = json.loads((HERE / "data" / "optax.json").read_text())

pytestmark = pytest.mark.skipif(
    find_spec("optax") is None or find_spec("absl") is None,
    reason="optax is not installed: pip install --no-deps optax absl-py",
)


@pytest.fixture(scope="module")
def found():
    """What each case gives with tfn."""
    done = subprocess.run(
        [sys.executable, str(HERE / "compat" / "optax_runs.py"), "--tfn"],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=HERE.parent,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_equal_to_jax(name, found):
    assert not isinstance(found[name], str), found[name]
    np.testing.assert_allclose(found[name], RECORDED[name], rtol=1e-5, atol=1e-5)


def test_every_optimiser_is_run():
    code = (
        "from tfn.compat import install_as_jax; install_as_jax()\n"
        "import inspect; from optax._src import alias\n"
        "print(*[n for n, f in vars(alias).items() if getattr(f, '__module__', '') == "
        "alias.__name__ and inspect.isfunction(f) and n[0] != '_'])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    missing = {f"optimiser {name}" for name in out.stdout.split()} - RECORDED.keys()
    assert not missing
