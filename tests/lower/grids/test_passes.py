"""Passes of grids: those of processors by name, with the same stages between them."""

from __future__ import annotations

import subprocess
import sys

from tests.lower.check_passes import GRID as TARGET
from tests.lower.graphs import p
from tfn.lower.grids.passes import GRID, thread_count
from tfn.lower.languages import passes_of
from tfn.lower.passes import CORES
from tfn.trace import build
from tfn.trace.jaxpr import function


def test_a_grid_has_the_stages_of_processors() -> None:
    for name in CORES.__dataclass_fields__:
        core, grid = getattr(CORES, name), getattr(GRID, name)
        assert (core.name, core.before, core.after) == (grid.name, grid.before, grid.after)


def test_threads_share_an_elementwise_kernel_and_a_sort() -> None:
    passes, x = passes_of(TARGET), p(0, 1000)
    (sum_of_two,) = passes.ranges(passes.boundaries(function([x + x], (x.arg,)), TARGET), TARGET)
    nest = passes.split(passes.decompose(sum_of_two.body, TARGET), TARGET)
    assert thread_count(nest) > 1
    (ordered,) = build.sort([x])
    kernels = passes.ranges(passes.boundaries(function([ordered], (x.arg,)), TARGET), TARGET)
    assert max(thread_count(kernel.body) for kernel in kernels) > 1


def test_a_processor_loads_none_of_the_passes_of_grids() -> None:
    program = """
import sys, tfn
tfn.jit(tfn.numpy.sort)(tfn.numpy.ones(8))
print([name for name in sys.modules if name.startswith("tfn.lower.grids.")])
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.strip() == "[]", ran.stdout
