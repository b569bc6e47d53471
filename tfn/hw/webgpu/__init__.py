"""WebGPU: the GPUs of all makers, through Vulkan, Metal or Direct3D 12.

In reading order:
    wgsl: the instructions of a thread as a compute shader.
    binding: the functions that read and write operands, for the buffers of a launch.
    driver: the package wgpu, the adapter of this process, and its target.
    compiler: texts as they are; a shader is made once its buffers are known.
    memory: buffers of the device.
    kernel_log: times of launches, for traces.
    queue: dispatches of one command buffer.
    page: a program as data for browsers.
    device: five parts together, and the language.
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.hw.webgpu import device as device
