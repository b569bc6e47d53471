"""Rules of saving: a function for each operation of tfn, which writes nodes of ONNX.

elementwise  constants, one element at a time, bits, random words
movement     shapes, axes, slices, pads, windows at computed places
products     reductions, contractions, convolutions, sorts
control      loops, branches, calls
"""

from __future__ import annotations

from tfn.onnx.builder import Rule
from tfn.onnx.insides import Op
from tfn.onnx.rules import control, elementwise, movement, products

RULES: dict[Op, Rule] = {
    **elementwise.RULES,
    **movement.RULES,
    **products.RULES,
    **control.RULES,
}
"""Rules by the operations of tfn.  Operations without one are listed before a file is written."""
