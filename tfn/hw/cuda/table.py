"""Tables: the addresses of a graph's operands, in the memory of the device.

A graph is recorded once, for whatever arrays it is launched on: a kernel's one parameter is the
place of its operands in a table, which the host fills before a launch, and which `tfn_loop` changes
between the iterations of a loop::

    words       k1: &x, &y     k2: &t[i], &y     &t      i
                entries                          origin  counter
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tfn.extend import commands as records

WORD_BYTES = 8
Operands = tuple[records.Address, ...]


class Table:
    """The layout of a table.

    Attributes:
        entries: of each tuple of operands the first word.
        counters: of each loop of the graph the word of its iteration.
        base, offset: for each word that the host fills the number of a buffer (inputs, outputs,
            then the arena), and the bytes from there.
        rows: for each loop the words of its rows; see `control.TEXT`.
        pairs: of a counter and a stride, in each row.
        size: the number of words.
    """

    def __init__(self, commands: Sequence[records.Command]) -> None:
        self.entries: dict[Operands, int] = {}
        self._words: list[records.Address] = []
        used = dict.fromkeys(_operands(commands, ()))
        for operands in dict.fromkeys(operands for operands, _ in used):
            self.entries[operands] = len(self._words)
            self._words += operands
        inside = {number for _, loops in used for number in loops}
        moved = {
            (operands, i): len(self._words) + n
            for n, (operands, i) in enumerate(
                (operands, i)
                for operands in self.entries
                for i, address in enumerate(operands)
                if any(number in inside for number, _ in address.strides)
            )
        }
        # The origin has the strides of loops that the host runs, if any; it adds those.
        self._words += [operands[i] for operands, i in moved]
        numbers = dict.fromkeys(number for _, loops in used for number in loops)
        self.counters = {number: len(self._words) + i for i, number in enumerate(numbers)}
        self.size = len(self._words) + len(self.counters)
        self.pairs = 0
        moves: dict[int, list[tuple[int, int, Mapping[int, int]]]] = {n: [] for n in numbers}
        for operands, loops in used:
            if not loops:
                continue
            for i, address in enumerate(operands):
                if (operands, i) in moved:
                    pairs = _totals(
                        (self.counters[n], s) for n, s in address.strides if n in inside
                    )
                    row = self.entries[operands] + i, moved[operands, i], pairs
                    moves[loops[-1]].append(row)
                    self.pairs = max(self.pairs, len(pairs))
        self.rows = {number: self._flat(rows) for number, rows in moves.items()}
        self.base = np.array([a.base for a in self._words], np.int64)
        self.offset = np.array([a.offset for a in self._words], np.int64)
        strides = [_totals((n, s) for n, s in a.strides if n not in inside) for a in self._words]
        outside = dict.fromkeys(number for steps in strides for number in steps)
        self._strides = {
            number: np.array([steps.get(number, 0) for steps in strides], np.int64)
            for number in outside
        }

    def _flat(self, rows: Sequence[tuple[int, int, Mapping[int, int]]]) -> Any:
        """Rows of equal length as int64 words; a stride of 0 moves nothing."""
        words = np.zeros((len(rows), 2 + 2 * self.pairs), np.int64)
        for row, (entry, origin, pairs) in zip(words, rows, strict=True):
            row[:2] = entry, origin
            for i, pair in enumerate(pairs.items()):
                row[2 + 2 * i : 4 + 2 * i] = pair
        return words

    def moves(self, loops: Mapping[int, int]) -> Any:
        """The bytes by which loops that the host runs move each word; None if they move none.

        Args:
            loops: the iteration of each open loop.
        """
        if not self._strides:
            return None
        return sum(loops[number] * steps for number, steps in self._strides.items())


def _totals(pairs: Iterator[tuple[int, int]]) -> dict[int, int]:
    """The sum of the strides of each loop."""
    totals: dict[int, int] = {}
    for number, step in pairs:
        totals[number] = totals.get(number, 0) + step
    return totals


def _operands(
    commands: Sequence[records.Command], loops: tuple[int, ...]
) -> Iterator[tuple[Operands, tuple[int, ...]]]:
    """All operands that kernels are launched with, and the numbers of the loops around them."""
    for command in commands:
        inner = loops
        if isinstance(command, records.Launch):
            yield command.operands, loops
        elif isinstance(command, records.Repeat):
            inner = (*loops, command.number)
            # A loop whose operands do not move has a counter all the same.
            yield () if command.condition is None else (command.condition,), inner
        elif isinstance(command, records.Choose):
            yield (command.index,), loops
        for part in records.parts(command):
            yield from _operands(part, inner)
