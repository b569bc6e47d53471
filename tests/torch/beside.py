"""PyTorch beside tfn: whether it is here, and arguments as tensors and as arrays."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

from tfn import numpy as jnp
from tfn.torch.library import pytorch

HERE = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HERE, reason="PyTorch is not installed: pip install torch")
"""The tests that hold tfn against PyTorch itself; all others need only NumPy."""
MARKS = [
    needs_torch,
    pytest.mark.filterwarnings(r"ignore:.*LeafSpec:FutureWarning"),
    pytest.mark.filterwarnings(r"ignore:The tensor attributes:UserWarning"),  # of its own LSTM
]
"""Those of files of such tests: PyTorch uses what it has deprecated."""


def mapped(value: Any, function: Any) -> Any:
    """A value, or lists and dictionaries of values, with a function of the arrays in it."""
    if isinstance(value, np.ndarray):
        return function(value)
    if isinstance(value, dict):
        return {k: mapped(v, function) for k, v in value.items()}
    return (
        type(value)(mapped(v, function) for v in value) if type(value) in (list, tuple) else value
    )


def tensors(value: Any) -> Any:
    return mapped(value, lambda a: pytorch().from_numpy(a.copy()))


def arrays(value: Any) -> Any:
    return mapped(value, jnp.asarray)


def as_numpy(value: Any) -> Any:
    """Results as a flat list of NumPy arrays."""
    if isinstance(value, (list, tuple)):
        return [part for v in value for part in as_numpy(v)]
    if value is None:
        return []
    if not hasattr(value, "detach"):
        return [np.asarray(value)]
    return [value.detach().resolve_conj().numpy(force=True)]
