"""What saving is tested by: a function beside the file that was made of it."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pytest import MonkeyPatch

import tfn
from tfn import onnx, tree
from tfn.config import config
from tfn.onnx import schema, wire

RNG = np.random.default_rng(0)
RUNTIME = importlib.util.find_spec("onnxruntime") is not None


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


def integers(most: int, *shape: int) -> np.ndarray[Any, Any]:
    return RNG.integers(0, most, shape).astype(np.int32)


def model_of(function: Callable[..., Any], *specs: Any) -> bytes:
    """The bytes of the file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        onnx.save(function, *specs, path=path)
        return path.read_bytes()


def message(data: bytes) -> dict[str, Any]:
    """The messages of a file."""
    return wire.parse(memoryview(data), "Model", schema.SCHEMAS)


def operations(function: Callable[..., Any], *specs: Any) -> list[str]:
    """The operations of the nodes of the file, in order."""
    return [node["op"] for node in message(model_of(function, *specs))["graph"]["nodes"]]


def close(got: Sequence[Any], want: Sequence[Any]) -> None:
    """Raise unless arrays have the same shapes and dtypes, and nearly the same values."""
    assert len(got) == len(want)
    for g, w in zip(map(np.asarray, got), map(np.asarray, want)):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        wide = np.dtype(np.float64) if w.dtype.kind not in "iub" else w.dtype
        bound = 2e-5 if w.dtype.itemsize >= 4 else 1e-2
        np.testing.assert_allclose(g.astype(wide), w.astype(wide), rtol=bound, atol=bound / 2)


def holds(function: Callable[..., Any], *args: Any, specs: Sequence[Any] = ()) -> None:
    """Raise unless the file that is made for `specs` gives what the function gives.

    It is loaded again, and run by onnxruntime where that is installed.
    """
    data = model_of(function, *(specs or args))
    leaves = [np.asarray(x) for x in tree.leaves(args)]
    with MonkeyPatch.context() as patch:
        patch.setattr(config, "device", "python")  # which compiles nothing
        want = [np.asarray(x) for x in tree.leaves(tfn.jit(function)(*args))]
        loaded = onnx.load(data)
        got = tfn.jit(loaded)(*leaves)
    close([got[name] for name in loaded.outputs], want)
    if RUNTIME:
        close(run(data, leaves), want)


def run(data: bytes, values: Sequence[Any]) -> list[Any]:
    """The results of onnxruntime."""
    import onnxruntime

    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    return list(session.run(None, {i.name: x for i, x in zip(session.get_inputs(), values)}))
