"""The installed runtime: loaded when it is first needed, and asked by the language alone."""

from __future__ import annotations

import subprocess
import sys

import numpy as np

import tfn
import tfn.numpy as tnp
from tfn.eager import run
from tfn.inspect.show import View
from tfn.trace import runtime

FIRST_USE = """
import sys
import tfn
from tfn.trace import runtime
assert "tfn.eager.run" not in sys.modules
assert runtime.installed().asarray(3.0).item() == 3.0
assert "tfn.eager.run" in sys.modules
"""


def test_the_runtime_is_loaded_at_its_first_use() -> None:
    subprocess.run([sys.executable, "-c", FIRST_USE], check=True)


def test_the_runtime_is_the_executor() -> None:
    assert runtime.installed() is run
    assert runtime.device_put(tnp.ones(3), None).tolist() == [1, 1, 1]
    traced = tfn.jit(lambda x: x + 1).trace(np.float32(1))
    assert isinstance(runtime.view(traced.jaxpr), View)


def test_a_program_that_was_not_made_has_no_statistics() -> None:
    jaxpr = tfn.jit(lambda x: x * 3 + 7).trace(np.ones(13, np.float32)).jaxpr
    assert runtime.installed().compile_stats(jaxpr) == runtime.CompileStats()
