"""Canonical encoding of plain values as bytes: equal values, and only those, have equal bytes.

Each value begins with a letter for its kind; a container has the number of its items next.  Nothing
is code: bytes decode to instances of the classes in the tables below, and to no others.

    letter  value
    0 F T   None, False, True
    i       an integer: LEB128, seven bits per byte, lowest first; the sign is the lowest bit
    s b     text in UTF-8, bytes: the length, then the bytes
    (       a tuple: the number of items, then the items
    d o e   a dtype, an operation, a member of an enumeration: its name
    r       a record: the name of its class, then its fields as a tuple
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from tfn.dtypes import SHORT, DType
from tfn.errors import ExportError
from tfn.exporting.symbolic_dims import Polynomial, Ratio
from tfn.extend import Axis, Collective, Exchange, Op, Partition, argument
from tfn.lax import FftType

RECORDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        Axis,
        argument.Call,
        Collective,
        argument.Cond,
        argument.Const,
        argument.Conv,
        argument.Dot,
        argument.Fft,
        argument.Function,
        argument.Gather,
        argument.Iota,
        argument.Pad,
        argument.Param,
        Partition,
        Polynomial,
        Ratio,
        argument.Reduce,
        argument.Scan,
        argument.Scatter,
        argument.Shrink,
        argument.Sort,
        argument.While,
    )
}
"""The classes of records that bytes may hold."""
ADDED = {
    "Dot": ("tf32",),
    "Scan": ("associative",),
    "Scatter": ("distinct", "whole"),
    "Sort": ("shared", "largest"),
}
"""Fields that records have got since their first version: left out where all have their default."""

MAX_DEPTH = 100
"""Containers in containers: encoding and decoding recurse."""
MAX_INTEGER_BITS = 256
"""Constants have 128 bits; Python takes quadratic time for integers without a limit."""
_DTYPES = {short: dtype for dtype, short in SHORT.items()}
_OPS = {op.value: op for op in Op}
_KINDS: dict[str, FftType | Exchange] = {
    **{kind.value: kind for kind in FftType},
    **{kind.value: kind for kind in Exchange},
}


def encode(value: object) -> bytes:
    """The bytes of a value.

    Raises:
        ExportError: if it is of no class that bytes can hold, too large or too deep.

    Example:
        >>> encode((1, -1, "b", None))
        b'(\\x04i\\x02i\\x01s\\x01b0'
    """
    out = bytearray()
    _write(out, value, 0)
    return bytes(out)


def _write(out: bytearray, value: object, depth: int) -> None:
    if value is None:
        out += b"0"
    elif isinstance(value, bool):
        out += b"T" if value else b"F"
    elif isinstance(value, int):
        if value.bit_length() >= MAX_INTEGER_BITS:
            raise ExportError(
                "an integer is too large to be serialized", got=f"{value.bit_length()} bits"
            )
        out += b"i"
        _number(out, 2 * value if value >= 0 else -2 * value - 1)
    elif isinstance(value, str):
        _named(out, b"s", value)
    elif isinstance(value, bytes):
        out += b"b"
        _number(out, len(value))
        out += value
    elif isinstance(value, tuple):
        if depth == MAX_DEPTH:
            raise ExportError(
                "values are nested too deeply to be serialized",
                got=f"more than {MAX_DEPTH} containers in each other",
            )
        out += b"("
        _number(out, len(value))
        for item in value:
            _write(out, item, depth + 1)
    elif isinstance(value, np.dtype) and value in SHORT:
        _named(out, b"d", SHORT[value])
    elif isinstance(value, Op):
        _named(out, b"o", value.value)
    elif isinstance(value, (FftType, Exchange)):
        _named(out, b"e", value.value)
    elif RECORDS.get(type(value).__name__) is type(value):
        _named(out, b"r", type(value).__name__)
        _write(out, _values(value), depth)
    else:
        raise ExportError(
            f"a {type(value).__name__} cannot be serialized",
            got=repr(value),
            hint="pass it as an argument, or compute it with tfn.numpy",
        )


def _values(record: object) -> tuple[Any, ...]:
    """The fields by which records of a class are compared."""
    assert is_dataclass(record) and not isinstance(record, enum.Enum)
    compared = [field for field in fields(record) if field.compare]
    added = ADDED.get(type(record).__name__, ())
    if all(
        getattr(record, field.name) == field.default for field in compared if field.name in added
    ):
        compared = [field for field in compared if field.name not in added]
    return tuple(getattr(record, field.name) for field in compared)


def _named(out: bytearray, letter: bytes, name: str) -> None:
    try:
        data = name.encode()
    except UnicodeEncodeError:
        raise ExportError(
            "text with half of a surrogate pair cannot be serialized", got=repr(name)
        ) from None
    out += letter
    _number(out, len(data))
    out += data


def _number(out: bytearray, n: int) -> None:
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    out.append(n)


def decode(data: bytes) -> Any:
    """The value of encoded bytes.

    Raises:
        ExportError: if they are not exactly one value, or have an unknown name.

    Example:
        >>> decode(encode((1, -1, "b", None)))
        (1, -1, 'b', None)
    """
    reader = _Reader(data)
    value = reader.value()
    if reader.at != len(data):
        raise _damaged("there is more than one value")
    return value


def _damaged(got: str) -> ExportError:
    return ExportError("a serialized function is damaged", got=got, hint="serialize it again")


class _Reader:
    """A cursor over bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = self.depth = 0

    def value(self) -> Any:
        letter = self.take(1)
        read = _READ.get(letter)
        if read is None:
            raise _damaged(f"the letter {letter!r} at byte {self.at - 1}")
        return read(self)

    def take(self, count: int) -> bytes:
        data = self.data[self.at : self.at + count]
        if len(data) < count:
            raise _damaged(f"it ends at byte {len(self.data)}")
        self.at += count
        return data

    def number(self) -> int:
        value = shift = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift > MAX_INTEGER_BITS + 7 or value >> MAX_INTEGER_BITS:
                raise _damaged(f"a number without end at byte {self.at - 1}")
            if byte < 0x80:
                if byte == 0 and shift > 7:
                    raise _damaged(f"a number that is too long at byte {self.at - 1}")
                return value

    def integer(self) -> int:
        n = self.number()
        return -(n + 1 >> 1) if n & 1 else n >> 1

    def text(self) -> str:
        try:
            return self.bytes().decode()
        except UnicodeDecodeError as error:
            raise _damaged(str(error)) from None

    def bytes(self) -> bytes:
        return self.take(self.number())

    def tuple(self) -> tuple[Any, ...]:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _damaged("tuples in tuples without end")
        count = self.number()
        if count > len(self.data) - self.at:  # each item has at least a letter
            raise _damaged(f"a tuple of {count} at byte {self.at}")
        items = tuple([self.value() for _ in range(count)])
        self.depth -= 1
        return items

    def one_of(self, table: Mapping[str, Any], what: str) -> Any:
        name = self.text()
        if name not in table:
            raise ExportError(
                f"a serialized function has the {what} {name!r}, which this tfn does not know",
                hint="it may have been serialized by a newer version",
            )
        return table[name]

    def record(self) -> Any:
        kind = self.one_of(RECORDS, "record")
        if self.take(1) != b"(":
            raise _damaged(f"a {kind.__name__} without fields")
        values = self.tuple()
        names = [field.name for field in fields(kind) if field.compare]
        added = ADDED.get(kind.__name__, ())
        if added and len(values) == len(names) - len(added):
            names = [name for name in names if name not in added]
        if len(values) != len(names):
            raise _damaged(f"a {kind.__name__} of {len(values)} fields instead of {len(names)}")
        return kind(**dict(zip(names, values, strict=True)))


_READ: dict[bytes, Callable[[_Reader], Any]] = {
    b"0": lambda r: None,
    b"F": lambda r: False,
    b"T": lambda r: True,
    b"i": _Reader.integer,
    b"s": _Reader.text,
    b"b": _Reader.bytes,
    b"(": _Reader.tuple,
    b"d": lambda r: _dtype(r),
    b"o": lambda r: r.one_of(_OPS, "operation"),
    b"e": lambda r: r.one_of(_KINDS, "transform or exchange"),
    b"r": _Reader.record,
}


def _dtype(reader: _Reader) -> DType:
    dtype: DType = reader.one_of(_DTYPES, "dtype")
    return dtype
