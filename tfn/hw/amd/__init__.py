"""AMD: GPUs from LLVM IR to machine code, and an emulator that runs it.  It never ran on a card.

In reading order:
    target: the GPUs, as data.
    compiler: LLVM IR to object files.
    code_object: their linker and loader.
    bus: what a GPU is to its queue.
    memory: buffers of the GPU.
    queue: launches kernels in order.
    emulator: a GPU that runs machine code on the host.
    device: five parts together.
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.hw.amd import device as device
    from tfn.hw.amd import emulator as emulator
