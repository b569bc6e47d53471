"""This machine's cores.

In reading order:
    target: what the machine is.
    loader: objects to addresses.
    queue: programs ready to run.
    device: the five parts together.
"""
