"""The operators of arrays: slots of their type that find the program of an operation natively.

    x * 2.0   slot nb_multiply -> row (multiply, kind of x, float) -> entry of its program

A row is keyed by the operator and the kinds of its operands.  Python runs the first operation of a
key, and tells which program that was (an `Operation`); `operators.ll` runs all others.  What no row
serves, as an array that is traced, is the method of the class.  Rows last as long as the entries of
caches, see `tfn._support.cache`, and the rules of promotion.

Source: Python/C API reference, "Type Object Structures"; the interpreter reads the slots of a type
at each operation.
"""

from __future__ import annotations

import ctypes
import sys
from types import BuiltinFunctionType
from typing import Any

import numpy as np

from tfn._support import cache
from tfn.dtypes import FLOAT32, FLOAT64, INTEGERS, DType
from tfn.hw.cpu import native
from tfn.hw.cpu.interpreter import keep_forever
from tfn.hw.cpu.loader import Code
from tfn.hw.device import Learn, Operation
from tfn.trace.traces import APART

MIN_ROWS = 256
"""Rows of a new table, which doubles when half of them are taken."""
_NUMBERS_AT, _COMPARISON_AT = 96, 200
"""Offsets in a type: the pointer to its slots of numbers, and the slot of comparisons."""
_EXACT = 1 << 53
"""Integers up to this are exact in float64, so that a conversion rounds them once."""
_MULTIPLIERS = -7046029254386353131, -4417276706812531889, 1609587929392839161
"""Factors of a row's words in the hash, those of `operators.ll`."""


def _number_words(dtype: DType) -> tuple[int, int, int] | None:
    """The words of a row about a number of a dtype: its code, and the integers it takes."""
    if dtype == FLOAT32:
        return native.NUMBER["single"], -_EXACT, _EXACT
    if dtype == FLOAT64:
        return native.NUMBER["double"], -_EXACT, _EXACT
    if dtype in INTEGERS and dtype.kind in "iu":
        ends = np.iinfo(dtype)
        return native.NUMBER["integer"], int(ends.min), min(int(ends.max), (1 << 63) - 1)
    return None


def _key(x: Any, operator: int) -> int:
    """A word of a row for an operand, as `operand_key` of `operators.ll` makes it."""
    if type(x) is int and operator == native.POWER:
        return id(x)
    if type(x) in (int, float):
        return id(type(x))
    return id(x.kind) + bool(x.weak_type)


def _slots(array: type) -> list[tuple[native.Slot, ctypes.c_size_t]]:
    """The slots of a class that are filled, and where each is.

    The documented function gives what is in a slot, not where it is.  An interpreter that lays out
    types in another way has none for us: operators are methods there.
    """
    slot_of = ctypes.pythonapi.PyType_GetSlot
    slot_of.restype, slot_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_int]
    numbers = ctypes.c_size_t.from_address(id(array) + _NUMBERS_AT).value
    found = []
    for slot in native.SLOTS:
        start = id(array) + _COMPARISON_AT if slot.place < 0 else numbers + 8 * slot.place
        word = ctypes.c_size_t.from_address(start)
        if word.value != (slot_of(array, slot.number) or 0):
            return []
        if word.value:
            found.append((slot, word))
    return found


class Operators:
    """The table of one device."""

    def __init__(self, code: Code) -> None:
        self._code = code
        address = code.addresses["operators"]
        self._words = (ctypes.c_int64 * native.OPERATORS_WORDS).from_address(address)
        self._rows: Any = ()
        self._slots: list[tuple[native.Slot, ctypes.c_size_t]] | None = None
        self._kept: dict[tuple[int, int, int], tuple[tuple[int, ...], Any]] = {}

    def _set(self, name: str, word: int) -> None:
        self._words[native.OPERATORS.index(name)] = word

    def serve(self, array: type, learn: Learn) -> None:
        """Put native functions into the slots of a class, whose methods stay what they are."""
        self._learn = learn
        learner = self._run
        self._set("float_type", id(float))
        self._set("int_type", id(int))
        self._set("recorders", id(APART))
        self._set("learn", id(learner))
        names = [sys.intern(name) for pair in native.OPERATOR_METHODS for name in pair]
        self._words[len(native.OPERATORS) :] = [id(name) for name in names]
        keep_forever(self, array, learner, APART, names)
        self._resize(MIN_ROWS)
        cache.AT_TURN.append(self.clear)
        self._slots = _slots(array) if self._slots is None else self._slots
        self.install()

    def install(self) -> None:
        """Put its functions into the slots, in which those of another device may be."""
        for slot, word in self._slots or ():
            word.value = self._code.addresses[f"operator_{slot.name}"]

    def clear(self) -> None:
        """Drop all rows."""
        kept, self._kept = self._kept, {}
        self._resize(MIN_ROWS)
        kept.clear()  # the end of an entry may run anything, so native code knows none by now

    def _resize(self, count: int) -> None:
        before, self._rows = self._rows, (ctypes.c_int64 * (count * len(native.OPERATOR)))()
        for words, _ in self._kept.values():
            self._insert(words)
        self._set("rows", ctypes.addressof(self._rows))
        self._set("mask", count - 1)
        del before

    def _insert(self, words: tuple[int, ...]) -> None:
        left, right, operator = [a * b for a, b in zip(words, _MULTIPLIERS)]
        width, count = len(words), len(self._rows) // len(words)
        at = (((left ^ right) + operator) % (1 << 64) >> 32) % count
        while self._rows[at * width]:
            at = (at + 1) % count
        # The first word says that there is a row.
        for word in reversed(range(width)):
            self._rows[at * width + word] = words[word]

    def _run(self, operator: int, left: Any, right: Any) -> Any:
        """The result of an operation; from now on the table has a row for others like it."""
        ran = self._learn(*native.OPERATOR_METHODS[operator], left, right)
        key = _key(left, operator), 0 if right is None else _key(right, operator), operator
        if key not in self._kept:
            words = (*key, *_program_words(ran, type(left) in (int, float)))
            # The kinds and numbers whose addresses are in the key live as long as the row.
            keep = [x if type(x) is int else getattr(x, "kind", None) for x in (left, right)]
            self._kept[key] = words, (ran.entry, ran.number, keep)
            if 2 * len(self._kept) * len(words) > len(self._rows):
                self._resize(2 * len(self._rows) // len(words))
            else:
                self._insert(words)
        return ran.result


def _program_words(ran: Operation, number_left: bool) -> tuple[int, ...]:
    """The words of a row behind its key; all 0 if Python has to run operations like this one."""
    number = (0, 0, 0) if ran.number is None else _number_words(ran.number.dtype)
    if type(ran.entry) is not BuiltinFunctionType or number is None:
        return (0,) * (len(native.OPERATOR) - 3)
    sources = [native.SOURCE[name] for name in ran.operands]
    first, second = (*sources, 0)[:2]
    array = 0 if ran.number is None else id(ran.number)
    return id(ran.entry.__self__), len(sources), first, second, array, number_left, *number
