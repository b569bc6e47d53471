"""Compilers: text to bytes, offline, for any target.

In reading order:
    object_cache: files on disk by digest; checks of ownership and content.
    tuning_cache: opt-ops that a search has chosen, on disk.
    kernel_cache: lowered kernels on disk.
    llvm: LLVM IR to object files, through llvmlite.
    ahead: the same in a thread, while the next kernels are lowered.
    child: the same in a child process, where LLVM may abort.
    server: the same in one child for many texts.
    link: object files to shared libraries and WebAssembly.
"""

from tfn._support.lazy import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.hw.compile import server as server
