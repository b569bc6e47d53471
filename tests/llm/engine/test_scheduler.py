"""The scheduler, with a network whose answers tell which tokens it was shown."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.llm import building
from tfn import llm
from tfn.llm import tokenizer
from tfn.llm.answer import Answer, Piece
from tfn.llm.engine.drafts import Drafts
from tfn.llm.engine.pages import BLOCK
from tfn.llm.engine.request import Failed, Progress, Request, Ticket
from tfn.llm.engine.scheduler import PARTS, Scheduler
from tfn.llm.sampling import Sampling

pytest.importorskip("tokenizers", reason="pip install 'tfn[llm]' to test tokenizers")

WORDS = tokenizer.from_values(building.byte_pairs(), building.VOCABULARY)
MODEL = llm.load(building.tiny(**{"llama.context_length": 384}))


def follows(tokens: Sequence[int]) -> int:
    """The token after some: it depends on all of them, and repeats itself often."""
    whole = hash(tuple(tokens))
    return (tokens[-1] * 3 + 1) % 7 if whole % 5 else whole % 11


class Paged:
    """In the place of the network: remembers the token of each row of the pages."""

    def __init__(self) -> None:
        self.rows: dict[int, int] = {}
        self.sizes: list[tuple[int, ...]] = []

    def __call__(self, tokens: Any, positions: Any, tables: Any, last: Any) -> Any:
        self.sizes.append(tokens.shape)
        rows = np.take_along_axis(tables, positions // BLOCK, -1) * BLOCK + positions % BLOCK
        self.rows.update(zip(rows.ravel().tolist(), tokens.ravel().tolist()))
        logits = np.zeros((len(tokens), building.VOCABULARY), np.float32)
        for text, table in enumerate(tables.tolist()):
            if table[0]:
                end = positions[text, last[text]] + 1
                own = [self.rows[table[p // BLOCK] * BLOCK + p % BLOCK] for p in range(end)]
                logits[text, follows(own)] = 1
        return logits, None


class Client:
    """A request, and the events that it got."""

    def __init__(self, prompt: Sequence[int], count: int, speculate: bool = True) -> None:
        answer = Answer(WORDS, Sampling(max_tokens=count), prompt, 384 - len(prompt))
        self.events: list[Any] = []
        self.prompt, self.count = [*prompt], count
        self.ticket = Ticket(lambda: None)
        self.request = Request(
            [*prompt], len(prompt), self.events.append, self.ticket, answer=answer
        )
        self.request.drafts = Drafts(self.request.tokens) if speculate else None

    @property
    def tokens(self) -> list[int]:
        return [event.choice.token for event in self.events if isinstance(event, Piece)]

    @property
    def is_done(self) -> bool:
        return isinstance(self.events[-1], Piece) and self.events[-1].finish == "length"

    def expected(self) -> list[int]:
        text = [*self.prompt]
        while len(text) < len(self.prompt) + self.count:
            text.append(follows(text))
        return text[len(self.prompt) :]


def scheduler(slots: int, blocks: int) -> tuple[Scheduler, Paged]:
    made, network = Scheduler(MODEL, slots, blocks), Paged()
    made.call = network  # type: ignore[method-assign]
    return made, network


def run(made: Scheduler, clients: Sequence[Client]) -> None:
    made.waiting.extend(client.request for client in clients)
    while made.has_work:
        made.turn()


BEGINNINGS = [random.Random(n).choices(range(250), k=160) for n in range(4)]


def drawn(draw: random.Random) -> Client:
    """A request that may begin like others."""
    begin = draw.choice(BEGINNINGS)[: draw.choice([0, 32, 64, 100, 160])]
    prompt = begin + draw.choices(range(250), k=draw.randint(1, 60))
    return Client(prompt, draw.randint(1, 30), draw.random() < 0.7)


def test_answers_are_right_whoever_leaves_and_however_few_blocks_there_are(
    requests: int = 200,
) -> None:
    draw = random.Random(0)
    made, _ = scheduler(slots=4, blocks=12)
    clients: list[Client] = []
    while len(clients) < requests or made.has_work:
        if len(clients) < requests and len(made.waiting) < 6 and draw.random() < 0.5:
            clients.append(drawn(draw))
            made.waiting.append(clients[-1].request)
        if clients and draw.random() < 0.1:
            draw.choice(clients[-8:]).ticket.cancel()
        made.turn()
        assert made.pool.used + made.pool.available == 12 and len(made.running) <= 4
    for client in clients:
        expected = client.expected()
        if client.ticket.is_cancelled:
            assert client.tokens == expected[: len(client.tokens)]
        else:
            assert client.tokens == expected and client.is_done
            told = [event for event in client.events if isinstance(event, Progress)]
            assert told[-1].done == told[-1].total == len(client.prompt)
    stats = made.stats()
    assert stats.blocks_used == stats.running == stats.waiting == stats.failed == 0
    assert stats.cached_tokens > 1000 and 0 < stats.accepted < stats.drafted


def test_a_beginning_is_read_once() -> None:
    made, network = scheduler(4, 40)
    prompt = BEGINNINGS[0]
    run(made, [Client([*prompt, 5], 4)])
    network.sizes.clear()
    again = [Client([*prompt, n], 4, False) for n in range(3)]
    run(made, again)
    assert [client.ticket.cached for client in again] == [160] * 3
    assert all(client.tokens == client.expected() for client in again)
    assert {time for _, time in network.sizes} == {1, PARTS[0]}
    together = [Client([*BEGINNINGS[1], n], 2) for n in range(4)]
    run(made, together)
    assert min(client.ticket.cached for client in together[1:]) >= PARTS[1]  # read in turns


def test_a_whole_prompt_that_is_known_still_has_a_token_to_compute() -> None:
    made, _ = scheduler(1, 40)
    for _ in range(2):
        client = Client(BEGINNINGS[0][:64], 3)
        run(made, [client])
        assert client.tokens == client.expected()
    assert client.ticket.cached == 32


def test_a_text_that_begins_beside_seven_waits_for_one_turn() -> None:
    made, network = scheduler(8, 200)
    made.waiting.extend(Client([n], 200, False).request for n in range(6))
    made.waiting.append(Client(BEGINNINGS[0] + BEGINNINGS[1], 5).request)
    for _ in range(8):
        made.turn()
    late = Client([9, 8, 7], 5)
    made.waiting.append(late.request)
    network.sizes.clear()
    made.turn()
    assert late.tokens == late.expected()[: len(late.tokens)] != []
    assert sum(texts * time for texts, time in network.sizes if time > 1) <= PARTS[1]


def test_drafts_save_steps() -> None:
    plain, _ = scheduler(1, 40)
    prompt = [1, 4, 6, 5, 2, 0] * 8
    run(plain, [Client(prompt, 60, False)])
    fast, network = scheduler(1, 40)
    client = Client(prompt, 60)
    run(fast, [client])
    assert client.tokens == client.expected() and max(network.sizes[1:])[0] == 8
    assert len(network.sizes) < 0.8 * 60 and fast.stats().accepted > 20


def test_steps_have_few_shapes() -> None:
    made, network = scheduler(8, 200)
    run(made, [drawn(random.Random(n)) for n in range(40)])
    assert set(network.sizes) <= {given[0].shape for given in made.programs()}
    assert len([*made.programs()]) == 7


def test_an_error_of_one_text_ends_that_text_alone() -> None:
    made, _ = scheduler(2, 40)
    clients = [Client([1], 5), Client([2], 5), Client([3], 5)]
    clients[0].request.answer.sampler = None  # type: ignore[union-attr,assignment]
    run(made, clients)
    assert isinstance(clients[0].events[-1], Failed) and made.stats().failed == 1
    assert all(client.tokens == client.expected() for client in clients[1:])


def test_who_does_not_take_events_is_not_served_further() -> None:
    made, _ = scheduler(2, 40)
    deaf, other = Client([1], 50), Client([2], 5)
    deaf.request.deliver = lambda event: 1 / 0  # type: ignore[assignment,return-value]
    run(made, [deaf, other])
    assert other.is_done and made.stats().cancelled == 1 and not made.stats().blocks_used
