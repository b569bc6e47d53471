"""Text of targets, one file each.

- `writer`: LLVM IR as it grows: types, names, addresses.
- `access`: loads and stores.
- `matrix`: matrices in registers of their own.
- `llvm`: a kernel's instructions as LLVM IR.
- `driver`: the function that runs a program's kernels, with its barriers, as LLVM IR.
- `c`: the same in C.
"""
