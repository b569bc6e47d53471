"""The GPT: its text, a tiny training, what it writes, and runs that are killed."""

from __future__ import annotations

import math
import random as chances
import re
import runpy
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import char_gpt
import numpy as np
import pytest

import tfn
from tfn import numpy as jnp
from tfn import random
from tfn.nn.checkpoint import load

ROOT = Path(__file__).parents[2]


def network(key: int = 0) -> char_gpt.GPT:
    return char_gpt.GPT.init(random.key(key), 10, layers=2, width=16, heads=2)


def test_text_is_there() -> None:
    plays, tempest = char_gpt.load("plays"), char_gpt.load("tempest")
    assert (len(plays), len(tempest)) == (936_239, 97_460)
    assert plays.startswith("FIRST WITCH.\nWhen shall we three meet again?")
    assert "O brave new world" in tempest and "O brave new world" not in plays
    assert "public domain" in (char_gpt.DATA / "README.md").read_text()


def test_text_was_made_by_the_script() -> None:
    script = runpy.run_path(str(char_gpt.DATA / "make.py"))
    before, speech = (
        "THE DUKE.\n\nACT I.\n\nSCENE I. Here.\n\n",
        "IAGO.\nHi.  \n\n\n\n[Exit.]\n\nTHE END",
    )
    assert script["spoken"](before + speech) == "IAGO.\nHi.\n\n[Exit.]\n\n"
    assert len(script["PLAYS"]) == 8


def test_alphabet() -> None:
    alphabet = char_gpt.Alphabet("hello\n")
    assert alphabet.characters == ["\n", "e", "h", "l", "o"]
    assert alphabet.encode("hole!").tolist() == [2, 4, 3, 1, 0]
    assert alphabet.decode([2, 4, 3, 1]) == "hole"


def test_a_network_does_not_look_ahead() -> None:
    text = jnp.arange(8)
    logits, changed = network()(text), network()(text.at[5].set(0))
    np.testing.assert_array_equal(logits[:5], changed[:5])
    assert bool((logits[5:] != changed[5:]).any(-1).all())


def test_one_that_knows_nothing_needs_the_bits_of_the_alphabet() -> None:
    flat = tfn.tree.map(jnp.zeros_like, network())
    text = np.arange(200, dtype=np.uint8) % 10
    assert char_gpt.bits(flat, text, 8, 4) == pytest.approx(math.log2(10), abs=1e-5)


def test_writing_is_drawing_one_after_the_other() -> None:
    model, keys, window = network(), random.split(random.key(3), 5), [1, 2, 3, 4, 5, 6, 7, 8]
    drawn = char_gpt.write(model, jnp.array(window), keys, 0.7)
    for key, character in zip(keys, drawn.tolist()):
        logits = model(jnp.array(window))[-1]
        assert int(random.categorical(key, logits / 0.7)) == character
        window = [*window[1:], character]
    greedy = char_gpt.write(model, jnp.array(window), keys, 1e-6)
    assert int(greedy[0]) == int(model(jnp.array(window))[-1].argmax())


@pytest.fixture
def run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def make(*options: str) -> list[str]:
        assert char_gpt.main(["--smoke", "--checkpoints", str(tmp_path), *options]) == 0
        return capsys.readouterr().out.splitlines()

    return make


def test_it_learns_writes_and_reports(run: Any) -> None:
    lines = run("--steps", "60", "--save-every", "30", "--prompt", "[bold]JULIET")
    found = [
        re.fullmatch(r"step (\d+): loss [\d.]+, ([\d.]+) bits .* The Tempest", line)
        for line in lines[:2]
    ]
    (first, before), (last, after) = (f.groups() for f in found if f)
    assert (first, last) == ("30", "60")
    assert float(after) < float(before) < 6.1  # log2 of 80 is 6.3
    assert lines[2].startswith("[bold]JULIET")
    end = rf"char_gpt: {after} bits per character, 60 steps, loss [\d.]+, compiled in .*"
    assert re.fullmatch(end, lines[-1])


def test_quiet_prints_one_line_and_resuming_computes_nothing(run: Any) -> None:
    first = run("--quiet", "--steps", "3")
    again = run("--quiet", "--steps", "3", "--resume")
    assert len(first) == len(again) == 1
    assert again[0] == ", ".join(first[0].split(", ")[:1]) + ", 3 steps"


def begin(folder: Path) -> subprocess.Popen[str]:
    options = [
        "--smoke",
        "--steps",
        "24",
        "--save-every",
        "1",
        "--tested",
        "300",
        "--resume",
        "--characters",
        "1",
        "--checkpoints",
        str(folder),
    ]
    command = [sys.executable, "examples/char_gpt.py", *options]
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )


def test_a_killed_run_goes_on_to_the_same_end(tmp_path: Path) -> None:
    """Killed at random moments, it ends in the state of a run that nobody disturbed."""
    with begin(tmp_path / "calm") as calm:
        assert calm.stdout is not None and len(calm.stdout.readlines()) > 24
    chance, seen = chances.Random(0), []
    for _ in range(2):
        with begin(tmp_path / "killed") as run:
            assert run.stdout is not None
            for _ in range(chance.randrange(2, 10)):
                seen.append(run.stdout.readline())
            time.sleep(chance.uniform(0.0, 0.005))
            run.send_signal(signal.SIGKILL)
            assert run.wait(timeout=20) == -signal.SIGKILL
    with begin(tmp_path / "killed") as run:
        assert run.stdout is not None
        first = int(run.stdout.readline().split()[1].rstrip(":"))
        assert first > int(seen[-1].split()[1].rstrip(":"))
        assert run.stdout.read() and run.wait(timeout=60) == 0
    calm_end, killed_end = (
        load(next((tmp_path / name).rglob("step-000000024"))) for name in ("calm", "killed")
    )
    assert calm_end.keys() == killed_end.keys()
    for name, x in calm_end.items():
        assert np.asarray(x).tobytes() == np.asarray(killed_end[name]).tobytes(), name
