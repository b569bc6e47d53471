"""CUDA: NVIDIA's GPUs, by the library of their driver alone.

In reading order:
    target: the chips as data, for machines that have none.
    library: libcuda by ctypes, and its errors by name.
    driver: the GPU of this process: context, streams, events, its target.
    compiler: LLVM IR to PTX, and PTX to machine code; both are kept on disk.
    exchange: values that go from GPU to GPU, by copies of the driver.
    nccl: the same by NCCL, where it is installed.
    nccl_processes: the same between processes.
    memory: a pool of blocks, and copies by way of pinned memory.
    table: addresses of operands in the memory of the device.
    control: kernels that decide loops and branches.
    graph: commands as a CUDA graph.
    launch: what entries of programs call: from addresses to a launch, natively; launch.ll.
    solver: routines of LAPACK by cuSOLVER, where it is installed.
    queue: launches graphs, and steps through what needs the host.
    peers: GPUs that run the program of a mesh together.
    device: five parts together, for one GPU or several.
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.hw.cuda import device as device
