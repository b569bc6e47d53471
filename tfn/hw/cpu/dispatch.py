"""Dispatch: makes the entries of programs, builtins that run them on a user's arguments.

An entry takes the arguments of a user's function as they are, and returns its results.  Its code
is `entry.ll`, the same for all programs; the tuple that is its `self` holds the plan of one.

Interpreters that lay out objects in another way have no entries; see `interpreter.supported`.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any

from tfn.config import config, watch
from tfn.hw.buffer import Buffer
from tfn.hw.cpu import native, pool
from tfn.hw.cpu.call_log import CallLog
from tfn.hw.cpu.clock import Clock
from tfn.hw.cpu.interpreter import bind, buffer_type, keep_forever, method, slot_offsets
from tfn.hw.cpu.kernel_log import KernelLog
from tfn.hw.cpu.loader import Code
from tfn.hw.cpu.operators import Operators
from tfn.hw.cpu.pool import Pool, free_list_of
from tfn.hw.cpu.use_log import UseLog
from tfn.hw.device import Entry, EntryForm, EntryInput, EntryOutput, Learn
from tfn.hw.memory import BlockSource
from tfn.tree import FIELDS, is_namedtuple

MAX_DEPTH = 100
"""Containers within each other in a tree: native code recurses on the caller's stack."""
_OWN = ("state", "dealloc", "getbuffer", "adopt", "call", "read_counter", "add_use")
_OPERATORS = ("operators", *[f"operator_{slot.name}" for slot in native.SLOTS])
SYMBOLS = (*_OWN, *_OPERATORS, *pool.SYMBOLS)
TUPLE_NEW = tuple.__new__  # one object for all: each access of the attribute makes a new one
_UNLIMITED_BYTES = (1 << 63) - 1
_SERVING: dict[str, Dispatch] = {}
"""By device, whose operators are in the slots of arrays while it is the default one."""


def encode(tree: Any, words: list[int], depth: int = 0) -> bool:
    """Append the words of a tree whose leaves are numbers; see `native.TREE`.

    Returns:
        Whether it can be encoded: it has no other containers, and at most `MAX_DEPTH` levels.
    """
    kind, codes = type(tree), native.TREE
    children: list[tuple[tuple[int, ...], Any]] = []
    if depth > MAX_DEPTH:
        return False
    if kind is int:
        words += codes["leaf"], tree
    elif tree is None:
        words.append(codes["none"])
    elif kind is list:
        words += codes["list"], len(tree)
        children = [((), child) for child in tree]
    elif kind is tuple or is_namedtuple(kind):
        words += codes["tuple"], id(kind), len(tree)
        children = [((), child) for child in tree]
    elif kind is dict and all(type(key) is str for key in tree):
        words += codes["dict"], len(tree)
        children = [((id(key),), child) for key, child in tree.items()]
    elif kind in FIELDS:
        data, static = FIELDS[kind]
        words += codes["dataclass"], id(kind), len(static)
        words += [word for name in static for word in (id(name), id(getattr(tree, name)))]
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
        state: the words that native code reads.
        buffers: their type.
        pool: allocates its buffers.
        adopt: makes a buffer of (address, size in bytes, owner).
        log, kernels, uses: of its calls, of the kernels of programs, and of buffers.
    """

    def __init__(self, code: Code, device: str, source: BlockSource | None = None) -> None:
        """The native side of a device.

        Args:
            code: of `native.text`, loaded.
            device: its name.
            source: where the blocks of a device with memory of its own come from.
        """
        self._device, self._serves = device, False
        self.state = native.State(code.addresses["state"])
        buffers = buffer_type(code.addresses, device if source else "")
        for name, value in (
            ("none", None),
            ("true", True),
            ("not_implemented", NotImplemented),
            ("list_type", list),
            ("tuple_type", tuple),
            ("dict_type", dict),
            ("tuple_new", TUPLE_NEW),
            ("buffer_type", buffers),
        ):
            self.state[name] = id(value)
        adopt = bind(method("adopt", code.addresses["adopt"]), None)
        self.adopt: Callable[[int, int, Any], Buffer] = adopt
        self.buffers, self.pool = buffers, Pool(self.state, code, source)
        self._call = method("call", code.addresses["call"])
        self._operators = Operators(code)
        clock = Clock(code.addresses["read_counter"])
        self.log, self.kernels = CallLog(self.state, code, clock), KernelLog(code, clock)
        self.uses = UseLog(self.state, code, clock, buffers)
        keep_forever(code, self, TUPLE_NEW)  # buffers and entries may outlive every name of theirs
        watch(self.configure)

    def configure(self) -> None:
        """Copy the settings of `config` that native code needs."""
        enabled = config.device == self._device and not config.debug_nans
        self.state["enabled"] = enabled
        if enabled and _SERVING.get(self._device) is self:
            self._operators.install()
        self.state["limit_bytes"] = config.memory_limit_bytes or _UNLIMITED_BYTES

    def serve(self, array: type, learn: Learn | None = None) -> None:
        """Take and make instances of this class, whose slots `native.STATE` names.

        With `learn` its operators become native: see `tfn.hw.cpu.operators`.
        """
        words = [name for name in native.STATE if name.startswith("offset_")]
        offsets = slot_offsets(array, [word.removeprefix("offset_") for word in words])
        for word, offset in zip(words, offsets, strict=True):
            self.state[word] = offset
        self.state["array_type"] = id(array)
        keep_forever(array)
        self._serves = True
        if learn:
            _SERVING[self._device] = self
            self._operators.serve(array, learn)

    def entry(self, words: dict[str, int], keep: Any, form: EntryForm) -> Entry | None:
        """A builtin that runs a program; None if the trees do not allow one.

        Args:
            words: the words of the plan that describe the program.
            keep: an object that lives as long as the builtin.
            form: the calls that it takes.
        """
        inputs, outputs, captured = form.inputs, form.outputs, form.captured
        argument_words: list[int] = []
        result_words: list[int] = []
        encoded = all(encode(tree, argument_words) for tree in form.arguments)
        encoded = encoded and encode(form.result, result_words)
        if not self._serves or not encoded:
            return None
        sections = {
            "argument_trees": argument_words,
            "result_tree": result_words,
            "captured": [id(x) for x in captured],
            "input_rows": [word for row in inputs for word in _input_words(row)],
            "output_rows": [word for row in outputs for word in self._output_words(row)],
        }
        # A hook is a call of Python, during which other threads run; and whether a buffer has
        # one owner is known by its count of references, if the call itself holds one.
        hooked = self.state["on_allocate"] != 0
        held = hooked or any(row.in_place >= 0 for row in outputs)
        block_bytes, free_list = free_list_of(words["work_bytes"])
        words |= {
            "argument_count": len(form.arguments),
            "leaf_count": len(inputs) - len(captured),
            "input_count": len(inputs),
            "output_count": len(outputs),
            "unlocked": words["unlocked"] or hooked,
            "held_count": len(inputs) if held else 0,
            "calls": 0,
            "work_block_bytes": block_bytes,
            "work_free_list": self.state.free_list(free_list),
        }
        plan = (ctypes.c_int64 * (len(native.PLAN) + sum(map(len, sections.values()))))()
        offset, start = len(native.PLAN), ctypes.addressof(plan)
        for name, section in sections.items():
            words[name] = start + 8 * offset
            offset += len(section)
        head = [words[name] for name in native.PLAN]
        for offset, word in enumerate(itertools.chain(head, *sections.values())):
            plan[offset] = word
        # The plan is reached through a buffer, whose address native code finds.  `self` is a
        # tuple, which the garbage collector traverses: it may hold a function of the user that
        # leads back to the entry.
        holder = self.adopt(start, ctypes.sizeof(plan), plan)
        return bind(self._call, (holder, keep, form))

    def _output_words(self, row: EntryOutput) -> tuple[int, ...]:
        """A row of `native.OUTPUT`."""
        block_bytes, free_list = free_list_of(row.size_bytes)
        return (
            self.state.free_list(free_list),
            block_bytes,
            row.size_bytes,
            row.alias,
            row.in_place,
            id(row.kind),
            id(row.kind.shape),
            id(row.kind.dtype),
            id(row.weak),
        )


def _input_words(row: EntryInput) -> tuple[int, ...]:
    """A row of `native.INPUT`."""
    return id(row.kind), 0 if row.weak is None else id(row.weak), row.donated
