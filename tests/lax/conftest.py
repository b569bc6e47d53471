"""What tests of loops need: a device that runs them."""

from __future__ import annotations

import pytest

import tfn
from tfn import lax


@pytest.fixture(scope="session")
def needs_loops() -> None:
    """Skip where the default device has no lowering for loops."""
    try:
        lax.scan(lambda c, x: (c + x, c), 0, tfn.numpy.arange(3))
    except Exception as error:
        pytest.skip(f"the default device cannot lower SCAN: {type(error).__name__}")
