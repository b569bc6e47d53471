"""OpenCL: grids of groups of threads, on whatever device an OpenCL driver of this machine has.

In reading order:
    driver: the package pyopencl, the device of this process, and its target.
    compiler: OpenCL C to the binaries of the driver; they are kept on disk.
    memory: buffers of the device.
    queue: enqueues commands in order.
    device: five parts together.
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.hw.opencl import device as device
