"""Compiled functions as builtins of the interpreter: its own types and tables, made with ctypes.

`native` says what a call does; here its code meets Python.  A `Dispatch` owns the type of native
buffers, the pool that they come from, and makes a `Door` for each program: a builtin that takes
the arguments of a user's function as they are and returns its results.

Interpreters that keep objects in another way have no doors: see `supported`.

Source: Python/C API reference, "Type objects" (PyType_FromSpec) and "Common object structures"
(PyMethodDef, PyMemberDef); the slots' numbers are part of the stable ABI.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tfn._support.frozen import frozen
from tfn.config import config, watch
from tfn.dtypes import DType
from tfn.hw.buffer import ALIGNMENT, Buffer
from tfn.hw.cpu import native
from tfn.hw.cpu.loader import Code
from tfn.hw.guards import guards
from tfn.hw.memory import SLAB_BYTES, Regions, keep_limit, over_limit, size_class
from tfn.trace.op import Shape
from tfn.tree import FIELDS, is_namedtuple

Door = Callable[..., Any]
"""A builtin; it answers NotImplemented, and has done nothing, if its arguments do not fit."""

DEEPEST = 100  # containers within each other in a tree
MOST_ARRAYS = 4096  # arguments and results of a door: their addresses lie on the stack
SYMBOLS = ("state", "dealloc", "getbuffer", "adopt", "provide", "allocate", "send_home", "call")
TUPLE_NEW = tuple.__new__  # kept here: each look at the attribute makes a new object
_UNLIMITED = (1 << 63) - 1
_FASTCALL = 0x80
_GETBUFFER, _DEALLOC, _MEMBERS = 1, 52, 72  # slots of a type
_NOT_CALLABLE = 1 << 7  # a flag of a type
_UNSIGNED, _SIZE, _OBJECT, _BOOL = 18, 19, 6, 14  # types of members


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


class _Method(ctypes.Structure):
    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def supported() -> bool:
    """Whether this interpreter keeps objects as `native` thinks: a CPython with its lock."""
    return (
        sys.implementation.name == "cpython"
        and sys.version_info < (3, 14)
        and "t" not in sys.abiflags  # threads without the lock
        and not hasattr(sys, "gettotalrefcount")  # a debug build chains all objects
        and object.__basicsize__ == native.ADDRESS
        and tuple.__basicsize__ == native.ITEMS
        and sys.byteorder == "little"
        and os.name == "posix"
    )


def _for_ever(*values: Any) -> None:
    """Keep what native code refers to until the process ends: longer than any Python name."""
    for value in values:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def _builtin(name: str, address: int, owner: Any = None) -> Door:
    """A function of the interpreter, with `owner` as its self."""
    return _bound(_method(name, address), owner)


def _method(name: str, address: int) -> _Method:
    method = _Method(name.encode(), address, _FASTCALL, None)
    _for_ever(method)
    return method


def _bound(method: _Method, owner: Any) -> Door:
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    made: Door = make(ctypes.addressof(method), owner, None)
    return made


def _read(buffer: Any, shape: Shape, dtype: DType) -> np.ndarray[Any, Any]:
    """See `Buffer.read`: the buffer itself tells NumPy that it cannot be written."""
    return np.ndarray(shape, dtype, buffer)


def _buffer_type(code: Code) -> type:
    """The type of native buffers, with the attributes of `Buffer`."""
    rows = (
        (b"address", _UNSIGNED, native.ADDRESS, 1),
        (b"size_bytes", _SIZE, native.SIZE, 1),
        (b"owner", _OBJECT, native.OWNER, 1),
        (b"exclusive", _BOOL, native.EXCLUSIVE, 1),
    )
    members = (_Member * (len(rows) + 1))(*[_Member(*row, None) for row in rows])
    slots = (_Slot * 4)(
        _Slot(_GETBUFFER, code.addresses["getbuffer"]),
        _Slot(_DEALLOC, code.addresses["dealloc"]),
        _Slot(_MEMBERS, ctypes.cast(members, ctypes.c_void_p)),
    )
    spec = _Spec(
        b"tfn.hw.cpu.Buffer", native.BUFFER_BYTES, 0, _NOT_CALLABLE, ctypes.addressof(slots)
    )
    make = ctypes.pythonapi.PyType_FromSpec
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p]
    made: type = make(ctypes.addressof(spec))
    made.view, made.read = Buffer.view, _read  # type: ignore[attr-defined]
    _for_ever(made, members, slots, spec)
    return made


@lru_cache(maxsize=4096)
def shelf_of(size_bytes: int) -> tuple[int, int]:
    """The bytes of the block that holds so many, and the number of its shelf.

    Example:
        >>> shelf_of(100), shelf_of(1 << 20)
        ((128, 2), (1048576, 52))
    """
    block_bytes = size_class(size_bytes)
    units = block_bytes // ALIGNMENT
    doublings = max((units - 1).bit_length() - 3, 0)
    return block_bytes, doublings * 4 + (units >> doublings)


def offsets(kind: type, names: Sequence[str]) -> list[int]:
    """Where instances of a class keep its slots: found by looking.

    Example:
        >>> class Pair:
        ...     __slots__ = ("a", "b")
        >>> offsets(Pair, ["a", "b"])
        [16, 24]
    """
    found = []
    x: Any = object.__new__(kind)
    words = (ctypes.c_size_t * (kind.__basicsize__ // 8)).from_address(id(x))
    for name in names:
        mark = object()
        object.__setattr__(x, name, mark)  # the class may forbid it
        found.append(8 * list(words).index(id(mark)))
    return found


@frozen
class Given:
    """What a door asks of an argument's array: kind and weakness by identity, None for any.

    `donated` says whether the array loses its buffer.
    """

    kind: Any
    weak: bool | None = None
    donated: bool = False


@frozen
class Made:
    """An array that a door makes.

    Attributes:
        kind, weak: what it will be.
        size_bytes: how much memory it gets,
        alias: unless it shares this buffer, counted over inputs, then outputs,
        over: or takes that of this input, which is donated, where nobody else has it.
    """

    kind: Any
    weak: bool
    size_bytes: int
    alias: int = -1
    over: int = -1


def encode(tree: Any, words: list[int], depth: int = 0) -> bool:
    """Write a tree whose leaves are numbers, as `native` reads it.

    Returns:
        Whether that could be done: no other containers are in it, and it fits on the stack.
    """
    kind = type(tree)
    children: list[tuple[tuple[int, ...], Any]] = []
    if depth > DEEPEST:
        return False
    if kind is int:
        words += native.LEAF, tree
    elif tree is None:
        words.append(native.NOTHING)
    elif kind is list:
        words += native.LIST, len(tree)
        children = [((), child) for child in tree]
    elif kind is tuple or is_namedtuple(kind):
        words += native.TUPLE, id(kind), len(tree)
        children = [((), child) for child in tree]
    elif kind is dict and all(type(key) is str for key in tree):
        words += native.DICT, len(tree)
        children = [((id(key),), child) for key, child in tree.items()]
    elif kind in FIELDS:
        data, meta = FIELDS[kind]
        words += native.FIELDS, id(kind), len(meta)
        words += [word for name in meta for word in (id(name), id(getattr(tree, name)))]
        words.append(len(data))
        children = [((id(name),), getattr(tree, name)) for name in data]
    else:
        return False
    for key, child in children:
        words += key
        if not encode(child, words, depth + 1):
            return False
    return True


class Dispatch:
    """The native side of one device.

    Attributes:
        pool: where its buffers come from.
        adopt: makes a buffer of (address, size in bytes, owner).
    """

    def __init__(self, code: Code, device: str) -> None:
        self._code, self._device, self._serves = code, device, False
        count = len(native.STATE) + native.SHELVES
        self._state = (ctypes.c_int64 * count).from_address(code.addresses["state"])
        self._at = {name: at for at, name in enumerate(native.STATE)}
        for name, value in (
            ("none", None),
            ("true", True),
            ("refusal", NotImplemented),
            ("list_type", list),
            ("tuple_type", tuple),
            ("dict_type", dict),
            ("tuple_new", TUPLE_NEW),
            ("buffer_type", _buffer_type(code)),
        ):
            self[name] = id(value)
        self.adopt: Callable[[int, int, Any], Buffer] = _builtin("adopt", code.addresses["adopt"])
        self.pool = Pool(self, code)
        self._call = _method("call", code.addresses["call"])
        _for_ever(code, self, TUPLE_NEW)  # objects may outlive every name of theirs
        watch(self.configure)

    def __getitem__(self, name: str) -> int:
        """A word of the native state."""
        return self._state[self._at[name]]

    def __setitem__(self, name: str, value: int) -> None:
        self._state[self._at[name]] = value

    def shelf(self, number: int) -> int:
        """The address of a shelf."""
        return ctypes.addressof(self._state) + 8 * (len(native.STATE) + number)

    def configure(self) -> None:
        """Do as `config` says, which native code does not read."""
        self["enabled"] = config.device == self._device and not config.debug_nans
        self["limit"] = config.memory_limit_bytes or _UNLIMITED

    def serve(self, array: type) -> None:
        """Take and make instances of this class, which has the slots named in `STATE`."""
        names = [name for name in native.STATE if name.startswith("at_")]
        found = offsets(array, [name.removeprefix("at_") for name in names])
        for name, at in zip(names, found, strict=True):
            self[name] = at
        self["array_type"] = id(array)
        _for_ever(array)
        self._serves = True

    def door(
        self,
        words: dict[str, int],
        keep: Any,
        given: Sequence[Given],
        made: Sequence[Made],
        takes: Sequence[Any],
        gives: Any,
        captured: Sequence[Any],
    ) -> Door | None:
        """A builtin that runs a program; None if it cannot be, for the trees or their size.

        Args:
            words: the words of the plan that describe the program.
            keep: what must stay loaded.
            given, made: a row for each input and output of the program.
            takes: the arguments of the builtin, with numbers of inputs for arrays.
            gives: its result, with numbers of outputs for arrays.
            captured: the arrays of the last inputs, which are no arguments.
        """
        take: list[int] = []
        give: list[int] = []
        fits = all(encode(tree, take) for tree in takes) and encode(gives, give)
        if not self._serves or not fits or len(given) + len(made) > MOST_ARRAYS:
            return None
        parts = {
            "takes": take,
            "gives": give,
            "captured": [id(x) for x in captured],
            "input_rows": [
                word
                for row in given
                for word in (id(row.kind), 0 if row.weak is None else id(row.weak), row.donated)
            ],
            "output_rows": [word for row in made for word in self._output(row)],
        }
        told = self["on_give"] != 0
        counted = told or any(row.over >= 0 for row in made)
        words |= {
            "arguments": len(takes),
            "leaves": len(given) - len(captured),
            "inputs": len(given),
            "outputs": len(made),
            "long": words["long"] or told,
            "counted": len(given) if counted else 0,
        }
        block, shelf = shelf_of(words["work_bytes"])
        words |= {"work_block": block, "work_shelf": self.shelf(shelf)}
        plan = (ctypes.c_int64 * (len(native.PLAN) + sum(map(len, parts.values()))))()
        at, start = len(native.PLAN), ctypes.addressof(plan)
        for part, content in parts.items():
            words[part] = start + 8 * at
            at += len(content)
        listed = [words[word] for word in native.PLAN]
        for at, word in enumerate(itertools.chain(listed, *parts.values())):
            plan[at] = word
        # A tuple, which the garbage collector looks into: a function of the user may be in there
        # that leads back to the door.
        holder = self.adopt(start, ctypes.sizeof(plan), plan)
        return _bound(self._call, (holder, keep, given, made, takes, gives, captured))

    def _output(self, row: Made) -> tuple[int, ...]:
        block, shelf = shelf_of(row.size_bytes)
        return (
            self.shelf(shelf),
            block,
            row.size_bytes,
            row.alias,
            row.over,
            id(row.kind),
            id(row.kind.shape),
            id(row.kind.dtype),
            id(row.weak),
        )


def _figure(word: str) -> Any:
    """An attribute that is a word of the native state."""

    def read(pool: Pool) -> int:
        return pool.state[word]

    def write(pool: Pool, value: int) -> None:
        pool.state[word] = value

    return property(read, write)


class Pool:
    """Blocks by size class, kept by native code.

    Attributes:
        state: where native code counts.
        live_bytes, peak_bytes, kept_bytes, keep_limit_bytes, asked: as `tfn.hw.memory.Pool` says.
    """

    live_bytes, peak_bytes, kept_bytes = _figure("live"), _figure("peak"), _figure("kept")
    keep_limit_bytes = _figure("keep_limit")

    def __init__(self, state: Dispatch, code: Code) -> None:
        self.state, self.asked, self._regions = state, 0, Regions()
        self._guards = guards()
        if self._guards:
            told = self._guards.give, self._guards.free
            _for_ever(*told)
            state["on_give"], state["on_free"] = map(id, told)
            atexit.register(self._unguarded)
        self._take = _builtin("allocate", code.addresses["allocate"])
        self._provide = _builtin("provide", code.addresses["provide"])
        self._send_home = _builtin("send_home", code.addresses["send_home"])
        state["keep_limit"], state["big"] = keep_limit(), SLAB_BYTES // 4

    def copy(self, data: bytes) -> Buffer:
        """Memory that begins with these bytes.

        Raises:
            OutOfMemoryError: as `allocate`.
        """
        found: Buffer | None = self._take(len(data), *shelf_of(len(data)), data)
        if found is None:
            found = self.allocate(len(data))
            ctypes.memmove(found.address, data, len(data))
        return found

    def allocate(self, size_bytes: int) -> Buffer:
        """Uninitialised memory, aligned to 64 bytes.

        Raises:
            OutOfMemoryError: if the system refuses, or `config.memory_limit_bytes` would be passed.
        """
        place = shelf_of(size_bytes)
        while True:  # others may take what we bring
            found: Buffer | None = self._take(size_bytes, *place)
            if found is not None:
                return found
            limit = config.memory_limit_bytes
            if limit and self.live_bytes + place[0] > limit:
                raise over_limit(size_bytes, self.live_bytes, limit)
            self._bring(*place)

    def _bring(self, block_bytes: int, shelf: int) -> None:
        """New memory for a shelf; small blocks come many at once."""
        addresses = self._regions.blocks(block_bytes, self.live_bytes, self._guards)
        self.asked += 1
        for address in addresses:
            self._provide(address, block_bytes, shelf)

    def _unguarded(self) -> None:
        """Call no Python any more, which ends."""
        self.state["on_give"] = self.state["on_free"] = 0

    def release(self) -> None:
        """Return the big blocks on the shelves to the system."""
        for doublings in range(10, 44):
            for units in (5, 6, 7, 8):
                block_bytes = units * ALIGNMENT << doublings
                if block_bytes > SLAB_BYTES // 4:
                    self._send_home(*shelf_of(block_bytes))
