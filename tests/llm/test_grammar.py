"""The grammar of JSON, beside Python's reader of it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tfn.llm.grammar import DEPTH_LIMIT, SPACE_LIMIT, State, fed

GOOD = [
    "{}", ' { "a" : 1 } ', '{"a": [], "b": [1, -2.5e+3, 0.1, 0, 10E5], "c": {"d": null}}',
    '{"\\u00e4\\n\\"": "ä\\\\", "t": [true, false, null, "x"]}', '{"a": "", "b": {}}',
]  # fmt: skip
BAD = [
    "[1]", "1", '{"a"}', '{"a": 01}', '{"a": 1,}', "{,}", '{"a": [1,]}', '{"a": +1}', '{"a": .5}',
    '{"a": 1.}', '{"a": 1e}', '{"a": tru}', '{"a": "\n"}', '{"a": "\\x"}', '{"a": "\\u12g4"}',
    "{'a': 1}", '{"a": 1]', '{"a": [1}', '{"a": 1} {', '{"a" 1}', '{"a": nan}', "{1: 2}",
]  # fmt: skip


def is_whole(text: str) -> bool:
    state = fed(State(), text.encode())
    return state is not None and state.is_done


@pytest.mark.parametrize("text", GOOD)
def test_objects_are_accepted_from_every_beginning(text: str) -> None:
    assert isinstance(json.loads(text), dict) and is_whole(text)
    assert all(fed(State(), text.encode()[:at]) is not None for at in range(len(text.encode())))


@pytest.mark.parametrize("text", BAD)
def test_other_texts_are_not(text: str) -> None:
    assert not is_whole(text)


def test_random_texts_are_objects_exactly_if_python_reads_them() -> None:
    draw, signs = np.random.default_rng(0), [*'{}[]:,"\\ae01.-+ ', "true", "null", '"a":', '"b"']
    found = 0
    for _ in range(20_000):
        text = "{" + "".join(draw.choice(signs, draw.integers(1, 9)))
        try:
            json.loads(text)
        except ValueError:
            assert not is_whole(text), text
        else:
            found += 1
            assert is_whole(text), text
    assert found > 20


def test_white_space_and_depth_have_an_end() -> None:
    assert fed(State(), b"{" + b" " * SPACE_LIMIT) is not None
    assert fed(State(), b"{" + b" " * (SPACE_LIMIT + 1)) is None
    assert fed(State(), b'{"a":' + b"[" * (DEPTH_LIMIT - 1)) is not None
    assert fed(State(), b'{"a":' + b"[" * DEPTH_LIMIT) is None
