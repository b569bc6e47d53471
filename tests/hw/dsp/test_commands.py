"""Commands as words: the ring never breaks a record, the layout is that of the driver."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfn.errors import DeviceError
from tfn.hw.dsp import commands
from tfn.hw.dsp.commands import RING_WORDS, Copy, Launch, Signal, Wait, records, words
from tfn.lower.codegen.render import driver

WORDS = st.integers(0, 2**32 - 1)
COMMANDS = st.one_of(
    st.builds(Launch, WORDS, WORDS, st.lists(WORDS, max_size=20).map(tuple)),
    st.builds(Copy, WORDS, WORDS, WORDS),
    st.builds(Signal, WORDS),
    st.builds(Wait, WORDS, WORDS),
)


def test_words() -> None:
    assert words(Launch(1, 2, (3, 4))) == [commands.LAUNCH, 6, 1, 2, 3, 4]
    assert words(Copy(1, 2, 3)) == [commands.COPY, 6, 1, 2, 3, 0]
    assert words(Wait(1, 2)) == [commands.WAIT, 4, 1, 2]


@given(st.lists(COMMANDS, min_size=1, max_size=9), st.integers(0, 2**31).map(lambda n: 2 * n))
def test_records_follow_each_other_around_the_ring(batch: list[object], head: int) -> None:
    at, seen = head % RING_WORDS, []
    for place, record in records(batch, head):  # type: ignore[arg-type]
        assert place == at
        assert place + len(record) <= RING_WORDS
        if record[0] != commands.SKIP:
            assert len(record) == record[1]
            seen.append(record)
        at = (at + record[1]) % RING_WORDS
    assert seen == [words(command) for command in batch]  # type: ignore[arg-type]


def test_a_batch_that_does_not_fit() -> None:
    with pytest.raises(DeviceError, match="more buffers"):
        records([Launch(0, 0, (0,) * RING_WORDS)], 0)


def test_sync_is_laid_out_as_drivers_expect() -> None:
    assert commands.HOST_ENTRY_AT - commands.SYNC_AT == driver.HOST_ENTRY_OFFSET
    assert commands.FAILURE_AT - commands.SYNC_AT == driver.FAILURE_OFFSET
    assert commands.PROGRESS_AT - commands.SYNC_AT == driver.PROGRESS_OFFSET
    assert commands.SYNC_AT % 8 == 0
    assert commands.RING_AT + 4 * RING_WORDS <= commands.CODE_AT <= commands.BUFFERS_AT
