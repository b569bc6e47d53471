"""Compilers: text to bytes, offline, for any target.

In reading order:
    cache: objects on disk.
    plans: opt-ops that a search has found.
    shelf: lowered kernels on disk.
    llvm: LLVM IR to objects, through llvmlite.
    child: the same in another process, for what may abort.
    link: objects to shared libraries and WebAssembly.
"""
