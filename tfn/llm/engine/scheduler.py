"""The scheduler: whose tokens are computed next, in which blocks, and what becomes of them.

In each turn it lets requests in, reads parts of prompts, and computes one step for all answers::

    turn 1   prompt A [0:64]                        A waits for the rest
    turn 2   prompt A [64:90], a first token        step: A
    turn 3   prompt B [0:16], a first token         step: A B

so that a long prompt delays the answers of others by a part, and a new one waits for one turn.
Prompts are read in parts of `PARTS` tokens, steps have a power of two of rows, so there are few
programs.  Rows that no answer needs are given to drafts, whose tokens are rows of the same text.

A request for which there are no blocks takes those of the youngest one, which begins again later
with the tokens that it has.

Source: Yu et al. 2022, Orca (batches that change with each step); Agrawal et al. 2023,
arXiv:2308.16369 (prompts in parts); Kwon et al. 2023, arXiv:2309.06180 (preemption).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from tfn import numpy as jnp
from tfn.extend import Jitted
from tfn.llm.engine.block_pool import BlockPool, chained
from tfn.llm.engine.pages import BLOCK, Pages, step, table_width
from tfn.llm.engine.request import Failed, Progress, Request, Stats
from tfn.llm.generation import power_of_two
from tfn.llm.sampling import Data

PARTS = (16, 64, 256)
"""Tokens of a prompt that are computed together; the largest only while no answer waits for it."""

TURN_TOKENS = PARTS[1]
"""Tokens of prompts after which answers have their turn."""

LEAST_ROWS = 8
"""Rows of the largest step at least: with fewer slots, for drafts."""


def _stepped(model: Any, inputs: Sequence[Any], pages: Any) -> tuple[Any, Any, Any]:
    tokens, positions, tables, last = inputs
    return step(model, tokens, positions, tables, last, pages)


_step = Jitted(_stepped, donate_argnames="pages")


class Scheduler:
    """Requests that wait and run; all but `waiting` belongs to one thread.

    Args:
        model: weights and network, without a tokenizer.
        slots: requests that run together.
        blocks: of the pages.
    """

    def __init__(self, model: Any, slots: int, blocks: int) -> None:
        self.model, self.slots = model, slots
        self.context: int = min(model.config.context, blocks * BLOCK)
        self.width = table_width(self.context)
        most_rows = max(power_of_two(slots), LEAST_ROWS)
        self.rows = [1 << n for n in range(most_rows.bit_length())]
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.counts: dict[str, Any] = dict.fromkeys(Stats.__dataclass_fields__, 0)
        self.number = 0
        self.reset(blocks)

    def reset(self, blocks: int) -> None:
        """New pages, with nothing in them."""
        self.pool = BlockPool(blocks)
        self.pages = Pages.init(self.model.config, blocks + 1)

    @property
    def has_work(self) -> bool:
        """Whether a request waits or runs."""
        return bool(self.waiting or self.running)

    def stats(self) -> Stats:
        """Counts so far."""
        now = {"running": len(self.running), "waiting": len(self.waiting), "slots": self.slots}
        blocks = {"blocks_used": self.pool.used, "blocks": self.pool.size}
        return Stats(**self.counts | now | blocks)

    def turn(self) -> None:
        """Parts of prompts, and a step for all answers."""
        self.number += 1
        self._drop_cancelled()
        self._admit()
        answers = any(request.is_ready for request in self.running)
        prompts = [request for request in self.running if not request.is_ready]
        left = TURN_TOKENS
        for request in sorted(prompts, key=lambda request: request.turn):
            if left > 0 and request in self.running:
                left -= self._read_part(request, PARTS[:-1] if answers else PARTS)
        self._drop_cancelled()
        self._answer([request for request in self.running if request.is_ready])

    def fail(self, error: BaseException) -> None:
        """Ends all requests."""
        requests = [*self.running]
        while self.waiting:
            requests.append(self.waiting.popleft())
        for request in requests:
            self._fail(request, error)

    def _fail(self, request: Request, error: BaseException) -> None:
        self.counts["failed"] += 1
        request.tell(Failed(error))
        self._end(request)

    def _drop_cancelled(self) -> None:
        for request in [r for r in (*self.waiting, *self.running) if r.ticket.is_cancelled]:
            if request not in self.running:
                self.waiting.remove(request)
            self.counts["cancelled"] += 1
            self._end(request)

    def _admit(self) -> None:
        """Gives slots to those that wait, while there are blocks for the whole of their prompts."""
        while len(self.running) < self.slots and self.waiting:
            need = -(-(len(self.waiting[0].tokens) + 1) // BLOCK)
            if self.running and need > self.pool.available:
                return
            self.running.append(self.waiting.popleft())

    def _end(self, request: Request) -> None:
        """Takes the slot and the blocks of a request."""
        if request in self.running:
            self.running.remove(request)
        self.pool.give_back(request.blocks)
        request.blocks, request.names, request.length = [], [], 0

    @contextmanager
    def _guarded(self, request: Request) -> Iterator[None]:
        """Lets an error end one request only."""
        try:
            yield
        except Exception as error:
            self._fail(request, error)

    def _has_room(self, request: Request, length: int) -> bool:
        """Takes blocks for so many tokens, from the youngest requests if there are none."""
        while len(request.blocks) * BLOCK < length:
            block = self.pool.take()
            if block is not None:
                request.blocks.append(block)
                continue
            youngest = self.running[-1]
            self._end(youngest)
            self.waiting.appendleft(youngest)
            if youngest is request:
                return False
        return True

    def _find(self, request: Request) -> None:
        """Takes blocks of earlier texts that have the same tokens, up to the last token."""
        while request.length % BLOCK == 0 and request.length + BLOCK < len(request.tokens):
            name = chained(*_unnamed(request))
            block = self.pool.find(name)
            if block is None:
                return
            self.pool.give_back(request.blocks[len(request.names) :])
            request.blocks = [*request.blocks[: len(request.names)], block]
            request.names.append(name)
            request.length += BLOCK
            self.counts["cached_tokens"] += BLOCK
            request.ticket.cached = min(request.ticket.cached + BLOCK, request.prompt)

    def _advance(self, request: Request, length: int) -> None:
        """Notes that keys and values are there up to a length, and names full blocks."""
        request.length = length
        while (len(request.names) + 1) * BLOCK <= length:
            name = chained(*_unnamed(request))
            self.pool.name(request.blocks[len(request.names)], name)
            request.names.append(name)

    def _read_part(self, request: Request, sizes: Sequence[int]) -> int:
        """Reads a part of a prompt, and at its end begins the answer; the tokens of the part."""
        if request.turn < 0:
            self.counts["prompt_tokens"] += request.prompt
        request.turn = self.number
        if request.read is None:
            self._find(request)
        size = max([s for s in sizes if s <= request.rest], default=sizes[0])
        count, first = min(size, request.rest), request.length
        if not self._has_room(request, first + count):
            return 0
        tokens = np.zeros((1, size), np.int32)
        tokens[0, :count] = request.tokens[first : first + count]
        positions = first + np.arange(size, dtype=np.int32)[None]
        logits, x = self.call(tokens, positions, self._table(request)[None], [count - 1])
        self._advance(request, first + count)
        done = min(request.length, request.prompt)
        request.tell(Progress(done, request.prompt, request.ticket.cached))
        if request.read is not None:
            with self._guarded(request):
                request.read(first, np.asarray(x)[0, :count])
                if not request.rest:
                    self._end(request)
        elif not request.rest:
            self._take(request, np.asarray(logits)[0])
        return size

    def _answer(self, requests: Sequence[Request]) -> None:
        """One step for answers, with drafts in the rows that are left."""
        rows: list[tuple[Request, list[int]]] = []
        spare = self.rows[-1] - len(requests)
        for request in requests:
            if request not in self.running:  # its blocks were needed
                continue
            assert request.answer is not None
            room = min(spare, self.context - len(request.tokens), request.answer.left - 1)
            drafted = request.drafts.draft(room) if request.drafts is not None else []
            if self._has_room(request, len(request.tokens) + len(drafted)):
                rows.append((request, [request.tokens[-1], *drafted]))
                spare -= len(drafted)
        rows = [row for row in rows if row[0] in self.running]
        count = sum(len(own) for _, own in rows)
        if not count:
            return
        size = min(n for n in self.rows if n >= count)
        tokens, positions = np.zeros((2, size, 1), np.int32)
        tables, at = np.zeros((size, self.width), np.int32), 0
        for request, own in rows:
            part = slice(at, at + len(own))
            tokens[part, 0], positions[part, 0] = own, request.length + np.arange(len(own))
            tables[part] = self._table(request)
            at += len(own)
        positions[at:] = positions[0]
        given = np.asarray(self.call(tokens, positions, tables, [0] * size)[0])
        at = 0
        for request, own in rows:
            self._verify(request, own[1:], given[at : at + len(own)])
            at += len(own)

    def _verify(self, request: Request, drafted: Sequence[int], logits: Data) -> None:
        """Takes tokens as long as they are those that were drafted, and one more."""
        first, taken, token = request.length, 0, None
        while taken <= len(drafted) and (not taken or token == drafted[taken - 1]):
            token = self._take(request, logits[taken])
            taken += 1
        self.counts["drafted"] += len(drafted)
        self.counts["accepted"] += taken - 1
        if request.drafts is not None:
            request.drafts.judge(len(drafted), taken - 1)
        if request in self.running:
            self._advance(request, first + taken)

    def _take(self, request: Request, logits: Data) -> int | None:
        """Adds the next token to an answer; None if it was the last."""
        assert request.answer is not None
        with self._guarded(request):
            piece = request.answer.take(logits)
            self.counts["answer_tokens"] += 1
            request.tokens.append(piece.choice.token)
            request.tell(piece)
            if piece.finish is None:
                return piece.choice.token
            self._end(request)
        return None

    def _table(self, request: Request) -> Data:
        table = np.zeros(self.width, np.int32)
        table[: len(request.blocks)] = request.blocks
        return table

    def call(
        self, tokens: Data, positions: Data, tables: Data, last: Sequence[int]
    ) -> tuple[Any, Any]:
        """A step of the network: see `pages.step`."""
        self.counts["steps"] += 1
        given = [jnp.asarray(np.asarray(x, np.int32)) for x in (tokens, positions, tables, last)]
        logits, x, self.pages = _step(self.model, given, self.pages)
        return logits, x

    def programs(self) -> Iterator[tuple[Data, Data, Data, list[int]]]:
        """Arguments of `call` for each program, which write to no text's blocks."""
        for shape in [(rows, 1) for rows in self.rows] + [(1, part) for part in PARTS]:
            zeros, tables = np.zeros(shape, np.int32), np.zeros((shape[0], self.width), np.int32)
            yield zeros, zeros, tables, [0] * shape[0]


def _unnamed(request: Request) -> tuple[bytes, list[int]]:
    """The last name of a text, and the tokens of the block after it."""
    begin = len(request.names) * BLOCK
    return request.names[-1] if request.names else b"", request.tokens[begin : begin + BLOCK]
