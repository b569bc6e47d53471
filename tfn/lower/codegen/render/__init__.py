"""Renderers: instructions to the text of a target.

Files in reading order:
    writer  LLVM IR text as it grows: types, names, addresses
    access  loads and stores as LLVM IR
    matrix  matrices in tile registers (AMX) as LLVM IR
    llvm    a kernel's instructions as LLVM IR
    hexagon rows of Hexagon in place of those of llvm
    nvptx   kernels of a grid as LLVM IR for NVIDIA's GPUs
    amdgcn  kernels of a grid as LLVM IR for AMD's GPUs
    llvm_grid   parts of kernels that are the same for both
    timing  what a driver does where the times of its kernels are logged
    likely_indices  indices that are compared first, as most need no change
    whole_loop  a loop of one thread and its kernels as one function
    driver  the function that runs a program's kernels, with its barriers, as LLVM IR
    c       the same in C
    opencl  kernels of a grid in OpenCL C
"""
