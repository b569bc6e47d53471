"""Hardware: parts, and the devices made of them.

In reading order:
    buffer: bytes with an owner.
    device: the five parts of a device, as protocols.
    compile: text to bytes.
    memory: pooled memory of the host.
    guards: memory that shows mistakes.
    python: the oracle as a device.
    null: a device that runs nothing.
    cpu: this machine's cores.
"""
