"""Grids: machines that run groups of threads, as data.

    cores with vectors      loops, lanes of a vector register, caches               a processor
    groups of threads       a grid of groups, each with local memory and barriers   a GPU, OpenCL

A target of the second kind has a `Grid`.  Nothing below it asks for the name of a device: what a
kernel may use is what the record says.
"""

from __future__ import annotations

from collections.abc import Iterable

from tfn._support.frozen import frozen
from tfn.trace.uop import UOp


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
        warp_threads: threads that run in step; 1 where each has a flow of control of its own.
        group_threads: the most threads of a group.
        registers: 32-bit registers of a core, shared by all threads that it runs at once.
        local_bytes: memory that the threads of a group share.
        cores: multiprocessors, or compute units: groups that run at the same time.
        memory_gb_s: bandwidth of the memory of the device.
        core_threads: the most threads that a core runs at once.
        loads_matrices: whether a warp loads matrices from local memory by one instruction.
        exchanges: whether threads of a warp get each other's values without memory.
        copies_asynchronously: whether a copy to local memory may run beside arithmetic.
        matrix_units: larger ones first.
    """

    warp_threads: int = 32
    group_threads: int = 1024
    registers: int = 65536
    local_bytes: int = 48 << 10
    cores: int = 16
    memory_gb_s: int = 100
    copies_asynchronously: bool = False
    loads_matrices: bool = False
    exchanges: bool = False
    core_threads: int = 2048
    matrix_units: tuple[GridMatrixUnit, ...] = ()

    def unit(self, dtype: str, warps: int = 1) -> GridMatrixUnit | None:
        """The matrix unit of so many warps for a dtype; None if there is none.

        Example:
            >>> unit = GridMatrixUnit("int8", 16, 8, 32)
            >>> grid = Grid(matrix_units=(unit,))
            >>> grid.unit("int8") is unit, grid.unit("int8", warps=4)
            (True, None)
        """
        units = (u for u in self.matrix_units if u.dtype == dtype and u.warps == warps)
        return next(units, None)

    def groups_at_once(self, threads: int, registers: int, local_bytes: int) -> int:
        """The groups of a kernel that a core runs at once, at most 32: its occupancy.

        Registers are handed out to warps by 256, local memory with a KiB of the system's to each
        group.

        Args:
            threads: of a group.
            registers: of a thread.
            local_bytes: of a group.

        Example:
            >>> Grid(local_bytes=227 << 10).groups_at_once(256, 64, 8 << 10)
            4
        """
        warps = -(-threads // self.warp_threads)
        of_warp = -(-registers * self.warp_threads // REGISTER_UNIT) * REGISTER_UNIT
        by_registers = self.registers // max(of_warp * warps, 1)
        by_memory = (self.local_bytes + SYSTEM_BYTES) // (local_bytes + SYSTEM_BYTES)
        by_threads = self.core_threads // (warps * self.warp_threads)
        return min(by_registers, by_memory, by_threads, MAX_GROUPS_AT_ONCE)


def local_layout(memories: Iterable[UOp]) -> tuple[dict[UOp, int], int]:
    """The beginning of each LOCAL_MEMORY of a group, in bytes, and the bytes of all of them."""
    places, end = {}, 0
    for memory in memories:
        places[memory] = end
        size = memory.size * memory.dtype.itemsize
        end += -(-size // LOCAL_MEMORY_ALIGNMENT_BYTES) * LOCAL_MEMORY_ALIGNMENT_BYTES
    return places, end


LOCAL_MEMORY_ALIGNMENT_BYTES = 1024  # eight rows of 128 bytes, with which swizzling begins anew

STATIC_LOCAL_BYTES = 48 << 10
"""Local memory that a kernel may declare; one that needs more gets it at its launch.

Source: CUDA C++ Programming Guide, compute capabilities 8.x to 12.x."""


def bytes_at_launch(local_bytes: int) -> int:
    """The local memory that a launch asks for: all of it, or none if the kernel declares it."""
    return local_bytes if local_bytes > STATIC_LOCAL_BYTES else 0


REGISTER_UNIT = 256  # registers that a warp gets at a time
SYSTEM_BYTES = 1 << 10  # of local memory, for each group
MAX_GROUPS_AT_ONCE = 32
