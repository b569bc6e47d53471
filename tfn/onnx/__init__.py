"""ONNX: networks that other libraries exported, as functions to differentiate, batch and export.

In reading order:
    model: `load`, and the module that it gives: parameters, inputs, outputs, a call.
    graph: nodes, constants and types of a file as records, checked.
    schema: the messages of a file, as data.
    wire: Protocol Buffers, without trust.
    ops: a function for each operation.
    saving: `save`, which writes a function as a file.
    rules: a function for each operation of tfn, which writes nodes.
    builder: graphs in the making.
    sizes: one graph for all sizes, where sizes are open.
    tidy: equal nodes joined, names.
    insides: what saving needs of the inside of tfn.
    __main__: the command `python -m tfn.onnx`.
"""

from tfn.onnx.model import Model as Model
from tfn.onnx.model import load as load
from tfn.onnx.saving import save as save
