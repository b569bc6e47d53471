"""The Python/C API, called with ctypes: builtins and a type whose functions are native code.

Source: Python/C API reference, "Type objects" (PyType_FromSpec) and "Common object structures"
(PyMethodDef, PyMemberDef); the numbers of slots are part of the stable ABI.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tfn.dtypes import DType
from tfn.hw.buffer import Buffer
from tfn.hw.cpu import native
from tfn.hw.memory import without_address
from tfn.trace.op import Shape

_METH_FASTCALL = 0x80
_BF_GETBUFFER, _TP_DEALLOC, _TP_MEMBERS = 1, 52, 72  # slots of a type
_DISALLOW_INSTANTIATION = 1 << 7  # a flag of a type
_ULONGLONG, _PY_SSIZE_T, _OBJECT, _BOOL = 18, 19, 6, 14  # types of members
_READONLY = 1


class _Member(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("type", ctypes.c_int),
        ("offset", ctypes.c_ssize_t),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


class _Slot(ctypes.Structure):
    _fields_ = [("slot", ctypes.c_int), ("value", ctypes.c_void_p)]


class _Spec(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("basicsize", ctypes.c_int),
        ("itemsize", ctypes.c_int),
        ("flags", ctypes.c_uint),
        ("slots", ctypes.c_void_p),
    ]


class Method(ctypes.Structure):
    """A function of the interpreter that has no `self` yet."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def supported() -> bool:
    """Whether this interpreter lays out objects as `native` says: a CPython with its lock."""
    return (
        sys.implementation.name == "cpython"
        and sys.version_info < (3, 14)
        and "t" not in sys.abiflags  # free-threaded
        and not hasattr(sys, "gettotalrefcount")  # a debug build puts links before the header
        and object.__basicsize__ == native.BUFFER["address"]
        and tuple.__basicsize__ == native.TUPLE_ITEMS
        and sys.byteorder == "little"
        and os.name == "posix"
    )


def keep_forever(*values: object) -> None:
    """Keep objects that native code refers to until the process ends, beyond any Python name."""
    for value in values:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def method(name: str, address: int) -> Method:
    """A method whose code is at an address: ``ptr (ptr self, ptr arguments, i64 count)``."""
    definition = Method(name.encode(), address, _METH_FASTCALL, None)
    keep_forever(definition)
    return definition


def bind(definition: Method, owner: Any) -> Callable[..., Any]:
    """A builtin with `owner` as its `self`, which it keeps alive."""
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    builtin: Callable[..., Any] = make(ctypes.addressof(definition), owner, None)
    return builtin


def _read(buffer: Any, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
    """See `Buffer.read`: the buffer protocol itself tells NumPy that it is read-only."""
    return np.ndarray(shape, dtype, buffer)


def _refuse(device: str) -> Callable[[Any], int]:
    """The address of a buffer of a device with memory of its own: an error."""

    def address(buffer: Any) -> int:
        raise without_address(device)

    return address


def buffer_type(addresses: Mapping[str, int], remote: str = "") -> type:
    """The type of native buffers, with the attributes of `Buffer`.

    Args:
        remote: the name of a device with memory of its own.  Its buffers have a `pointer` there
            and no address here, and `freed_after`, the programs started before they were freed.
    """
    rows = [
        (b"pointer" if remote else b"address", _ULONGLONG, native.BUFFER["address"], _READONLY),
        (b"size_bytes", _PY_SSIZE_T, native.BUFFER["size_bytes"], _READONLY),
        (b"owner", _OBJECT, native.BUFFER["owner"], _READONLY),
        (b"exclusive", _BOOL, native.BUFFER["exclusive"], _READONLY),
    ]
    if remote:
        rows.append((b"freed_after", _ULONGLONG, native.BUFFER["freed_after"], _READONLY))
    members = (_Member * (len(rows) + 1))(*[_Member(*row, None) for row in rows])
    functions = [
        _Slot(_TP_DEALLOC, addresses["dealloc"]),
        _Slot(_TP_MEMBERS, ctypes.cast(members, ctypes.c_void_p)),
    ]
    if not remote:
        functions.append(_Slot(_BF_GETBUFFER, addresses["getbuffer"]))
    slots = (_Slot * (len(functions) + 1))(*functions)
    size_bytes, start = native.BUFFER_BYTES, ctypes.addressof(slots)
    name = f"tfn.hw.{remote or 'cpu'}.Buffer".encode()
    spec = _Spec(name, size_bytes, 0, _DISALLOW_INSTANTIATION, start)
    make = ctypes.pythonapi.PyType_FromSpec
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p]
    native_buffer: type = make(ctypes.addressof(spec))
    if remote:
        native_buffer.address = property(_refuse(remote))  # type: ignore[attr-defined]
    else:
        native_buffer.view, native_buffer.read = Buffer.view, _read  # type: ignore[attr-defined]
    keep_forever(native_buffer, members, slots, spec)
    return native_buffer


def slot_offsets(kind: type, names: Sequence[str]) -> list[int]:
    """Offsets of the slots of a class in its instances, found in one whose slots hold marks.

    Example:
        >>> class Pair:
        ...     __slots__ = ("a", "b")
        >>> slot_offsets(Pair, ["a", "b"])
        [16, 24]
    """
    offsets = []
    x: Any = object.__new__(kind)
    words = (ctypes.c_size_t * (kind.__basicsize__ // 8)).from_address(id(x))
    for name in names:
        mark = object()
        object.__setattr__(x, name, mark)  # the class may forbid it
        offsets.append(8 * list(words).index(id(mark)))
    return offsets
