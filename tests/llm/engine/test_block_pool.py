"""Blocks: taken, shared by name, kept, and taken again."""

from __future__ import annotations

import random

from tfn.llm.engine.block_pool import BlockPool, chained


def test_a_name_stands_for_all_tokens_up_to_it() -> None:
    first, other = chained(b"", [1, 2]), chained(b"", [1, 3])
    assert first == chained(b"", [1, 2]) and first != other
    assert chained(first, [5, 6]) != chained(other, [5, 6])


def test_blocks_with_a_name_are_found_until_memory_is_needed() -> None:
    pool = BlockPool(3)
    blocks = [pool.take() for _ in range(3)]
    assert sorted(blocks) == [1, 2, 3] and pool.take() is None
    pool.name(blocks[0], b"a")
    pool.name(blocks[1], b"b")
    pool.give_back(blocks)
    assert pool.used == 0 and pool.available == 3
    assert pool.find(b"a") == blocks[0] == pool.find(b"a") and pool.find(b"c") is None
    assert pool.take() == blocks[2]  # a free one first
    assert pool.take() == blocks[1] and pool.find(b"b") is None
    pool.give_back([blocks[0]])
    assert pool.used == 3 and pool.available == 0  # the other user has it still


def test_the_block_that_was_longest_unused_is_taken_and_ends_before_beginnings() -> None:
    pool = BlockPool(4)
    texts = [[pool.take(), pool.take()] for _ in range(2)]
    for number, text in enumerate(texts):
        for part, block in enumerate(text):
            pool.name(block, b"%d%d" % (number, part))
    for text in texts:
        pool.give_back(text)
    assert [pool.take() for _ in range(4)] == [*texts[0][::-1], *texts[1][::-1]]


def test_no_block_is_lost_or_given_twice() -> None:
    draw, pool, texts = random.Random(0), BlockPool(12), []
    for _ in range(3000):
        if texts and draw.random() < 0.45:
            pool.give_back(texts.pop(draw.randrange(len(texts))))
        else:
            name = b"%d" % draw.randrange(20)
            block = pool.find(name) or pool.take()
            if block is not None:
                pool.name(block, name)
                texts.append([block])
        own = {block for text in texts for block in text}
        assert pool.used == len(own) and pool.used + pool.available == 12
        assert own.isdisjoint([*pool.free, *pool.idle])
