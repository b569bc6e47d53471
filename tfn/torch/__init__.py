"""PyTorch: its networks as functions, and its `torch.compile` with this compiler.

PyTorch itself is imported when one of these is used.  In reading order:
    export: `from_exported` and `from_module`, networks as pure functions of trees.
    backend: `torch.compile(module, backend="tfn")`.
    layer: `to_torch`, a function of tfn as one of PyTorch, with a derivative.
    graph: graphs of PyTorch, node by node.
    exchange: tensors as arrays and arrays as tensors, in the same memory.
    library: PyTorch itself.
    ops: a function for each operation.
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.torch.export import from_exported as from_exported
    from tfn.torch.export import from_module as from_module
    from tfn.torch.layer import to_torch as to_torch
