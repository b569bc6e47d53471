"""Memory given to other libraries, in both versions of the protocol."""

from __future__ import annotations

import numpy as np
import pytest

from tfn._support import dlpack


class Foreign:
    """An object of another library, which exports by `dlpack.export`."""

    def __init__(self, data: np.ndarray, version: tuple[int, int] | None) -> None:
        self.data, self.version = data, version

    def __dlpack__(self, **options: object) -> object:
        return dlpack.export(self.data, None, self.version, None, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return dlpack.CPU


def read_only(n: int) -> np.ndarray:
    data = np.arange(n, dtype="float32")
    data.flags.writeable = False
    return data


def test_without_versions_memory_is_copied() -> None:
    data = read_only(4)
    taken = np.from_dlpack(Foreign(data, None))
    assert taken.tolist() == [0, 1, 2, 3] and not np.shares_memory(taken, data)
    with pytest.raises(BufferError, match="must not be written"):
        dlpack.export(data, None, None, None, copy=False)


@pytest.mark.skipif(not dlpack.HAS_VERSIONS, reason="NumPy 2.0 has no versions of DLPack")
def test_with_versions_memory_is_shared() -> None:
    data = read_only(4)
    taken = np.from_dlpack(Foreign(data, (1, 0)))
    assert np.shares_memory(taken, data) and not taken.flags.writeable
