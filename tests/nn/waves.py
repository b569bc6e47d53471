"""Numbers that PyTorch can make too, for values recorded from it (version 2.13)."""

from __future__ import annotations

from math import prod

import numpy as np
from numpy.testing import assert_allclose

from tfn import Array
from tfn import numpy as jnp


def wave(*shape: int, start: int = 0) -> Array:
    """sin(0.7 n) for n from `start` on; in PyTorch ``torch.sin(0.7 * torch.arange(...))``."""
    count = np.arange(start, start + prod(shape))
    return jnp.asarray(np.sin(count * 0.7).reshape(shape).astype(np.float32))


def agrees(actual: Array, recorded: list[float]) -> None:
    """The first elements are those recorded, up to the 5 digits that were."""
    assert_allclose(np.asarray(actual).ravel()[: len(recorded)], recorded, rtol=1e-4, atol=2e-5)
