"""Limits of the machine: what one core does at all, measured by the timer of kernels.

Arithmetic is measured by a product of matrices that stays in the cache, memory by a copy that does
not.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from math import isfinite
from typing import Any

from tfn.errors import DeviceError
from tfn.extend import Device, Jitted, KernelTimer, Op, ShapeDtypeStruct, pipeline, walk

MATRIX_SIZE = 512
"""Rows and columns of the product that measures arithmetic: three megabytes, in the L2 cache."""

ATTEMPTS = 3
"""Measurements that are begun: on a busy machine the first may end at the timer's deadline."""

COPY_BYTES = 1 << 26
"""Bytes of the array that is copied: beyond the caches of a core, and filled in a moment."""


@cache
def limits(device: Device, dtype: str = "float32") -> tuple[float, float]:
    """Floating operations and bytes that one core does in a nanosecond, measured once.

    Args:
        device: the device, of which a core is measured.
        dtype: of the factors of products; some processors multiply narrow ones twice as fast.

    Raises:
        DeviceError: if the machine is so busy that the two kernels do not end in time.
    """
    n = MATRIX_SIZE
    matrix = ShapeDtypeStruct((n, n), dtype)
    row = ShapeDtypeStruct((COPY_BYTES // 4,), "float32")
    assert device.kernel_timer is not None
    with device.kernel_timer(device.target) as timer:
        for _ in range(ATTEMPTS):
            multiplied_ns = _fastest_ns(operator.matmul, (matrix, matrix), device, timer)
            copied_ns = _fastest_ns(operator.neg, (row,), device, timer)
            if isfinite(multiplied_ns + copied_ns):
                break
    if not isfinite(multiplied_ns + copied_ns):
        raise DeviceError(
            "the limits of one core could not be measured",
            got="a product or a copy that did not end in time",
            hint="measure when the machine has a core for it",
        )
    return 2 * n**3 / multiplied_ns, 2 * COPY_BYTES / copied_ns


def _fastest_ns(
    function: Callable[..., Any], args: tuple[Any, ...], device: Device, timer: KernelTimer
) -> float:
    """The time of all kernels of a function."""
    total_ns = 0.0
    jaxpr = Jitted(function).trace(*args).jaxpr
    for launch in pipeline.lower(jaxpr, device.target).launches:
        body = launch.kernel.source
        assert body is not None, "a kernel of `pipeline.kernel`"
        params = {u.arg.index: u for u in walk([body]) if u.op is Op.PARAM}
        buffers = [(params[i].size, params[i].dtype) for i in range(len(params))]
        total_ns += timer.measure(launch.kernel, buffers)
    return total_ns
