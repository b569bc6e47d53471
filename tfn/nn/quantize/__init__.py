"""Quantized networks: int8 values, int32 sums, and integer arithmetic only.

Files in reading order:
    affine          scales and zero points: numbers as small integers, and back
    calibration     ranges of activations, observed on data
    requantization  sums of 32 bits back to 8 bits: a multiplier, a shift, a stated rounding
    layers          Linear and Conv of integers, made from layers of floats
    functions       softmax, layer norm, any function of int8 values by a table
    transformer     attention and the encoder layer of integers
    training        fake quantization with straight-through gradients
    accuracy        errors by layer, beside the network of floats

A network is trained in floats, calibrated on data, perhaps trained on with fake quantization, and
converted.  What is converted has no floats, so it gives the same bits on every device.

Source: Jacob et al. 2018, "Quantization and training of neural networks for efficient
integer-arithmetic-only inference", arXiv:1712.05877.
"""

# ruff: noqa: I001  (reading order)

from tfn.nn.quantize.affine import (
    Quantization as Quantization,
    per_channel as per_channel,
    per_tensor as per_tensor,
    symmetric as symmetric,
)
from tfn.nn.quantize.calibration import (
    Range as Range,
    calibrate as calibrate,
    follow as follow,
    observe as observe,
)
from tfn.nn.quantize.requantization import Requantization as Requantization
from tfn.nn.quantize.layers import (
    Conv as Conv,
    Linear as Linear,
    conv as conv,
    matmul as matmul,
)
from tfn.nn.quantize.functions import (
    LayerNorm as LayerNorm,
    Table as Table,
    of_sums as of_sums,
    softmax as softmax,
)
from tfn.nn.quantize.transformer import (
    EncoderLayer as EncoderLayer,
    MultiheadAttention as MultiheadAttention,
    activations as activations,
)
from tfn.nn.quantize.training import (
    fake_quantize as fake_quantize,
    fake_weights as fake_weights,
)
from tfn.nn.quantize.accuracy import (
    Comparison as Comparison,
    LayerAccuracy as LayerAccuracy,
    compare as compare,
)
