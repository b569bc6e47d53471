"""Nodes: refusals with names, real files, memory of a heap."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tfn.errors import DeviceError
from tfn.hw.dsp.fastrpc import node
from tfn.hw.dsp.fastrpc.structures import LAYOUTS, request


class Heap:
    """A heap that gives sparse files."""

    def __init__(self) -> None:
        self.is_closed = False

    def ioctl(self, number: int, data: bytearray) -> None:
        assert number == request("DMA_HEAP_IOCTL_ALLOC")
        layout = LAYOUTS["dma_heap_allocation_data"]
        file = os.memfd_create("heap")
        os.ftruncate(file, layout.get(data, "len"))
        assert layout.get(data, "fd_flags") & os.O_RDWR
        layout.put(data, "fd", file)

    def close(self) -> None:
        self.is_closed = True


def test_memory_of_a_heap() -> None:
    heap = Heap()
    file = node.shared_file(1 << 20, heap)
    assert os.fstat(file).st_size == 1 << 20
    assert heap.is_closed
    os.close(file)


def test_a_machine_without_a_heap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node, "HEAP", "/dev/dma_heap/of_no_machine")
    with pytest.raises(DeviceError, match="heap of the kernel"):
        node.shared_file(1 << 20)


def test_a_file_that_is_no_driver(tmp_path: Path) -> None:
    path = tmp_path / "node"
    path.touch()
    real = node.FileNode(str(path))
    with pytest.raises(DeviceError, match="refuses FASTRPC_IOCTL_INVOKE"):
        node.call(real, "FASTRPC_IOCTL_INVOKE", handle=1)
    real.close()
    real.close()  # twice is once
