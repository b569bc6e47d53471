"""The messages of ONNX files, as data: the fields by number that tfn reads.

Source: onnx.proto3 of ONNX 1.23, IR version 13.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

from tfn.onnx.wire import Field, Schema


def _schema(text: str) -> Schema:
    """Fields by number from lines of a number, a kind and a name; a star marks repeated ones."""
    rows = {}
    for line in text.strip().splitlines():
        number, kind, name = line.split()
        rows[int(number)] = Field(name, kind.rstrip("*"), kind.endswith("*"))
    return rows


SCHEMAS: dict[str, Schema] = {
    "Model": _schema("""
        1 int ir_version
        2 str producer
        3 str producer_version
        7 Graph graph
        8 Opset* opsets
        25 Function* functions
    """),
    "Opset": _schema("""
        1 str domain
        2 int version
    """),
    "Graph": _schema("""
        1 Node* nodes
        2 str name
        5 Tensor* initializers
        11 Value* inputs
        12 Value* outputs
        15 Sparse* sparse_initializers
    """),
    "Node": _schema("""
        1 str* inputs
        2 str* outputs
        3 str name
        4 str op
        5 Attribute* attributes
        7 str domain
    """),
    "Function": _schema("""
        1 str name
        4 str* inputs
        5 str* outputs
        6 str* attributes
        7 Node* nodes
        9 Opset* opsets
        10 str domain
        11 Attribute* defaults
    """),
    "Attribute": _schema("""
        1 str name
        2 float f
        3 int i
        4 bytes s
        5 Tensor t
        6 Graph g
        7 float* floats
        8 int* ints
        9 bytes* strings
        10 Tensor* tensors
        11 Graph* graphs
        14 Type tp
        20 int type
        21 str reference
        22 Sparse sparse
    """),
    "Tensor": _schema("""
        1 int* dims
        2 int dtype
        4 float* floats
        5 int* int32s
        6 bytes* strings
        7 int* int64s
        8 str name
        9 bytes raw
        10 double* doubles
        11 int* uint64s
        13 Entry* external
        14 int location
    """),
    "Sparse": _schema("""
        1 Tensor values
        2 Tensor indices
        3 int* dims
    """),
    "Entry": _schema("""
        1 str key
        2 str value
    """),
    "Value": _schema("""
        1 str name
        2 Type type
    """),
    "Type": _schema("""
        1 TensorType tensor
        4 Element sequence
        9 Element optional
    """),
    "Element": _schema("""
        1 Type type
    """),
    "TensorType": _schema("""
        1 int dtype
        2 Shape shape
    """),
    "Shape": _schema("""
        1 Dim* dims
    """),
    "Dim": _schema("""
        1 int size
        2 str symbol
    """),
}
"""Messages by name; a kind that is the name of a message is one within it."""

# fmt: off
DTYPES = {number: np.dtype(dtype) for number, dtype in {
    1: np.float32, 2: np.uint8, 3: np.int8, 4: np.uint16, 5: np.int16, 6: np.int32, 7: np.int64,
    9: np.bool_, 10: np.float16, 11: np.float64, 12: np.uint32, 13: np.uint64, 14: np.complex64,
    15: np.complex128, 16: ml_dtypes.bfloat16, 17: ml_dtypes.float8_e4m3fn,
    18: ml_dtypes.float8_e4m3fnuz, 19: ml_dtypes.float8_e5m2, 20: ml_dtypes.float8_e5m2fnuz,
    21: ml_dtypes.uint4, 22: ml_dtypes.int4, 23: ml_dtypes.float4_e2m1fn,
    24: ml_dtypes.float8_e8m0fnu, 25: ml_dtypes.uint2, 26: ml_dtypes.int2,
}.items()}
"""Element types by the numbers of TensorProto.DataType."""

BITS = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}
"""Bits of an element where several share a byte, the first in the lowest bits."""
# fmt: on

STRING = 8
"""The number of texts, which are no numbers: no array of tfn holds them."""
