"""Protocol buffers: the fields of a message, by a schema, read where they lie, and written.

A message is fields one after the other: a key, which is the number of the field and how its value
is written, and the value.  What a value means is not in the file: `schema.SCHEMAS` says it.
Nothing is trusted: each length ends within its message, numbers have at most ten bytes, messages
nest at most `DEPTH_LIMIT` deep.  Bytes are views, so that reading a file copies no weights.

Source: the Protocol Buffers documentation, "Encoding".
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tfn.errors import StateError
from tfn.extend import frozen

DEPTH_LIMIT = 100
"""The most messages within each other, as the library of Protocol Buffers has it."""

VARINT_BYTES_LIMIT = 10  # 64 bits by 7
VARINT, FIXED_64, BYTES, FIXED_32 = 0, 1, 2, 5


@frozen
class Field:
    """A field of a message.

    Attributes:
        name: of the field.
        kind: "int", "float", "double", "str", "bytes", or the name of another schema.
        repeated: whether its values are a list.
    """

    name: str
    kind: str
    repeated: bool = False


Schema = Mapping[int, Field]
"""The fields of a message by number."""

Part = bytes | memoryview

MERGED_BYTES = 1 << 16
"""Parts of a written message that are shorter are copied into one."""


def parse(data: memoryview, kind: str, schemas: Mapping[str, Schema]) -> dict[str, Any]:
    """The known fields of a message by name: absent ones are None, repeated ones lists.

    Raises:
        StateError: for bytes that are no such message.

    Example:
        >>> parse(memoryview(b"\\x08\\x96\\x01"), "Size", {"Size": {1: Field("n", "int")}})
        {'n': 150}
    """
    return _message(data, kind, schemas, 0)


def written(kind: str, message: Mapping[str, Any], schemas: Mapping[str, Schema]) -> list[Part]:
    """A message as bytes in parts, of which large ones are those that were given.

    Args:
        kind: the name of its schema.
        message: values by the names of fields; None for those that are absent.

    Example:
        >>> written("Size", {"n": 150}, {"Size": {1: Field("n", "int")}})
        [b'\\x08\\x96\\x01']
    """
    parts: list[Part] = []
    for number, field in schemas[kind].items():
        given = message.get(field.name)
        if given is None:
            continue
        values = given if field.repeated else [given]
        if field.repeated and field.kind == "int" and values:
            packed = b"".join(map(_encoded, values))
            parts += [_encoded(number << 3 | BYTES), _encoded(len(packed)), packed]
            continue
        for value in values:
            if field.kind == "int":
                parts += [_encoded(number << 3 | VARINT), _encoded(value)]
            elif field.kind in ("float", "double"):
                code, wire = ("<f", FIXED_32) if field.kind == "float" else ("<d", FIXED_64)
                parts += [_encoded(number << 3 | wire), struct.pack(code, value)]
            else:
                inner = _content(field.kind, value, schemas)
                size = sum(len(part) for part in inner)
                parts += [_encoded(number << 3 | BYTES), _encoded(size), *inner]
    return _merged(parts)


def _content(kind: str, value: Any, schemas: Mapping[str, Schema]) -> list[Part]:
    if kind in schemas:
        return written(kind, value, schemas)
    return [value.encode() if isinstance(value, str) else value]


def _merged(parts: Sequence[Part]) -> list[Part]:
    """Parts of which short ones that follow each other are one."""
    merged: list[Part] = []
    run: list[Part] = []
    for part in parts:
        if len(part) < MERGED_BYTES:
            run.append(part)
            continue
        merged += [b"".join(run), part]
        run = []
    merged.append(b"".join(run))
    return [part for part in merged if len(part)]


def _encoded(value: int) -> bytes:
    """A number of 64 bits, 7 to a byte."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _message(
    data: memoryview, kind: str, schemas: Mapping[str, Schema], depth: int
) -> dict[str, Any]:
    if depth > DEPTH_LIMIT:
        raise _damaged(f"messages nest more than {DEPTH_LIMIT} deep")
    schema = schemas[kind]
    message: dict[str, Any] = {f.name: [] if f.repeated else None for f in schema.values()}
    for number, wire, value in _fields(data):
        field = schema.get(number)
        if field is None:
            continue  # a field of a later version of the format
        if field.kind in schemas:
            if wire != BYTES:
                raise _damaged(f"{kind}.{field.name} is no message")
            values = [_message(value, field.kind, schemas, depth + 1)]
        else:
            values = _scalars(value, wire, f"{kind}.{field.name}", field.kind)
        if field.repeated:
            message[field.name] += values
        elif values:
            message[field.name] = values[-1]
    return message


def _fields(data: memoryview) -> Iterator[tuple[int, int, Any]]:
    """The number, the way of writing and the value of each field."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value: Any
            value, at = _varint(data, at)
            yield number, wire, value
            continue
        if wire == BYTES:
            size, at = _varint(data, at)
        elif wire in (FIXED_32, FIXED_64):
            size = 4 if wire == FIXED_32 else 8
        else:
            raise _damaged(f"a field is written in way {wire}, which is none")
        if size > end - at:
            raise _damaged(f"a field of {size:,} bytes, where {end - at:,} are left")
        yield number, wire, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    """An unsigned number of 64 bits, 7 to a byte, and the place behind it."""
    if at < len(data) and data[at] < 128:  # one byte: most numbers
        return data[at], at + 1
    value = 0
    for i, byte in enumerate(data[at : at + VARINT_BYTES_LIMIT]):
        value |= (byte & 127) << 7 * i
        if byte < 128:
            return value & (1 << 64) - 1, at + i + 1
    raise _damaged("a number that does not end")


def _scalars(value: Any, wire: int, name: str, kind: str) -> list[Any]:
    """The numbers, text or bytes of a field, which may have many numbers packed."""
    if kind in ("str", "bytes"):
        if wire != BYTES:
            raise _damaged(f"{name} is no {kind}")
        if kind == "bytes":
            return [value]
        try:
            return [str(value, "utf-8")]
        except UnicodeDecodeError as error:
            raise _damaged(f"{name} is no text: {error}") from None
    if kind == "int":
        if wire == VARINT:
            return [_signed(value)]
        if wire == BYTES:
            return [*value] if bytes(value).isascii() else [*_integers(value)]
    size, code, own = (4, "f", FIXED_32) if kind == "float" else (8, "d", FIXED_64)
    if kind != "int" and wire == own:
        return list(struct.unpack(f"<{code}", value))
    if kind != "int" and wire == BYTES and len(value) % size == 0:
        return array(code, bytes(value)).tolist()
    raise _damaged(f"{name} has no value of its type")


def _integers(data: memoryview) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield _signed(value)


def _signed(value: int) -> int:
    """A number of 64 bits in two's complement."""
    return value - (1 << 64) if value >> 63 else value


def _damaged(what: str) -> StateError:
    return StateError(
        "these bytes are no ONNX model", got=what, hint="load the file that was saved"
    )
