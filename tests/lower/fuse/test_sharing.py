"""Sorts and scans as kernels of their own: a processor runs them as they are."""

from __future__ import annotations

from tests.lower.check_passes import HOST
from tests.lower.graphs import p
from tfn.dtypes import INT32
from tfn.lower.fuse.sharing import share
from tfn.numpy.cumulative import running
from tfn.trace import build
from tfn.trace.op import Op


def test_processors_keep_sorts_and_scans() -> None:
    outputs = [*build.sort([p(0, 5000, dtype=INT32)]), running(p(1, 5000), Op.ADD)]
    assert share(outputs, HOST) == outputs
