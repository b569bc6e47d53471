"""Bus: a GPU of AMD's as its queue sees it, by memory and launches of kernels.

An emulated GPU is one; a card, by way of the kernel driver, will be another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from tfn.hw.amd.code_object import Image


class Gpu(Protocol):
    """A GPU."""

    def create(self, size_bytes: int) -> Any:
        """Memory of the GPU."""

    def write(self, memory: Any, at: int, raw: np.ndarray[Any, Any]) -> None:
        """Copy bytes to its memory."""

    def fetch(self, memory: Any, at: int, size_bytes: int) -> np.ndarray[Any, Any]:
        """Copy bytes from its memory, after the launches so far."""

    def address(self, memory: Any) -> int:
        """The address of memory, as kernels know it."""

    def launch(
        self, image: Image, name: str, groups: int, threads: int, arguments: Sequence[int]
    ) -> None:
        """Enqueue a kernel.

        Args:
            image: its code object.
            name: of the kernel.
            groups: their number.
            threads: of each group.
            arguments: the addresses of its operands.
        """

    def synchronize(self) -> None:
        """Wait until all kernels have run."""
