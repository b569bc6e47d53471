"""Structures and numbers of FastRPC's ioctls, as data.

Two drivers speak FastRPC: Linux's own, with nodes as `/dev/fastrpc-cdsp`, and that of Qualcomm's
kernels for Android, `/dev/adsprpc-smd`.  A structure is its members with their C types; where each
member is follows from the rules of C for 64-bit processors.

Source: Linux, include/uapi/misc/fastrpc.h and include/uapi/linux/dma-heap.h; Qualcomm's kernels for
Android, drivers/char/adsprpc_shared.h.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from tfn.extend import frozen

TYPES: dict[str, tuple[str, int]] = {
    "u32": ("I", 4),
    "s32": ("i", 4),
    "u64": ("Q", 8),
    "pointer": ("Q", 8),
    "size": ("Q", 8),
}
"""The format of each C type for `struct`, and its size, which is its alignment too."""

Members = tuple[tuple[str, str], ...]
"""Names and types; ``s32[4]`` is an array."""

# fmt: off
STRUCTURES: dict[str, Members] = {
    # Linux.
    "fastrpc_invoke_args": (("ptr", "u64"), ("length", "u64"), ("fd", "s32"), ("attr", "u32")),
    "fastrpc_invoke": (("handle", "u32"), ("sc", "u32"), ("args", "u64")),
    "fastrpc_init_create": (("filelen", "u32"), ("filefd", "s32"), ("attrs", "u32"),
                            ("siglen", "u32"), ("file", "u64")),
    "fastrpc_mem_map": (("version", "s32"), ("fd", "s32"), ("offset", "s32"), ("flags", "u32"),
                        ("vaddrin", "u64"), ("length", "u64"), ("vaddrout", "u64"),
                        ("attrs", "s32"), ("reserved", "s32[4]")),
    # The kernel spells the first member of this one like that.
    "fastrpc_mem_unmap": (("vesion", "s32"), ("fd", "s32"), ("vaddr", "u64"), ("length", "u64"),
                          ("reserved", "s32[5]")),
    "dma_heap_allocation_data": (("len", "u64"), ("fd", "u32"), ("fd_flags", "u32"),
                                 ("heap_flags", "u64")),
    # Qualcomm's kernels.
    "remote_buf": (("pv", "pointer"), ("len", "size")),
    "fastrpc_ioctl_invoke": (("handle", "u32"), ("sc", "u32"), ("pra", "pointer")),
    "fastrpc_ioctl_init": (("flags", "u32"), ("file", "pointer"), ("filelen", "u32"),
                           ("filefd", "s32"), ("mem", "pointer"), ("memlen", "u32"),
                           ("memfd", "s32")),
    "fastrpc_ioctl_init_attrs": (("flags", "u32"), ("file", "pointer"), ("filelen", "u32"),
                                 ("filefd", "s32"), ("mem", "pointer"), ("memlen", "u32"),
                                 ("memfd", "s32"), ("attrs", "s32"), ("siglen", "u32")),
    "fastrpc_ioctl_mmap_64": (("fd", "s32"), ("flags", "u32"), ("vaddrin", "u64"),
                              ("size", "size"), ("vaddrout", "u64")),
    "fastrpc_ioctl_munmap_64": (("vaddrout", "u64"), ("size", "size")),
    "fastrpc_getinfo": (("domain", "u32"),),
}
"""Structures that a transport uses."""

NUMBERS: dict[str, tuple[str, int, str]] = {
    "FASTRPC_IOCTL_INVOKE":        ("R", 3, "fastrpc_invoke"),
    "FASTRPC_IOCTL_INIT_CREATE":   ("R", 5, "fastrpc_init_create"),
    "FASTRPC_IOCTL_MEM_MAP":       ("R", 10, "fastrpc_mem_map"),
    "FASTRPC_IOCTL_MEM_UNMAP":     ("R", 11, "fastrpc_mem_unmap"),
    "DMA_HEAP_IOCTL_ALLOC":        ("H", 0, "dma_heap_allocation_data"),
    "ADSPRPC_IOCTL_INVOKE":        ("R", 1, "fastrpc_ioctl_invoke"),
    "ADSPRPC_IOCTL_GETINFO":       ("R", 8, "fastrpc_getinfo"),
    "ADSPRPC_IOCTL_INIT_ATTRS":    ("R", 10, "fastrpc_ioctl_init_attrs"),
    "ADSPRPC_IOCTL_MMAP_64":       ("R", 14, "fastrpc_ioctl_mmap_64"),
    "ADSPRPC_IOCTL_MUNMAP_64":     ("R", 15, "fastrpc_ioctl_munmap_64"),
}
"""The letter, the number and the structure of each ioctl; Qualcomm's are FASTRPC_IOCTL_ too."""
# fmt: on

UNSIGNED_MODULE = 1 << 3
"""FASTRPC_MODE_UNSIGNED_MODULE: the process may run code without a signature."""
MAP_STATIC = 0
"""FASTRPC_MAP_STATIC: memory that stays mapped, at one address, for all calls."""
DMA_BUFFER = 6
"""ADSP_MMAP_DMA_BUFFER: the same for Qualcomm's kernels."""
INIT_CREATE = 1
"""FASTRPC_INIT_CREATE: a process of its own."""
COMPUTE_DOMAIN = 3
"""CDSP_DOMAIN_ID: the DSP for computations, of several on a chip."""
READ_WRITE = 3
"""IOC_READ | IOC_WRITE, in the upper bits of a request."""


@frozen
class Field:
    """A member: its offset in bytes, its format, and how many values it has."""

    offset: int
    form: str
    count: int


@frozen
class Layout:
    """A structure in memory: its size, and its members by name."""

    size_bytes: int
    fields: dict[str, Field]

    def pack(self, **values: int) -> bytearray:
        """The bytes of a structure; members that are not given are zero."""
        data = bytearray(self.size_bytes)
        for name, value in values.items():
            self.put(data, name, value)
        return data

    def put(self, data: bytearray, name: str, value: int) -> None:
        """Store a member."""
        field = self.fields[name]
        struct.pack_into("<" + field.form, data, field.offset, value)

    def get(self, data: bytes | bytearray | memoryview, name: str) -> int:
        """A member."""
        field = self.fields[name]
        return int(struct.unpack_from("<" + field.form, data, field.offset)[0])


def layout(members: Members) -> Layout:
    """Places members as C does on 64-bit processors.

    Example:
        >>> made = layout((("flags", "u32"), ("file", "pointer"), ("rest", "s32[3]")))
        >>> made.size_bytes, [field.offset for field in made.fields.values()]
        (32, [0, 8, 16])
    """
    fields, at, alignment = {}, 0, 1
    for name, kind in members:
        base, _, rest = kind.partition("[")
        form, size = TYPES[base]
        count = int(rest.rstrip("]") or 1)
        at = -(-at // size) * size
        fields[name] = Field(at, form, count)
        at += size * count
        alignment = max(alignment, size)
    return Layout(-(-at // alignment) * alignment, fields)


LAYOUTS: Mapping[str, Layout] = {name: layout(members) for name, members in STRUCTURES.items()}


def request(name: str) -> int:
    """The number of an ioctl that reads and writes its structure.

    Example:
        >>> hex(request("FASTRPC_IOCTL_INVOKE"))
        '0xc0105203'
    """
    letter, number, structure = NUMBERS[name]
    size_bytes = LAYOUTS[structure].size_bytes
    return READ_WRITE << 30 | size_bytes << 16 | ord(letter) << 8 | number


def scalars(method: int, inputs: int, outputs: int) -> int:
    """The word that says which method is called, and with how many buffers.

    Example:
        >>> hex(scalars(2, 1, 1))
        '0x2010100'
    """
    return (method & 0x1F) << 24 | (inputs & 0xFF) << 16 | (outputs & 0xFF) << 8


def divided(word: int) -> tuple[int, int, int]:
    """The method, and the numbers of input and output buffers, of `scalars`."""
    return word >> 24 & 0x1F, word >> 16 & 0xFF, word >> 8 & 0xFF
