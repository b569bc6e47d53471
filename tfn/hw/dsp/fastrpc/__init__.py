"""FastRPC: Linux's driver for the DSPs of Qualcomm's chips, as a transport.

In reading order:
    structures: structures and numbers of its ioctls, as data.
    node: a device node: ioctls with a structure, and the memory that they point to.
    interfaces: what a transport asks for, in the ioctls of the two kernels' drivers.
    transport: transport to a process on the DSP that runs the monitor.
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.hw.dsp.fastrpc import transport as transport
