"""Grids: machines that run groups of threads, as data.

    cores with vectors      loops, lanes of a vector register, caches               a processor
    groups of threads       a grid of groups, each with local memory and barriers   a GPU, OpenCL

A target of the second kind has a `Grid`.  Nothing below it asks for the name of a device: what a
kernel may use is what the record says.
"""

from __future__ import annotations

from tfn._support.frozen import frozen


@frozen
class GridMatrixUnit:
    """An instruction by which a warp multiplies matrices: ``sums[rows, columns] += a @ b``.

    Attributes:
        dtype: of the operands, as NumPy names it.
        rows, columns, depth: the sizes of one product.
        warps: the warps that work together: 1, or the four of a warp group.
    """

    dtype: str
    rows: int
    columns: int
    depth: int
    warps: int = 1


@frozen
class Grid:
    """The threads of a machine whose kernels run as a grid of groups.

    Attributes:
        language: of the text of kernels: a key of `pipeline.LANGUAGES`.
        warp_threads: threads that run in step; 1 where each has a flow of control of its own.
        group_threads: the most threads of a group.
        registers: 32-bit registers of a core, shared by all threads that it runs at once.
        thread_registers: the most registers of a thread.
        local_bytes: memory that the threads of a group share.
        load_bytes: the widest load of one thread.
        cores: multiprocessors, or compute units: groups that run at the same time.
        memory_gb_s: bandwidth of the memory of the device.
        copies_asynchronously: whether a copy to local memory may run beside arithmetic.
        matrix_units: larger ones first.
    """

    language: str
    warp_threads: int = 32
    group_threads: int = 1024
    registers: int = 65536
    thread_registers: int = 255
    local_bytes: int = 48 << 10
    load_bytes: int = 16
    cores: int = 16
    memory_gb_s: int = 100
    copies_asynchronously: bool = False
    matrix_units: tuple[GridMatrixUnit, ...] = ()
