"""State that the caller keeps: steps in C and on boards give what a loop of calls gives."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as jnp
from tests.exporting.boards import needs_boards, on_board
from tests.exporting.building import COMPILERS, WARNINGS, in_steps, needs_cc, same_bits
from tfn import lax, nn, random
from tfn.errors import ArgumentError, ExportError
from tfn.nn import quantize

rng = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return rng.standard_normal(shape).astype("float32")


UNIT = quantize.Quantization(jnp.float32(1 / 40), jnp.int32(-128))
CONV = quantize.Conv.of(
    nn.Conv1d.init(random.key(0), 10, 8, 3, strides=2, padding="SAME"), UNIT, UNIT, relu=True
)
OUT = quantize.Linear.of(nn.Linear.init(random.key(1), 64, 4), UNIT, None)


def keywords(state: Any, frame: Any) -> Any:
    """A ring of 16 frames of 10 coefficients, of which the oldest is replaced."""
    ring = lax.dynamic_update_index_in_dim(state["ring"], frame, state["at"], 0)
    at = (state["at"] + 1) % 16
    frames = jnp.roll(ring, -at, 0)
    return {"ring": ring, "at": at}, OUT(CONV(frames[None]).reshape(1, -1))[0]


W, U, B = normal(3, 16), normal(4, 16), normal(16)


def lstm(state: Any, x: Any) -> Any:
    h, c = state
    i, f, g, o = jnp.split(x @ W + h @ U + B, 4)
    c = nn.sigmoid(f) * c + nn.sigmoid(i) * jnp.tanh(g)
    h = nn.sigmoid(o) * jnp.tanh(c)
    return (h, c), h.sum()


A, H, Q = np.array([[1, 0.1], [0, 1]], "float32"), np.array([[1, 0]], "float32"), np.eye(2) * 0.01


def kalman(state: Any, z: Any) -> Any:
    """Place and speed from a measured place; its result is the state alone."""
    x, p = A @ state["x"], A @ state["p"] @ A.T + Q.astype("float32")
    gain = p @ H.T / (H @ p @ H.T + 0.5)
    return {"x": x + gain @ (z - H @ x), "p": (jnp.eye(2, dtype="float32") - gain @ H) @ p}


def controller(state: Any, error: Any) -> Any:
    """Proportional and integral, with a bound, and counted steps."""
    total, count = state
    total = jnp.clip(total + error, -10, 10)
    return (total, count + 1), 2 * error + 0.1 * total


def delays(state: Any, x: Any) -> Any:
    """States that are inputs, each other, themselves, without a reader, and moved in themselves."""
    now, a, b, fixed, _, line, empty = state
    line = jnp.concatenate([line[1:], x[None]])
    return (x, b, a, fixed, x * 2 + fixed, line, empty), (now, line.sum(0), a)


def line(state: Any, frame: Any) -> Any:
    """A ring of 16,000 bytes, of which a frame is replaced."""
    ring = lax.dynamic_update_slice(state["ring"], frame, (state["at"],))
    return {"ring": ring, "at": (state["at"] + 160) % 16000}, frame.astype("int32").sum()


def ints(*shape: int) -> Any:
    return rng.integers(-99, 99, shape).astype("int8")


TRIPLE = ints(3)
CASES: dict[str, tuple[Callable[..., Any], Any, Callable[[], Any]]] = {
    "keywords": (
        keywords,
        {"ring": np.full((16, 10), -128, "int8"), "at": np.int32(0)},
        lambda: ints(10),
    ),
    "lstm": (lstm, (np.zeros(4, "float32"), normal(4)), lambda: normal(3)),
    "kalman": (
        kalman,
        {"x": np.zeros((2, 1), "float32"), "p": np.eye(2, dtype="float32")},
        lambda: normal(1, 1),
    ),
    "controller": (controller, (np.float32(0), np.int32(7)), lambda: normal(1)[0]),
    "delays": (
        delays,
        (TRIPLE, ints(3), ints(3), ints(3), TRIPLE, ints(4, 3), ints(0)),
        lambda: ints(3),
    ),
}


def looped(case: str, inputs: list[Any]) -> tuple[list[list[Any]], list[Any]]:
    """The outputs of steps and the last state, by calls from Python."""
    function, state, _ = CASES[case]
    steps = []
    for x in inputs:
        result = tfn.jit(function)(state, x)
        state, out = (result, ()) if case == "kalman" else result
        steps.append(tfn.tree.leaves(out))
    return steps, tfn.tree.leaves(state)


@needs_cc
@pytest.mark.parametrize("options", [{}, {"optimize": "size"}], ids=str)
@pytest.mark.parametrize("case", CASES)
def test_steps_in_c_are_a_loop_of_calls(case: str, options: Any, tmp_path: Path) -> None:
    function, state, draw = CASES[case]
    inputs = [draw() for _ in range(20)]
    sanitized = ("-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    steps, last = in_steps(function, state, inputs, tmp_path, sanitized, **options)
    wanted, final = looped(case, inputs)
    exact = not options or case not in ("lstm", "kalman")  # of sums the order may be another
    for got, want in zip(chain(*steps, last), chain(*wanted, final), strict=True):
        if exact:
            same_bits(got, want)
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


@needs_boards
@pytest.mark.parametrize(
    "case, target",
    [
        ("keywords", "cortex-m4"),
        ("delays", "cortex-m0+"),
        ("controller", "cortex-m4"),
        ("lstm", "cortex-m4"),
        ("kalman", "cortex-m4"),
    ],
)
def test_steps_run_on_boards(case: str, target: str, tmp_path: Path) -> None:
    function, state, draw = CASES[case]
    x = draw()
    made = on_board(function, state, x, folder=tmp_path, target=target, carry=0)
    (_, outputs), final = looped(case, [x, x])
    for got, want in zip(made.outputs, [*outputs, *final], strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)
    assert 0 < made.stack_bytes <= made.exported.figures.stack_bytes


def test_what_can_be_made_in_place_needs_no_arena(tmp_path: Path) -> None:
    """A ring of frames is written where the oldest lies."""
    ring = np.zeros((1000, 16), "int8"), np.int32(0)

    def push(state: Any, frame: Any) -> Any:
        ring, at = state
        return (lax.dynamic_update_index_in_dim(ring, frame, at, 0), (at + 1) % 1000), frame[0]

    made = tfn.export(push, ring, ints(16), path=tmp_path / "f.c", carry=0, target="cortex-m4")
    assert made.signature.arena_bytes < 256
    assert [x.field.size_bytes for x in made.signature.state] == [16_000, 4]


@needs_boards
def test_what_is_in_place_is_not_copied(tmp_path: Path) -> None:
    state, frame = {"ring": ints(16_000), "at": np.int32(320)}, ints(160)
    made = on_board(line, state, frame, folder=tmp_path, target="cortex-m4", carry=0)
    after, total = tfn.jit(line)(tfn.jit(line)(state, frame)[0], frame)
    for got, want in zip(made.outputs, [total, after["at"], after["ring"]], strict=True):
        same_bits(got, want)
    assert made.instructions < 4_000
    (copy,) = [x for x in made.exported.figures.layers if x.operations == "copy"]
    assert (copy.runs, copy.cycles) == (0, 0)


@needs_cc
@pytest.mark.parametrize("language", ["c", "c++"])
def test_c_and_cpp_take_the_header(language: str, tmp_path: Path) -> None:
    function, state, draw = CASES["delays"]
    tfn.export(function, state, draw(), path=tmp_path / "f.c", carry="state")
    text = '#include "f.h"\nf_state state;\nint main(void) { f_init(&state); return F_OK; }\n'
    command = [COMPILERS[0], "-x", language, "-fsyntax-only", "-pedantic", *WARNINGS]
    done = subprocess.run(
        [*command, "-I", str(tmp_path), "-"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    if "cc1plus" in done.stderr:
        pytest.skip("there is no C++ compiler")
    assert not done.returncode, done.stderr


def test_what_cannot_be_carried_is_refused(tmp_path: Path) -> None:
    path, x = tmp_path / "f.c", np.float32(1)
    with pytest.raises(ExportError, match="does not return the next state first"):
        tfn.export(lambda s, x: x, (x, x), x, path=path, carry=0)
    with pytest.raises(ExportError, match=r"s\[0\] changes its shape or dtype"):
        tfn.export(lambda s, x: ((s[0].astype("int32"),), x), (x,), x, path=path, carry=0)
    with pytest.raises(ArgumentError, match="cannot be embedded"):
        tfn.export(lambda s, x: (s, x), x, x, path=path, carry="s", embed="s")
    with pytest.raises(ArgumentError, match="in C only"):
        tfn.export(lambda s, x: (s, x), x, x, path=tmp_path / "f.so", carry=0)
    with pytest.raises(ArgumentError, match="has no value"):
        tfn.export(lambda s: s, tfn.ShapeDtypeStruct((2,), "int8"), path=path, carry=0)
    assert not list(tmp_path.iterdir())
