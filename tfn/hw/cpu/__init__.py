"""This machine's cores.

In reading order:
    target: what the machine is.
    compiler_rt: conversions that a CPU may lack.
    loader: objects to addresses.
    denormals: kept, or taken for zero.
    runtime: what threads do, as LLVM IR.
    threads: the workers.
    kernel_timer: kernels timed in another process.
    native: buffers in native code, and the words it knows, as LLVM IR.
    trees: arguments taken apart, results put together, as LLVM IR.
    entry: the body of every compiled function, as LLVM IR.
    dispatch: compiled functions as builtins: native code meets the interpreter.
    callbacks: functions of the host, called from within a program.
    batched_call: a C function, called for each of many places.
    queue: programs ready to run.
    device: the five parts together.
"""
