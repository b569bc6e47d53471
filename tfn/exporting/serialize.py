"""Functions as bytes, for other processes and machines: `tfn.export.serialize`, `deserialize`.

    data = tfn.export.serialize(loss, network, images)
    tfn.grad(tfn.export.deserialize(data))(network, images)

The bytes are a head, which tells what follows and can be checked before anything is read, and the
closed function as rows: an operation, the rows that it reads, its argument.  Equal functions have
equal bytes, on every machine; nothing in them is code of Python.

What is serialized is the function as it is traced.  A function with rules of its own
(`custom_jvp`, `custom_vjp`) is kept as what it computes: the derivative of the result is the
derivative of that, and the rules stay behind.  A lowered program is not serialized: its text is
made for one processor, and `tfn.export` writes it as an object or a library, with a manifest that
is checked in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tfn.errors import ExportError, TfnError
from tfn.exporting.codec import decode
from tfn.exporting.container import HINT, checked, opened
from tfn.exporting.portable import Input, Portable
from tfn.exporting.symbolic import Symbolic, anyhow, symbols_of
from tfn.trace.bind import face
from tfn.trace.jaxpr import Jaxpr
from tfn.trace.uop import from_rows


def serialize(
    function: Callable[..., Any] | Portable | Symbolic | Jaxpr, *args: Any, **kwargs: Any
) -> bytes:
    """A function as bytes: canonical, versioned, hashed.

    Args:
        function: jitted or not; or a closed function, which takes no further arguments.
        args, kwargs: what it would be called with, without static arguments when it is called
            again; `ShapeDtypeStruct` will do for an array, and with a `symbolic_shape` it stands
            for arrays of many sizes: see `tfn.exporting.symbolic` for what that can do.

    Raises:
        ExportError: if it calls back into Python, or runs a kernel written by hand.

    Example:
        >>> import tfn
        >>> x = tfn.ShapeDtypeStruct((3,), "float32")
        >>> data = serialize(lambda x: x * x, x)
        >>> data == serialize(lambda y: y * y, x), float(tfn.grad(deserialize(
        ...     serialize(lambda x: x * x, 1.0)))(3.0))
        (True, 6.0)
    """
    if isinstance(function, Jaxpr):
        function = Portable.of(function)
    if not isinstance(function, (Portable, Symbolic)):
        function = anyhow(function)(*args, **kwargs)
    return function.serialize()


def deserialize(data: bytes) -> Portable | Symbolic:
    """The function that bytes hold: to be called, jitted, differentiated and batched like any.

    Raises:
        ExportError: for bytes that are cut short, altered, of another version, or hold what this
            version does not know; nothing has been built then.
    """
    payload = decode(opened(data))
    try:
        return _portable(payload)
    except (TfnError, AssertionError, TypeError, ValueError, LookupError, AttributeError) as error:
        if isinstance(error, ExportError):
            raise
        raise ExportError(
            "serialized bytes are not a function", got=str(error), hint=HINT
        ) from error


def _portable(payload: Any) -> Portable | Symbolic:
    """The function of what was written.

    Raises:
        Exception: of many kinds, if it was not written by us.
    """
    found, takes, arrays, outputs, weak, constraints = payload
    captured = tuple(face().asarray(_read(x)) for x in arrays)
    inputs = tuple(Input(*i) for i in takes)
    if symbols_of(i.shape for i in inputs):
        return Symbolic(checked(found), inputs, captured, outputs, weak, constraints)
    made = Portable(Jaxpr(from_rows(checked(found))), inputs, captured, outputs, weak)
    made.check()
    return made


def _read(record: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    shape, dtype, data = record
    return np.frombuffer(data, dtype).reshape(shape).copy()
