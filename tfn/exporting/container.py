"""Container format: a head with version and digest, by which damaged bytes are refused.

    magic  version  operations  length  sha256 of all that and of the payload  payload
    8      2        2           8       32                                     length bytes

The payload encodes a closed function as rows: an operation, the numbers of the rows that it reads,
and its argument.
"""

from __future__ import annotations

import hashlib
import struct
from typing import Any

from tfn.errors import ArgumentError, ExportError
from tfn.exporting import wellformed
from tfn.exporting.codec import encode
from tfn.extend import Jaxpr, Op, plain, shown
from tfn.trace.uop import rows

MAGIC = b"tfn-prog"
VERSION = 1
"""The version of the format of head and payload."""
OPERATIONS = 1
"""The version of the semantics of operations.  A new operation does not change it: older versions
refuse it by name."""
_HEAD = struct.Struct("<8sHHQ")
_DIGEST_BYTES = 32
HINT = "serialize it again, or copy it again"


def sealed(payload: bytes) -> bytes:
    """The payload with its head."""
    head = _HEAD.pack(MAGIC, VERSION, OPERATIONS, len(payload))
    return head + hashlib.sha256(head + payload).digest() + payload


def opened(data: bytes) -> bytes:
    """The payload of bytes that are complete, unaltered, and of this version.

    Raises:
        ArgumentError: for an object that is not bytes.
        ExportError: for bytes that are damaged or of another version.
    """
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise ArgumentError(
            "deserialize needs bytes",
            got=shown(data),
            hint="pass what serialize gave, or Path(file).read_bytes()",
        )
    data = bytes(data)
    start = _HEAD.size + _DIGEST_BYTES
    if data[: len(MAGIC)] != MAGIC[: len(data)] or not data:
        raise ExportError(
            "these bytes are not a function that tfn has serialized",
            got=f"they begin with {data[:8]!r}",
            hint=HINT,
        )
    if len(data) < start:
        raise ExportError(
            "a serialized function is cut short",
            hint=HINT,
            got=f"{len(data)} bytes, and the head alone has {start}",
        )
    _, version, operations, length = _HEAD.unpack_from(data)
    _check_version("format", version, VERSION)
    _check_version("meaning of operations", operations, OPERATIONS)
    if len(data) - start != length:
        what = "cut short" if len(data) - start < length else "followed by something else"
        raise ExportError(
            f"a serialized function is {what}",
            hint=HINT,
            got=f"{len(data):,} bytes instead of {start + length:,}",
        )
    head, digest, payload = data[: _HEAD.size], data[_HEAD.size : start], data[start:]
    if hashlib.sha256(head + payload).digest() != digest:
        raise ExportError("a serialized function is damaged", got="its digest differs", hint=HINT)
    return payload


def _check_version(what: str, version: int, supported: int) -> None:
    if version != supported:
        raise ExportError(
            "a function was serialized by another version of tfn: "
            f"the {what} has version {version}",
            got=f"this tfn reads version {supported}",
            hint="serialize it again with this tfn",
        )


def written(jaxpr: Jaxpr) -> tuple[Any, ...]:
    """The rows of a closed function; functions with derivative rules lose the rules.

    Raises:
        ExportError: naming the operation that cannot be written.
    """
    table = rows(plain(jaxpr.function))
    for op, _, arg in table:
        if op in _REFUSED:
            what, hint = _REFUSED[op]
            raise ExportError(
                f"a function that {what} cannot be serialized", got=_called(op, arg), hint=hint
            )
    return tuple(table)


def read_again(*record: object) -> bytes:
    """The bytes of a record, after a check that `deserialize` accepts it.

    Raises:
        ExportError: naming the value that bytes cannot hold.
    """
    table, *rest = record
    try:
        wellformed.rows(table, wellformed.signature(*rest))
    except ExportError as error:
        raise ExportError("the function cannot be serialized", got=error.got) from None
    return sealed(encode(record))


_REFUSED = {
    Op.HOST: (
        "calls back into Python",
        "leave out callbacks and debug.print, or guard them by a static argument",
    ),
    Op.KERNEL: ("runs a kernel written by hand", "write it with tfn.numpy or tfn.lax"),
}


def _called(op: Op, arg: Any) -> str:
    """The name of a kernel or callback in the user's program."""
    if op is Op.KERNEL:
        return f"the kernel {arg.name}"
    run = getattr(arg.run, "function", arg.run)
    return f"a call of {getattr(run, '__qualname__', run)}"
