"""Hardware: the parts of a device, and the devices made of them.

In reading order:
    buffer: memory with an owner.
    device: the five parts of a device, as protocols.
    compile: LLVM IR to object files; caches on disk.
    memory: pooling allocator of host memory.
    guards: memory checker: red zones around blocks, poison in free ones.
    python: the reference device, which evaluates op by op.
    null: a device that compiles programs and runs none.
    cpu: this machine's cores.
    commands: the programs of grids as records, and what of them needs no host.
    driven: memory and runs of devices that a driver has.
    cuda: NVIDIA's GPUs, through the library of their driver.
    opencl: a grid of groups of threads, through an OpenCL driver.
    amd: AMD's GPUs, their code and an emulator that runs it; it never ran on a card.
    webgpu: the GPUs of all makers, through Vulkan, Metal or Direct3D 12.
    dsp: Hexagon with HVX, by a driver of our own.
"""
