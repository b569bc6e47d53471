"""Compilers: text to bytes, offline, for any target.

In reading order:
    object_cache: objects on disk.
    tuning_cache: opt-ops that a search has found.
    kernel_cache: lowered kernels on disk.
    llvm: LLVM IR to objects, through llvmlite.
    child: the same in another process, for what may abort.
    link: objects to shared libraries and WebAssembly.
"""
