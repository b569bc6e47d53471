"""CUDA graphs: commands become nodes, one after the other, recorded once and launched at once.

    Launch k1                    kernel k1
    Repeat 100 times: ...        tfn_loop, then a node that repeats a graph: ..., tfn_loop
    Repeat while c: ...          tfn_loop, head, tfn_test, then: body, tfn_loop, head, tfn_test
    Choose by i: f | g           tfn_choose for each, then a node that may run f, and one for g

Nothing returns to the host between two nodes.  A launch costs the host 3 us whatever the number of
nodes, a node 1.0 us on the device, and an iteration of a loop 4.3 (H100).

Source: CUDA Driver API, graph management.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfn.extend import commands as records
from tfn.extend import frozen
from tfn.hw.cuda import control
from tfn.hw.cuda.driver import Driver
from tfn.hw.cuda.table import WORD_BYTES, Table

_CONDITIONAL = 13  # CU_GRAPH_NODE_TYPE_CONDITIONAL
IF, WHILE = 0, 1  # CUgraphConditionalNodeType
_DEFAULT_AT_LAUNCH = 1  # the condition's first value is set by each launch of the graph


class KernelNode(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS_v2."""

    _fields_ = (
        ("function", ctypes.c_void_p),
        ("groups", ctypes.c_uint * 3),
        ("threads", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("parameters", ctypes.POINTER(ctypes.c_void_p)),
        ("extra", ctypes.c_void_p),
        ("kernel", ctypes.c_void_p),
        ("context", ctypes.c_void_p),
    )


class ConditionalNode(ctypes.Structure):
    """CUgraphNodeParams with CUDA_CONDITIONAL_NODE_PARAMS in its union."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("reserved", ctypes.c_int * 3),
        ("handle", ctypes.c_uint64),
        ("kind", ctypes.c_int),
        ("size", ctypes.c_uint),
        ("bodies", ctypes.POINTER(ctypes.c_void_p)),
        ("context", ctypes.c_void_p),
        ("rest", ctypes.c_int64 * 25),
        ("reserved_too", ctypes.c_int64),
    )


@frozen
class Function:
    """A kernel of a module.

    Attributes:
        handle: as the driver knows it.
        shared_bytes: of dynamic shared memory that a launch reserves.
    """

    handle: Any
    shared_bytes: int = 0


def parameters(*values: Any) -> Any:
    """The parameters of a kernel as the driver takes them: the addresses of C values."""
    pointers = (ctypes.c_void_p * max(len(values), 1))(*map(ctypes.addressof, values))
    pointers.values = values  # type: ignore[attr-defined]  # they live as long
    return pointers


MAX_NODES_TO_COPY = 24
"""Nodes of a graph that has copies.  To instantiate one takes 100 us and more, once; to send a
table costs the host about as much as a launch, 3 us, and a node takes the GPU 1 us (H100)."""
COPIES = 4
"""Copies of a small graph, each with a table of its own.  Results that come back as arguments are
in blocks that take turns: two sets of addresses, or four where free lists give blocks of one size
in the reverse order."""


class Graph:
    """Commands recorded for a device; made by `recorded`.

    Attributes:
        table: the layout of its tables.
        copies: executable graphs that differ in the address of their table.
    """

    def __init__(self, driver: Driver, table: Table, copies: Sequence[tuple[Any, int]]) -> None:
        self.driver, self.table, self.copies = driver, table, tuple(copies)

    def __del__(self) -> None:
        for executable, _ in self.copies:
            self.driver.library.functions["cuGraphExecDestroy"](executable)


def recorded(
    driver: Driver,
    functions: Mapping[str, Function],
    commands: Sequence[records.Command],
    allocate: Callable[[int], int],
    write: Callable[[int, Any], None],
) -> Graph:
    """The graph of commands that need no host.

    Args:
        functions: the kernels by name, those of `control` among them.
        allocate: memory of the device that lives as long as the graph, by size in bytes.
        write: writes an array to an address of the device.
    """
    table, library = Table(commands), driver.library
    rows: dict[int, tuple[int, int]] = {}
    for number, words in table.rows.items():
        rows[number] = (allocate(words.nbytes), len(words))
        write(rows[number][0], words)
    small = len(commands) <= MAX_NODES_TO_COPY and all(
        isinstance(c, records.Launch) for c in commands
    )
    result = Graph(driver, table, ())
    for _ in range(COPIES if small else 1):
        place = allocate(table.size * WORD_BYTES)
        graph = library.handle("cuGraphCreate", 0)
        try:
            _Recorder(driver, functions, table, place, rows).chain(graph, commands)
            executable = library.handle("cuGraphInstantiateWithFlags", graph, ctypes.c_uint64(0))
        finally:
            library("cuGraphDestroy", graph)
        result.copies += ((executable, place),)
    return result


class _Recorder:
    """Adds nodes to graphs, each after the one before.

    Attributes:
        rows: of each loop, the address and the number of its rows.
    """

    def __init__(
        self,
        driver: Driver,
        functions: Mapping[str, Function],
        table: Table,
        place: int,
        rows: Mapping[int, tuple[int, int]],
    ) -> None:
        self.driver, self.functions, self.table, self.place = driver, functions, table, place
        self.rows = rows

    def chain(
        self, graph: Any, commands: Sequence[records.Command], last: Any = None, loop: Any = None
    ) -> Any:
        """Add nodes for commands in order; returns the last node."""
        for command in commands:
            last = ADD[type(command)](self, graph, command, last)
        return last

    # Kernels.

    def _entry(self, operands: Any) -> Any:
        return ctypes.c_uint64(self.place + WORD_BYTES * self.table.entries[operands])

    def kernel(
        self, graph: Any, name: str, groups: int, threads: int, last: Any, *values: Any
    ) -> Any:
        """Add a kernel after a node."""
        function, arguments = self.functions[name], parameters(*values)
        node = KernelNode(
            function.handle,
            (groups, 1, 1),
            (threads, 1, 1),
            function.shared_bytes,
            ctypes.cast(arguments, ctypes.POINTER(ctypes.c_void_p)),
            context=self.driver.context,
        )
        return self._add("cuGraphAddKernelNode", graph, last, node)

    def _add(self, function: str, graph: Any, last: Any, node: Any) -> Any:
        before = None if last is None else ctypes.byref(last)
        count = ctypes.c_size_t(0 if last is None else 1)
        return self.driver.library.handle(function, graph, before, count, ctypes.byref(node))

    def launch(self, graph: Any, command: records.Launch, last: Any) -> Any:
        """Add a kernel of the program; one without groups has nothing to do."""
        if not command.groups:
            return last
        entry = self._entry(command.operands)
        return self.kernel(graph, command.kernel, command.groups, command.threads, last, entry)

    # Loops and branches.

    def _handle(self, graph: Any) -> Any:
        """A condition of a graph, which is false unless a kernel sets it."""
        handle = ctypes.c_uint64()
        self.driver.library(
            "cuGraphConditionalHandleCreate",
            *(ctypes.byref(handle), graph, self.driver.context, 0, _DEFAULT_AT_LAUNCH),
        )
        return handle

    def _conditional(self, graph: Any, last: Any, kind: int, handle: Any) -> tuple[Any, Any]:
        """A node that runs a graph under a condition, and this graph, which is empty yet."""
        node = ConditionalNode(
            _CONDITIONAL, handle=handle, kind=kind, size=1, context=self.driver.context
        )
        added = self._add("cuGraphAddNode", graph, last, node)
        return added, ctypes.c_void_p(node.bodies[0])

    def _iteration(
        self, graph: Any, command: records.Repeat, last: Any, step: int, handle: Any
    ) -> Any:
        """Add what begins an iteration: its number, its addresses, and whether there is one."""
        address, count = self.rows[command.number]
        trips = -1 if command.trips is None else command.trips
        words = [address, count, self.table.pairs, self.table.counters[command.number], step, trips]
        values = [ctypes.c_uint64(self.place), *map(ctypes.c_int64, words), handle]
        last = self.kernel(graph, "tfn_loop", 1, control.THREADS, last, *values)
        if command.condition is not None:
            last = self.chain(graph, command.head, last)
            entry = self._entry((command.condition,))
            last = self.kernel(graph, "tfn_test", 1, 1, last, entry, handle)
        return last

    def repeat(self, graph: Any, command: records.Repeat, last: Any) -> Any:
        """Add a loop."""
        handle = self._handle(graph)
        last = self._iteration(graph, command, last, 0, handle)
        last, body = self._conditional(graph, last, WHILE, handle)
        end = self.chain(body, command.body)
        self._iteration(body, command, end, 1, handle)
        return last

    def choose(self, graph: Any, command: records.Choose, last: Any) -> Any:
        """Add the branches, of which one will run."""
        entry = self._entry((command.index,))
        final = len(command.branches) - 1
        handles = [self._handle(graph) for _ in command.branches]
        # All conditions first: a branch may write where the index is.
        for i, handle in enumerate(handles):
            values = entry, ctypes.c_int(i), ctypes.c_int(final), handle
            last = self.kernel(graph, "tfn_choose", 1, 1, last, *values)
        for branch, handle in zip(command.branches, handles, strict=True):
            last, body = self._conditional(graph, last, IF, handle)
            self.chain(body, branch)
        return last


ADD: dict[type, Callable[[_Recorder, Any, Any, Any], Any]] = {
    records.Launch: _Recorder.launch,
    records.Repeat: _Recorder.repeat,
    records.Choose: _Recorder.choose,
}
"""The method that adds the nodes of each command."""
