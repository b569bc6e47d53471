"""The one public array: immutable, concrete or a value of a running trace.

A concrete Array holds a Buffer of a device.  A traced one holds the UOp that computes it and the
trace it belongs to.  ``isinstance(x, tfn.Array)`` is true for both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tfn.dtypes import SHORT, DType
from tfn.errors import (
    ConcretizationTypeError,
    DeletedArrayError,
    TracerArrayConversionError,
    TracerBoolConversionError,
    TracerIntegerConversionError,
)
from tfn.hw.buffer import Buffer
from tfn.trace import bind
from tfn.trace.op import Op, Shape
from tfn.trace.uop import UOp, walk


class Array:
    """An n-dimensional array of one dtype.  Made by the functions of `tfn.numpy`.

    Attributes:
        shape: sizes of the axes.
        dtype: a ``numpy.dtype``.
        weak_type: whether the dtype gives way to others, as that of a Python scalar does.
    """

    __slots__ = ("shape", "dtype", "weak_type", "buffer", "uop", "trace", "known", "__weakref__")
    shape: Shape
    dtype: DType
    weak_type: bool
    buffer: Buffer | None  # None if traced or deleted
    uop: UOp | None  # None if concrete
    trace: bind.Trace | None
    known: bool  # whether a traced value can be computed now

    def __init__(self, buffer: Buffer, shape: Shape, dtype: DType, weak_type: bool = False) -> None:
        self.shape, self.dtype, self.weak_type = shape, dtype, weak_type
        self.buffer, self.uop, self.trace, self.known = buffer, None, None, True

    # What Python and NumPy may ask.

    def concrete(self) -> Array:
        """This array with its data: itself, or the value of a known trace.

        Raises:
            ConcretizationTypeError: while only shape and dtype are known.
            DeletedArrayError: after donation.
        """
        if self.trace is None:
            if self.buffer is None:
                raise DeletedArrayError(
                    f"this array has been deleted: {SHORT[self.dtype]}{list(self.shape)}",
                    hint="it was donated to a jitted function; use that function's result, or "
                    "leave donate_argnums out",
                )
            return self
        bind.check_live(self)
        if not self.known:
            raise ConcretizationTypeError(*_unknown(self, "its value"))
        self.trace.concretized = True
        assert self.uop is not None
        value: Array = bind.run_now(self.uop, self.trace)
        return value

    # The rest of the class is written beside the functions it calls: see `numpy.methods`.


def _unknown(x: Array, need: str) -> tuple[str]:
    assert x.uop is not None and x.trace is not None
    names = dict.fromkeys(
        node.arg.name for node in walk([x.uop]) if node.op is Op.LEAF and node.arg.trace is not None
    )
    depends = ", ".join(names) or "no argument"
    return (
        f"{need} is needed, but {x.trace.name} is being traced: only {SHORT[x.dtype]}"
        f"{list(x.shape)} is known of it; it depends on {depends}",
    )


__all__ = ["Array"]
_LATER = (TracerArrayConversionError, TracerBoolConversionError, TracerIntegerConversionError)
