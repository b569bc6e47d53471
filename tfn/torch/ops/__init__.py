"""Operations of ATen: one function each, under the name of its packet, with its arguments.

A row has the name of a packet, "add", or where overloads differ in more than the types of their
arguments that of an overload, "max.dim"; operations of other libraries have it in front,
"prims::iota".  One that asks for `random_key` gets a function that gives a key of its own; one
that asks for `node` gets the node of the graph, for what PyTorch knows of memory.  What has no row,
PyTorch itself decomposes into operations that have.  In reading order:

known        values of a graph, rules for dtypes
elementwise  one element at a time, comparisons, activations
movement     shapes, axes, slices, pads
indexing     gathers, scatters, embeddings
reductions   sums, extremes, sorts, softmax
windows      convolutions, pools, normalizations
products     products of matrices, attention, distances, Fourier transforms
matrices     factorizations of matrices, what is solved by them
recurrent    RNN, GRU, LSTM
samples      random numbers
sizes        sizes and checks

Source: https://docs.pytorch.org/docs/stable/torch.compiler_ir.html
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfn.torch.ops import (
    elementwise,
    indexing,
    matrices,
    movement,
    products,
    recurrent,
    reductions,
    samples,
    sizes,
    windows,
)

OPS: dict[str, Callable[..., Any]] = {
    **elementwise.OPS,
    **movement.OPS,
    **indexing.OPS,
    **reductions.OPS,
    **windows.OPS,
    **products.OPS,
    **matrices.OPS,
    **recurrent.OPS,
    **samples.OPS,
    **sizes.OPS,
}
"""Functions by the names of operations."""
