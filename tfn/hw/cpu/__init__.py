"""This machine's cores.

In reading order:
    target: what the machine is.
    support: conversions that a CPU may lack.
    loader: objects to addresses.
    runtime: what threads do, as LLVM IR.
    threads: the workers.
    queue: programs ready to run.
    device: the five parts together.
"""
