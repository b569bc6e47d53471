"""Serialization of functions as bytes: `tfn.export.serialize` and `tfn.export.deserialize`.

    data = tfn.export.serialize(loss, network, images)
    tfn.grad(tfn.export.deserialize(data))(network, images)

The bytes are a head, which is checked before anything else is read, and the closed function as
rows: an operation, the rows that it reads, its argument.  Equal functions have equal bytes, on
every machine; they contain no Python code.

The function is serialized as it is traced.  Of a function with a derivative rule (`custom_jvp`,
`custom_vjp`) the function is kept and the rule is not: the derivative of the result is that of the
function itself.  Routines of LAPACK become programs of the language, as `tfn.export` writes them:
through those of eigenvalues and singular values, which iterate until they converge, there is no
reverse mode.  A lowered program is not serialized, since its text is made for one processor;
`tfn.export` writes it as an object or a library, with a manifest that is checked in the same way.
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
from tfn.extend import Jaxpr, runtime


def serialize(
    function: Callable[..., Any] | Portable | Symbolic | Jaxpr, *args: object, **kwargs: object
) -> bytes:
    """Serialize a function: canonical, versioned and hashed bytes.

    Args:
        function: jitted or not; or a closed function, which takes no further arguments.
        args, kwargs: example arguments.  Static ones become part of the function.  A
            `ShapeDtypeStruct` may stand for an array, and one with a `symbolic_shape` for arrays
            of many sizes: see `tfn.exporting.symbolic` for its limits.

    Raises:
        ExportError: if it calls back into Python, runs a custom kernel, or calls a routine of
            LAPACK that is no program of the language: those of `eig`, `schur` and `hessenberg`.

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
    """The function in serialized bytes: it can be called, jitted, differentiated and batched.

    The bytes need not be trusted: no code in them is executed, and every field is checked.  An
    untrusted function may still compute without bounds on time and memory.

    Raises:
        ArgumentError: for an object that is not bytes.
        ExportError: for bytes that are truncated, altered, or of another version; for operations
            that this version does not know, or that do not fit together.  Nothing has been built
            then.
    """
    payload = decode(opened(data))
    try:
        return _portable(payload)
    except ExportError:
        raise
    except Exception as error:  # of many classes: the bytes may be anything
        raise refused(f"{type(error).__name__}: {error}"[:300]) from error


def _portable(payload: Any) -> Portable | Symbolic:
    """The function of a decoded payload.

    Raises:
        Exception: of many classes, if `serialize` has not written it.
    """
    table, parameters, arrays, outputs, weak, constraints = payload
    symbols = signature(parameters, arrays, outputs, weak, constraints)
    rows = wellformed.rows(table, symbols)
    captured = tuple(runtime.installed().asarray(_read(x)) for x in arrays)
    inputs = tuple(Input(*i) for i in parameters)
    if symbols:
        polymorphic = Symbolic(rows, inputs, captured, outputs, weak, constraints)
        polymorphic.check()
        return polymorphic
    closed = Portable(Jaxpr(wellformed.built(rows)), inputs, captured, outputs, weak)
    closed.check()
    return closed


def _read(record: tuple[Any, ...]) -> np.ndarray[Any, Any]:
    shape, dtype, data = record
    return np.frombuffer(data, dtype).reshape(shape).copy()
