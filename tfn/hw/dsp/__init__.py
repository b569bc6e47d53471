"""The DSP: Qualcomm Hexagon with HVX, by a driver of our own; without hardware, under qemu-user.

In reading order:
    commands: command records (launch, copy, signal, wait), their words, the layout of memory.
    memory: shared memory of both sides: a file that is mapped by both, and its allocator.
    linker: static linker: ELF objects become an image at an address, or a program.
    monitor: the program that runs on the DSP and takes commands from a ring.
    transport: the protocol of transports: start, ring, stop.
    emulator: transport to a process of qemu-hexagon.
    fastrpc: transport to the processor itself, by the ioctls of the kernel's driver.
    callbacks: host functions that a running program calls.
    queue: command queue: loads programs, launches them, turns faults into errors.
    device: the five parts together.
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.hw.dsp import device as device
