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

from tfn.errors import ExportError
from tfn.exporting import wellformed
from tfn.exporting.codec import decode
from tfn.exporting.container import opened
from tfn.exporting.portable import Input, Portable
from tfn.exporting.symbolic import Symbolic, anyhow
from tfn.exporting.wellformed import refused, signature
from tfn.trace.bind import runtime
from tfn.trace.jaxpr import Jaxpr


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

    The bytes need not be trusted: nothing in them is run, and all of them is checked.  A function
    of somebody else's may still compute for as long, and with as much memory, as it likes.

    Raises:
        ArgumentError: if it is given no bytes.
        ExportError: for bytes that are cut short, altered, of another version, hold what this
            version does not know, or are no function whose operations fit together; nothing has
            been built then.
    """
    payload = decode(opened(data))
    try:
        return _portable(payload)
    except ExportError:
        raise
    except Exception as error:  # of many classes: it was not written by us
        raise refused(f"{type(error).__name__}: {error}"[:300]) from error


def _portable(payload: Any) -> Portable | Symbolic:
    """The function of what was written.

    Raises:
        Exception: of many kinds, if it was not written by us.
    """
    found, takes, arrays, outputs, weak, constraints = payload
    symbols = signature(takes, arrays, outputs, weak, constraints)
    rows = wellformed.rows(found, symbols)
    captured = tuple(runtime().asarray(_read(x)) for x in arrays)
    inputs = tuple(Input(*i) for i in takes)
    if symbols:
        made = Symbolic(rows, inputs, captured, outputs, weak, constraints)
        made.check()
        return made
    closed = Portable(Jaxpr(wellformed.built(rows)), inputs, captured, outputs, weak)
    closed.check()
    return closed


def _read(record: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    shape, dtype, data = record
    return np.frombuffer(data, dtype).reshape(shape).copy()
