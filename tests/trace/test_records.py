"""Compilation records: collected on demand, by the innermost block, past the caches."""

from __future__ import annotations

import threading

from tfn.trace.records import Cost, Record, cached, changed, collecting, sink


def test_nothing_is_collected_otherwise() -> None:
    assert sink() is None
    assert changed("rule", 1, 2) == 2 and sink() is None


def test_the_innermost_block_collects() -> None:
    with collecting() as outer:
        changed("first", 1, 2)
        with collecting() as inner:
            changed("second", 1, 2)
        changed("third", 1, 2)
    assert [one.rule for one in outer] == ["first", "third"]
    assert inner == [Record("second", 1, 2)] and sink() is None


def test_what_is_the_same_object_has_not_changed() -> None:
    with collecting() as records:
        assert changed("rule", records, records) is records
    assert records == []


def test_other_threads_collect_nothing() -> None:
    with collecting() as records:
        thread = threading.Thread(target=changed, args=("rule", 1, 2))
        thread.start()
        thread.join()
    assert records == []


def test_caches_are_passed_by_while_records_are_collected() -> None:
    runs = []

    @cached(maxsize=4)
    def double(x: int) -> int:
        """Twice x."""
        runs.append(x)
        return 2 * x

    assert double(3) == double(3) == 6 and runs == [3]
    with collecting():
        assert double(3) == double(3) == 6 and runs == [3, 3, 3]
    assert double(3) == 6 and runs == [3, 3, 3]
    double.cache_clear()
    assert double(3) == 6 and len(runs) == 4 and double.__doc__ == "Twice x."


def test_records_print_their_costs() -> None:
    record = Record("tile", reason="why", costs=(Cost("6 x 4", 2.0),))
    assert record.costs[0] == ("6 x 4", 2.0) and "why" in repr(record)
