"""Export of memory by DLPack, in the versions of the protocol that NumPy knows.

Source: https://dmlc.github.io/dlpack/latest/python_spec.html
"""

from __future__ import annotations

from typing import Any

import numpy as np

HAS_VERSIONS = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
"""Whether this NumPy exchanges memory by DLPack 1.0, which has a flag for read-only memory."""
CPU = (1, 0)
"""The device of all memory of a process, in DLPack's numbers: kDLCPU, and its number."""


def export(
    data: np.ndarray[Any, Any],
    stream: object,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """A capsule with read-only data; the arguments are those of ``__dlpack__``.

    Raises:
        BufferError: if a copy is needed and forbidden.
    """
    if HAS_VERSIONS and max_version is not None and max_version >= (1, 0):
        return data.__dlpack__(
            stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )
    # Before version 1.0 there is no flag for read-only memory: it has to be a copy.
    if copy is False:
        raise BufferError("this version of DLPack cannot share memory that must not be written")
    return data.copy().__dlpack__(stream=stream)
