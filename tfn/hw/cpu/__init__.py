"""This machine's cores.

In reading order:
    target: what the machine is.
    loader: objects to addresses.
    runtime: what threads do, as LLVM IR.
    threads: the workers.
    queue: programs ready to run.
    device: the five parts together.
"""
