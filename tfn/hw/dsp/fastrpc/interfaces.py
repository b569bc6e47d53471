"""The two drivers of FastRPC: create a process, map and unmap memory, call a method.

FASTRPC   Linux's own driver, /dev/fastrpc-cdsp
ADSPRPC   the driver of Qualcomm's kernels for Android, /dev/adsprpc-smd
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from tfn.extend import frozen
from tfn.hw.dsp.fastrpc import structures
from tfn.hw.dsp.fastrpc.node import Node, call
from tfn.hw.dsp.fastrpc.structures import LAYOUTS


@frozen
class Interface:
    """One driver.

    Attributes:
        path: of its node.
        create: starts a process from an ELF program at an address, with its size.
        map: maps a file of a size, which this process has at an address; returns the DSP's address.
        unmap: the reverse: file, DSP's address, size.
        invoke: calls a method of a handle with input and output buffers, as addresses and sizes.
    """

    path: str
    create: Callable[[Node, int, int], None]
    map: Callable[[Node, int, int, int], int]
    unmap: Callable[[Node, int, int, int], None]
    invoke: Callable[[Node, int, int, Buffers, Buffers], None]


Buffers = Sequence[tuple[int, int]]


def _fastrpc_create(node: Node, address: int, size_bytes: int) -> None:
    call(
        node,
        "FASTRPC_IOCTL_INIT_CREATE",
        filelen=size_bytes,
        filefd=-1,
        attrs=structures.UNSIGNED_MODULE,
        file=address,
    )


def _fastrpc_map(node: Node, file: int, address: int, size_bytes: int) -> int:
    data = call(
        node,
        "FASTRPC_IOCTL_MEM_MAP",
        fd=file,
        flags=structures.MAP_STATIC,
        vaddrin=address,
        length=size_bytes,
    )
    return LAYOUTS["fastrpc_mem_map"].get(data, "vaddrout")


def _fastrpc_unmap(node: Node, file: int, address: int, size_bytes: int) -> None:
    call(node, "FASTRPC_IOCTL_MEM_UNMAP", fd=file, vaddr=address, length=size_bytes)


def _fastrpc_invoke(
    node: Node, handle: int, method: int, inputs: Buffers, outputs: Buffers
) -> None:
    one = LAYOUTS["fastrpc_invoke_args"]
    rows = [one.pack(ptr=at, length=size, fd=-1) for at, size in (*inputs, *outputs)]
    _invoke(node, "FASTRPC_IOCTL_INVOKE", "args", handle, method, rows, len(inputs))


def _adsprpc_create(node: Node, address: int, size_bytes: int) -> None:
    # The driver learns by it which DSP is meant.
    call(node, "ADSPRPC_IOCTL_GETINFO", domain=structures.COMPUTE_DOMAIN)
    call(
        node,
        "ADSPRPC_IOCTL_INIT_ATTRS",
        flags=structures.INIT_CREATE,
        file=address,
        filelen=size_bytes,
        filefd=-1,
        memfd=-1,
        attrs=structures.UNSIGNED_MODULE,
    )


def _adsprpc_map(node: Node, file: int, address: int, size_bytes: int) -> int:
    data = call(
        node,
        "ADSPRPC_IOCTL_MMAP_64",
        fd=file,
        flags=structures.DMA_BUFFER,
        vaddrin=address,
        size=size_bytes,
    )
    return LAYOUTS["fastrpc_ioctl_mmap_64"].get(data, "vaddrout")


def _adsprpc_unmap(node: Node, file: int, address: int, size_bytes: int) -> None:
    call(node, "ADSPRPC_IOCTL_MUNMAP_64", vaddrout=address, size=size_bytes)


def _adsprpc_invoke(
    node: Node, handle: int, method: int, inputs: Buffers, outputs: Buffers
) -> None:
    one = LAYOUTS["remote_buf"]
    rows = [one.pack(pv=at, len=size) for at, size in (*inputs, *outputs)]
    _invoke(node, "ADSPRPC_IOCTL_INVOKE", "pra", handle, method, rows, len(inputs))


def _invoke(
    node: Node,
    name: str,
    arguments: str,
    handle: int,
    method: int,
    rows: Sequence[bytearray],
    inputs: int,
) -> None:
    table = ctypes.create_string_buffer(b"".join(rows), sum(map(len, rows)) or 1)
    word = structures.scalars(method, inputs, len(rows) - inputs)
    call(node, name, handle=handle, sc=word, **{arguments: ctypes.addressof(table)})


FASTRPC = Interface(
    "/dev/fastrpc-cdsp", _fastrpc_create, _fastrpc_map, _fastrpc_unmap, _fastrpc_invoke
)
ADSPRPC = Interface(
    "/dev/adsprpc-smd", _adsprpc_create, _adsprpc_map, _adsprpc_unmap, _adsprpc_invoke
)
INTERFACES: tuple[Interface, ...] = (FASTRPC, ADSPRPC)
"""In the order in which a machine is asked for them."""
