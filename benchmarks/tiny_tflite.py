"""The networks of `benchmarks/tiny.py` in TensorFlow Lite for Microcontrollers: bytes and arena.

    python -m benchmarks.tiny_tflite

Needs `pip install tflite-micro`, which allocates on this machine as the interpreter does on a
board, with pointers of 64 bits: only the head of the arena, activations, is the same on both.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import flatbuffers
import numpy as np
from tflite_micro.python.tflite_micro import runtime
from tflite_micro.tensorflow.lite.micro.python import schema_py_generated as tfl

POINTWISE = [(16, 1), (32, 2), (32, 1), (64, 2), (64, 1), (128, 2), *[(128, 1)] * 5]
POINTWISE += [(256, 2), (256, 1)]
CODES = tfl.BuiltinOperator


class Model:
    """Layers one after the other, on `now`; weights are random."""

    def __init__(self, *shape: int) -> None:
        self.buffers, self.tensors, self.operators = [tfl.BufferT()], [], []
        self.codes: list[tuple[int, int]] = []
        self.now = self.tensor(shape, 1)

    def tensor(self, shape: Any, scales: int, data: Any = None, axis: int = 0) -> int:
        """A tensor of int8, or of the dtype of its data, with so many scales."""
        made, quantization = tfl.TensorT(), tfl.QuantizationParametersT()
        kind = {"int8": "INT8", "int32": "INT32"}[data.dtype.name if data is not None else "int8"]
        made.shape, made.type = list(shape), getattr(tfl.TensorType, kind)
        quantization.scale, quantization.zeroPoint = [1.0] * scales, [0] * scales
        quantization.quantizedDimension, made.quantization = axis, quantization
        if data is not None:
            buffer = tfl.BufferT()
            buffer.data = np.frombuffer(data.tobytes(), np.uint8)
            made.buffer = len(self.buffers)
            self.buffers.append(buffer)
        self.tensors.append(made)
        return len(self.tensors) - 1

    def layer(
        self, code: int, version: int, options: str, inputs: Any, shape: Any, **to: Any
    ) -> None:
        """An operation with its options."""
        if (code, version) not in self.codes:
            self.codes.append((code, version))
        made, chosen = tfl.OperatorT(), getattr(tfl, options + "T")()
        for name, value in to.items():
            setattr(chosen, name, value)
        self.now = self.tensor(shape, 1)
        made.opcodeIndex, made.inputs = self.codes.index((code, version)), inputs
        made.outputs, made.builtinOptions = [self.now], chosen
        made.builtinOptionsType = getattr(tfl.BuiltinOptions, options)
        self.operators.append(made)

    def weights(self, shape: Any, outputs: int, scales: int, axis: int = 0) -> list[int]:
        """The tensors of weights and offsets."""
        data = np.random.default_rng(0).integers(-127, 128, shape).astype("int8")
        offsets = np.zeros(outputs, "int32")
        return [self.tensor(shape, scales, data, axis), self.tensor([outputs], scales, offsets)]

    def conv(self, outputs: int, height: int, width: int, stride: int = 1) -> None:
        """A convolution; by channel where there are no outputs."""
        _, rows, columns, inputs = self.tensors[self.now].shape
        size = [1, -(-rows // stride), -(-columns // stride), outputs or inputs]
        shape = [outputs or 1, height, width, inputs]
        parts = [self.now, *self.weights(shape, size[-1], size[-1], 0 if outputs else 3)]
        how = {"strideH": stride, "strideW": stride, "fusedActivationFunction": 1}
        if outputs:
            self.layer(CODES.CONV_2D, 3, "Conv2DOptions", parts, size, **how)
        else:
            how["depthMultiplier"] = 1
            self.layer(CODES.DEPTHWISE_CONV_2D, 3, "DepthwiseConv2DOptions", parts, size, **how)

    def linear(self, outputs: int) -> None:
        """A linear layer."""
        parts = [self.now, *self.weights([outputs, self.tensors[self.now].shape[-1]], outputs, 1)]
        self.layer(CODES.FULLY_CONNECTED, 4, "FullyConnectedOptions", parts, [1, outputs])

    def scores(self, outputs: int) -> bytes:
        """The model that ends with means of channels and a linear layer."""
        _, h, w, channels = self.tensors[self.now].shape
        window = {"strideH": h, "strideW": w, "filterHeight": h, "filterWidth": w, "padding": 1}
        size = [1, 1, 1, channels]
        self.layer(CODES.AVERAGE_POOL_2D, 2, "Pool2DOptions", [self.now], size, **window)
        flat = self.tensor([2], 0, np.array([1, channels], "int32"))
        self.layer(CODES.RESHAPE, 1, "ReshapeOptions", [self.now, flat], [1, channels])
        self.linear(outputs)
        return self.packed()

    def packed(self) -> bytes:
        """The model as bytes."""
        graph, model, builder = tfl.SubGraphT(), tfl.ModelT(), flatbuffers.Builder(1 << 20)
        graph.tensors, graph.operators = self.tensors, self.operators
        graph.inputs, graph.outputs = [0], [self.now]
        model.version, model.subgraphs, model.buffers = 3, [graph], self.buffers
        model.operatorCodes = []
        for code, version in self.codes:
            made = tfl.OperatorCodeT()
            made.builtinCode = made.deprecatedBuiltinCode = code
            made.version = version
            model.operatorCodes.append(made)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def keywords() -> bytes:
    """DS-CNN."""
    model = Model(1, 49, 10, 1)
    model.conv(64, 10, 4, 2)
    for _ in range(4):
        model.conv(0, 3, 3)
        model.conv(64, 1, 1)
    return model.scores(12)


def images() -> bytes:
    """ResNet of 8 layers."""
    model = Model(1, 32, 32, 3)
    model.conv(16, 3, 3)
    for outputs, stride in ((16, 1), (32, 2), (64, 2)):
        before = model.now
        model.conv(outputs, 3, 3, stride)
        model.conv(outputs, 3, 3)
        after = model.now
        if stride > 1:
            model.now = before
            model.conv(outputs, 1, 1, stride)
            before = model.now
        shape = model.tensors[after].shape
        model.layer(CODES.ADD, 2, "AddOptions", [before, after], shape)
    return model.scores(10)


def people() -> bytes:
    """MobileNet with a quarter of the channels."""
    model = Model(1, 96, 96, 3)
    model.conv(8, 3, 3, 2)
    for outputs, stride in POINTWISE:
        model.conv(0, 3, 3, stride)
        model.conv(outputs, 1, 1)
    return model.scores(2)


def anomalies() -> bytes:
    """An autoencoder."""
    model = Model(1, 640)
    for _, outputs in pairwise([640, *[128] * 4, 8, *[128] * 4, 640]):
        model.linear(outputs)
    return model.packed()


if __name__ == "__main__":
    for network in (keywords, images, people, anomalies):
        model = network()
        print(f"{network.__name__}: a model of {len(model):,} bytes", flush=True)
        runtime.Interpreter.from_bytes(model).print_allocations()
