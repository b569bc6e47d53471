"""Algorithms of SciPy in the middle of a program: declared results, once for each lane."""

import numpy as np

import tfn
from tfn.scipy import on_host


def test_functions_run_for_each_lane_and_have_no_derivative():
    kind = tfn.ShapeDtypeStruct((4,), np.int32)

    def groups(x):
        return on_host.call("stats.rankdata", kind, x, method="dense")

    x = np.float64([[3, 1, 2, 2], [1, 2, 3, 4]])
    found = tfn.jit(tfn.vmap(groups))(x)
    assert found.tolist() == [[3, 1, 2, 2], [1, 2, 3, 4]] and found.dtype == np.int32
    slope = tfn.grad(lambda x: (groups(x) * x).sum())(x[0])
    assert slope.tolist() == [3, 1, 2, 2]
