"""The LSTM: strips of text, a state that goes on, what it writes, and a tiny training."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import lstm
import numpy as np
import pytest

from tfn import numpy as jnp
from tfn import random, tree


def network() -> lstm.Reader:
    return lstm.Reader.init(random.key(0), 6, 8, 2)


def test_strips_and_pieces() -> None:
    strips = lstm.strips_of(np.arange(23, dtype=np.uint8), 2)
    assert strips.T.tolist() == [[*range(11)], [*range(11, 22)]]
    pieces = [lstm.piece(strips, n, 3).T.tolist() for n in range(4)]
    assert pieces[0] == [[0, 1, 2, 3], [11, 12, 13, 14]]
    assert pieces[1] == [[3, 4, 5, 6], [14, 15, 16, 17]]
    assert pieces[2] == [[6, 7, 8, 9], [17, 18, 19, 20]]
    assert pieces[3] == pieces[0]


def test_reading_goes_on_where_it_ended() -> None:
    model, text = network(), jnp.asarray(np.random.default_rng(0).integers(0, 6, (9, 3)))
    whole, last = model(text, model.start(3))
    first, state = model(text[:4], model.start(3))
    second, state = model(text[4:], state)
    np.testing.assert_allclose(jnp.concatenate([first, second]), whole, atol=1e-6)
    for x, y in zip(tree.leaves(state), tree.leaves(last), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-6)


def test_writing_is_drawing_one_after_the_other() -> None:
    model, text = network(), [1, 2, 3]
    keys = random.split(random.key(3), 4)
    drawn = lstm.write(model, jnp.array(text), keys, 0.7)
    for key, character in zip(keys, drawn.tolist()):
        logits, _ = model(jnp.array(text)[:, None], model.start(1))
        assert int(random.categorical(key, logits[-1, 0] / 0.7)) == character
        text.append(character)


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def make(*options: str) -> list[str]:
        assert lstm.main(["--smoke", "--checkpoints", str(tmp_path), *options]) == 0
        return capsys.readouterr().out.splitlines()

    return make


def test_it_learns_writes_and_resumes(run: Any, tmp_path: Path) -> None:
    lines = run("--prompt", "[bold]JULIET")
    before, after = (float(line.split()[4]) for line in (lines[0], lines[2]))
    assert after < before < 6.2  # log2 of 80 is 6.3
    assert lines[3].startswith("[bold]JULIET")
    assert re.fullmatch(rf"lstm: {after:.3f} bits per character, 30 steps, loss .*", lines[-1])
    shutil.rmtree(tmp_path / "lstm-1x32-8x16x30-0" / "step-000000030")
    rest = run("--prompt", "[bold]JULIET", "--resume")
    assert rest[0] == lines[2]
    assert rest[1:-1] == lines[3:-1]
    assert len(run("--quiet")) == 1
