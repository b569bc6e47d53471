"""Native dispatch: the layouts that its LLVM IR shares with Python, and its text.

A call of a compiled function is served by one builtin, an operator of arrays by a slot of their
type; the code is in these files::

    buffers.ll        the type of native buffers; free lists: allocate, free
    pytrees.ll        arguments taken apart, results put together
    entry.ll          the body of every builtin: check, allocate, run, build the result
    operators.ll      the operators of arrays: from operands to the entry of their program
    operator_slot.ll  the function of one slot
    guard_hooks.ll    with guards only: calls to Python as blocks are allocated and freed

A buffer is an object of a type of our own, with its address at a fixed offset.  A dead one goes to
the free list of its size class, memory and all, and the next allocation takes it from there.  What
is particular to one program is in a table of words, its plan; so the text is compiled once for all
programs.  The interpreter's lock guards all of it.

Functions that run seldom, or wait for the interpreter anyway, have the attribute `#0` (optnone):
to select their instructions takes a third of the time.
"""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from tfn.hw.cpu.ir import read_ir

BUFFER = {
    "address": 16,
    "size_bytes": 24,
    "owner": 32,
    "block_bytes": 40,
    "next": 48,
    "free_list": 56,
    "exclusive": 64,
    "freed_after": 72,
}
"""Offsets of the fields of a native buffer, behind the header of every object."""
BUFFER_BYTES = 80
TUPLE_ITEMS = 24
"""Offset of the items of a tuple."""

FREE_LISTS = 256
"""One for each size class: four for each of 64 doublings."""
STATE = (
    "enabled",
    "live_bytes",
    "peak_bytes",
    "free_bytes",
    "free_limit_bytes",
    "limit_bytes",
    "large_bytes",
    "unmap",
    "started",
    "write_number",
    "queue",
    "buffer_type",
    "array_type",
    "list_type",
    "tuple_type",
    "tuple_new",
    "dict_type",
    "none",
    "true",
    "not_implemented",
    "offset_kind",
    "offset_weak_type",
    "offset_buffer",
    "offset_shape",
    "offset_dtype",
    "offset_uop",
    "offset_owner",
    "offset_known",
    "on_allocate",
    "on_free",
    "ring",
    "row_count",
    "sample_mask",
    "use_ring",
    "use_count",
)
"""The words of `state` in order; the heads of the free lists come after them.

unmap: the address of the function that takes a block back from a free list, of (address, bytes).
started: the programs that were started, where programs run after their calls.
write_number: the address of the function that writes a number to the memory of a device before the
programs that follow, of (queue, address, bits), and `queue` its first operand; 0 where native code
stores it itself.
"""
_STATE_INDEX = {name: index for index, name in enumerate(STATE)}

PLAN = (
    "run",
    "call",
    "pool",
    "argument_count",
    "leaf_count",
    "input_count",
    "output_count",
    "work_bytes",
    "work_block_bytes",
    "work_free_list",
    "unlocked",
    "held_count",
    "number",
    "calls",
    "argument_trees",
    "result_tree",
    "input_rows",
    "captured",
    "output_rows",
)
"""The words of a plan in order.

run, call, pool: see `thread_pool.ll`; `pool` is the Python function that gives its address.
argument_count, leaf_count: arguments of the builtin, and arrays among them.
input_count, output_count: of the program; inputs are the leaves, then captured arrays.
work_bytes, work_block_bytes, work_free_list: the working memory, and where its block comes from.
unlocked: whether the program runs without the interpreter's lock.
held_count: how many inputs a call holds from its beginning on.
number, calls: of the program in the event log, and how often it was called; see `call_log.py`.
argument_trees, result_tree, input_rows, captured, output_rows: addresses, in the plan itself.
"""

STACK_WORDS = 1 << 13
"""Words on the stack for the addresses of a call, 64 KiB; a larger call asks for memory."""

RING_ROWS = 1 << 14
"""The latest calls that are kept: 640 KB."""
RING_WORDS = 5
"""Words of a row: the number of the program, ticks at its begin and end, calls until then, and the
bytes of all arrays that are alive."""

USE_ROWS = 1 << 17
"""The latest uses of buffers that are kept while a trace records: 5 MB, 25,000 eager operations."""
USE_WORDS = 5
"""Words of a row: the use, the number of the program, the buffer, its size in bytes, and ticks."""
USE = {"allocate": 0, "free": 1, "read": 2, "write": 3, "work": 4}
"""Codes of the uses of a buffer; see `tfn._support.events.Use`."""

INPUT = ("kind", "weak", "donated")
"""The words of a row that describes an input: kind and weakness by identity, 0 for any weakness."""
OUTPUT = (
    "free_list",
    "block_bytes",
    "size_bytes",
    "alias",
    "in_place",
    "kind",
    "shape",
    "dtype",
    "weak",
)
"""The words of a row that describes an output; see `tfn.hw.device.Output`."""

TREE = {"leaf": 0, "none": 1, "list": 2, "tuple": 3, "dict": 4, "dataclass": 5}
"""Codes of the nodes of a tree.  A tree is a code and what follows it::

    leaf       i                           the number of an input or output
    none
    list       n, then n trees
    tuple      class, n, then n trees      named tuples too
    dict       n, then n times: key, tree
    dataclass  class, m, then m times: name, static value; n, then n times: name, tree
"""

OPERATORS = ("rows", "mask", "learn", "recorders", "float_type", "int_type")
"""The words of `operators`; the names of `OPERATOR_METHODS` come after them.

rows, mask: the address of the table, and the number of its rows less one, in bits that are all 1.
learn: a method of Python that runs an operation and adds a row for others like it.
recorders: the list of traces that record operations on concrete arrays.
"""
OPERATOR = (
    "left",
    "right",
    "operator",
    "owner",
    "count",
    "first",
    "second",
    "number",
    "number_left",
    "number_type",
    "low",
    "high",
)
"""The words of a row of the table.

left, right, operator: the key; left is 0 in a free row, right if there is only one operand.
owner: the `self` of the entry of the program; 0 if Python has to run the operation.
count, first, second: the operands of the program, by `SOURCE`.
number: the array that takes the value of an operand that is a Python number; 0 without one.
number_left: whether the number is the left operand.
number_type, low, high: by `NUMBER` the type that it is converted to, and the integers it may be.
"""
SOURCE = {"left": 0, "right": 1, "number": 2}
NUMBER = {"integer": 0, "single": 1, "double": 2}


class Slot(NamedTuple):
    """A slot of a type.

    Attributes:
        name: its name, in that of its function.
        number: for PyType_GetSlot, part of the stable ABI.
        place: among the slots of numbers; -1 for that of comparisons.
        methods: for each of its operators the method and that of the reflected operator.
    """

    name: str
    number: int
    place: int
    methods: tuple[tuple[str, str], ...]


_TABLES = (("PLAN", PLAN), ("INPUT", INPUT), ("OUTPUT", OUTPUT), ("OPERATOR", OPERATOR))


def _binary(name: str) -> tuple[tuple[str, str], ...]:
    return ((f"__{name}__", f"__r{name}__"),)


# fmt: off
SLOTS = (
    Slot("add", 7, 0, _binary("add")),
    Slot("subtract", 36, 1, _binary("sub")),
    Slot("multiply", 29, 2, _binary("mul")),
    Slot("remainder", 34, 3, _binary("mod")),
    Slot("power", 33, 5, _binary("pow")),
    Slot("negative", 30, 6, (("__neg__", ""),)),
    Slot("absolute", 6, 8, (("__abs__", ""),)),
    Slot("invert", 27, 10, (("__invert__", ""),)),
    Slot("left_shift", 28, 11, _binary("lshift")),
    Slot("right_shift", 35, 12, _binary("rshift")),
    Slot("and", 8, 13, _binary("and")),
    Slot("xor", 38, 14, _binary("xor")),
    Slot("or", 31, 15, _binary("or")),
    Slot("floor_divide", 12, 29, _binary("floordiv")),
    Slot("true_divide", 37, 30, _binary("truediv")),
    Slot("matrix_multiply", 75, 34, _binary("matmul")),
    # In the order of the interpreter: <, <=, ==, !=, >, >=.  It reflects comparisons itself.
    Slot("compare", 67, -1, (
        ("__lt__", ""), ("__le__", ""), ("__eq__", ""), ("__ne__", ""), ("__gt__", ""),
        ("__ge__", ""))),
)
# fmt: on
OPERATOR_METHODS = tuple(pair for slot in SLOTS for pair in slot.methods)
"""The methods of the operators, by number; those of one slot follow each other."""
OPERATORS_WORDS = len(OPERATORS) + 2 * len(OPERATOR_METHODS)
POWER = OPERATOR_METHODS.index(("__pow__", "__rpow__"))


def _slot_values(slot: Slot) -> dict[str, object]:
    """The holes of `operator_slot.ll`."""
    first = OPERATOR_METHODS.index(slot.methods[0])
    parameters, number = "ptr %left, ptr %right", f"%number = add i64 0, {first}"
    right = "%right"
    if slot.place < 0:
        parameters += ", i32 %comparison"
        number = f"%wide = zext i32 %comparison to i64\n  %number = add i64 %wide, {first}"
    elif slot.name == "power":  # with a modulus there is no such operator
        parameters += ", ptr %modulus"
        number = "%none = load ptr, ptr " + _word(STATE.index("none"))
        number += "\n  %two = icmp eq ptr %modulus, %none"
        number += f"\n  %number = select i1 %two, i64 {first}, i64 -1"
    elif not slot.methods[0][1]:
        parameters, right = "ptr %left", "null"
    return {
        "NAME": slot.name,
        "PARAMETERS": parameters,
        "NUMBER": number,
        "RIGHT": right,
    }


def _word(at: int, of: str = "state") -> str:
    """The address of a word of a table."""
    return f"getelementptr (i8, ptr @{of}, i64 {8 * at})"


def text(guarded: bool = False, queued: bool = False) -> str:
    """LLVM IR of the functions behind builtins and slots, of `state` and of `operators`.

    Args:
        guarded: whether Python is called as blocks are allocated and freed.
        queued: whether programs run after their calls: a block says how many were started before
            it was freed.
    """
    values: dict[str, object] = {
        "TUPLE_ITEMS": TUPLE_ITEMS,
        "STATE_WORDS": len(STATE) + FREE_LISTS,
        "FREE_LISTS": _word(len(STATE)),
        "INPUT_WORDS": len(INPUT),
        "STACK_WORDS": STACK_WORDS,
        "OUTPUT_WORDS": len(OUTPUT),
        "RING_MASK": RING_ROWS - 1,
        "RING_WORDS": RING_WORDS,
        "USE_MASK": USE_ROWS - 1,
        "USE_WORDS": USE_WORDS,
    }
    values |= {f"BUFFER.{name}": offset for name, offset in BUFFER.items()}
    values |= {f"USE.{name}": code for name, code in USE.items()}
    values |= {f"TREE.{name}": code for name, code in TREE.items()}
    values |= {f"STATE.{name}": _word(at) for at, name in enumerate(STATE)}
    values |= {f"OPERATORS.{name}": _word(at, "operators") for at, name in enumerate(OPERATORS)}
    values |= {f"SOURCE.{name}": code for name, code in SOURCE.items()}
    values |= {f"NUMBER.{name}": code for name, code in NUMBER.items()}
    values |= {
        "OPERATORS_WORDS": OPERATORS_WORDS,
        "METHODS": _word(len(OPERATORS), "operators"),
        "OPERATOR_WORDS": len(OPERATOR),
        "POWER": POWER,
    }
    for table, names in _TABLES:
        values |= {f"{table}.{name}": at for at, name in enumerate(names)}
    conditions = ("GUARDED",) * guarded + ("QUEUED",) * queued
    files = ("buffers", "pytrees", "entry", "operators", "guard_hooks")[: 5 if guarded else 4]
    texts = [read_ir(file, values, conditions) for file in files]
    texts += [read_ir("operator_slot", values | _slot_values(slot)) for slot in SLOTS]
    return "".join(texts)


class State:
    """The words of `state` in loaded code, by name, as Python reads and writes them."""

    def __init__(self, address: int) -> None:
        self._words = (ctypes.c_int64 * (len(STATE) + FREE_LISTS)).from_address(address)

    def __getitem__(self, name: str) -> int:
        return self._words[_STATE_INDEX[name]]

    def __setitem__(self, name: str, value: int) -> None:
        self._words[_STATE_INDEX[name]] = value

    def address(self, name: str) -> int:
        """The address of a word."""
        return ctypes.addressof(self._words) + 8 * _STATE_INDEX[name]

    def free_list(self, number: int) -> int:
        """The address of the head of a free list."""
        return ctypes.addressof(self._words) + 8 * (len(STATE) + number)
