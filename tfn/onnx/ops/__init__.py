"""Operations of ONNX: one function each, under its name, with the names of its attributes.

Attributes are keyword arguments.  A function that asks for `opset` gets the version of the
operations, where the meaning of one has changed; `outputs` is how many results are asked for,
`run` runs the graph of a branch or body, `key` gives random keys, `training` says whether the
model is trained.  In reading order:

known        values while a graph runs, and what is known of them
elementwise  one element at a time, casts, activations
movement     shapes, axes, slices, pads
indexing     elements at indices, sorts, reductions
windows      convolutions, pools, normalizations
products     products of matrices, attention, values of 8 bits
recurrent    RNN, GRU, LSTM
images       samples between elements: resizes, grids, regions
signal       losses, Fourier transforms, random numbers
control      branches, loops, sequences
fused_attention  attention of com.microsoft
microsoft    operations of com.microsoft

Source: the ONNX operator schemas, https://onnx.ai/onnx/operators.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfn.onnx.ops import (
    control,
    elementwise,
    images,
    indexing,
    microsoft,
    movement,
    products,
    recurrent,
    signal,
    windows,
)

OPS: dict[str, Callable[..., Any]] = {
    **elementwise.OPS,
    **movement.OPS,
    **indexing.OPS,
    **windows.OPS,
    **products.OPS,
    **recurrent.OPS,
    **images.OPS,
    **signal.OPS,
    **control.OPS,
    **{name: microsoft.OPS[name] for name in microsoft.IN_STANDARD},
}
"""Functions by the names of operations of the standard."""

MICROSOFT: dict[str, Callable[..., Any]] = microsoft.OPS
"""Functions of operations of com.microsoft; others in that domain are those of the standard."""
