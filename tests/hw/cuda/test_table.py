"""Tables: where the addresses of operands are, and which of them loops move."""

from __future__ import annotations

import numpy as np

from tfn.hw.commands import Address, Choose, Command, Launch, Repeat
from tfn.hw.cuda.table import Table

FIXED, MOVED = Address(0, 8), Address(1, 0, ((5, 16),))


def filled(table: Table, buffers: list[int]) -> list[int]:
    """The words of a table for buffers at addresses, as `launch.ll` fills it."""
    return [buffers[b] + o for b, o in zip(table.base, table.offset, strict=True)]


def launch(*operands: Address) -> Launch:
    return Launch("k", 1, 32, operands)


def test_equal_operands_are_in_the_table_once() -> None:
    table = Table([launch(FIXED, FIXED), launch(FIXED, FIXED)])
    assert table.size == 2 and not table.counters
    assert filled(table, [100, 200]) == [108, 108] and table.moves({}) is None


def test_an_operand_that_a_loop_moves_has_an_origin() -> None:
    table = Table([Repeat(5, 9, (), None, (launch(FIXED, MOVED),))])
    assert table.size == 4 and table.counters == {5: 3}
    assert table.rows[5].tolist() == [[1, 2, 3, 16]]
    assert filled(table, [100, 200]) == [108, 200, 200]


def test_an_inner_loop_moves_what_the_outer_one_has_moved() -> None:
    twice = Address(0, 0, ((5, 16), (6, 4)))
    inner = Repeat(6, 3, (), None, (launch(twice, MOVED),))
    commands: list[Command] = [Repeat(5, 9, (), None, (launch(MOVED), inner))]
    table = Table(commands)
    assert table.pairs == 2 and len(table.rows[5]) == 1 and len(table.rows[6]) == 2
    at = table.counters
    assert table.rows[6][0][2:].tolist() == [at[5], 16, at[6], 4]
    assert table.rows[6][1][2:].tolist() == [at[5], 16, 0, 0]


def test_conditions_and_indices_have_entries() -> None:
    loop = Repeat(1, None, (launch(FIXED),), Address(0, 64), (launch(FIXED),))
    table = Table([loop, Choose(Address(1, 4), ((), ()))])
    assert table.entries[Address(0, 64),] < table.size
    assert filled(table, [0, 100])[table.entries[Address(1, 4),]] == 104


def test_loops_of_the_host_move_words_before_a_launch() -> None:
    table = Table([launch(MOVED, FIXED)])  # loop 5 is around the graph
    moves = table.moves({5: 3})
    assert moves.dtype == np.int64 and moves.tolist() == [48, 0]
    assert filled(table, [100, 200]) == [200, 108]
