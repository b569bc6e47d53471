"""The example that writes down what is said: pictures of sound, rules for times, the loop."""

from __future__ import annotations

import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import whisper
from numpy.lib.stride_tricks import sliding_window_view

import tfn
from tfn import numpy as jnp
from tfn.config import config
from tfn.errors import ArgumentError, StateError

WORDS, FEATURES = 60, 12
TOKENS = whisper.Tokens(40, 39, 41, 50, (3, 40, 41), (("en", 42), ("de", 43)))


def decoder() -> whisper.Decoder:
    """A decoder with drawn weights: tokens 0 to 38 are words, 50 to 59 times."""
    return whisper.drawn(WORDS, FEATURES)


def test_a_picture_is_the_logarithm_of_power_by_pitch() -> None:
    samples = np.sin(np.arange(4800) * 0.3, dtype=np.float32)
    weights = whisper.pitches()
    assert weights.shape == (80, 201) and weights.min() == 0 and (weights.sum(1) > 0).all()
    frames = sliding_window_view(np.pad(samples, 200, "reflect"), 400)[::160]
    power = abs(np.fft.rfft(frames * np.hanning(401)[:-1])[:-1]) ** 2
    loud = np.log10(np.maximum(weights @ power.T, 1e-10))
    want = (np.maximum(loud, loud.max() - 8) + 4) / 4
    np.testing.assert_allclose(whisper.picture(samples, weights), want, atol=1e-3)


def test_the_loop_writes_the_likeliest_tokens_that_the_rules_allow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model, sound = decoder(), jnp.asarray(np.random.default_rng(1).standard_normal((9, 12), "f"))
    found, count = whisper.write(model, sound, jnp.array(42), TOKENS)
    written = np.asarray(found)[: int(count)].tolist()
    monkeypatch.setattr(config, "device", "python")
    model, sound = decoder(), jnp.asarray(np.asarray(sound))
    so_far, last, before, latest = [40, 42, 41], -1, -1, -1
    for token in written[:10]:
        logits, _ = model.step(jnp.array(so_far), model.caches(64), model.heard(sound))
        want = int(
            whisper.allowed(logits, TOKENS, *map(jnp.array, (last, before, latest))).argmax()
        )
        assert token == want, so_far
        latest = token if token >= TOKENS.times else latest
        so_far, last, before = [*so_far, token], token, last
    assert written[0] >= TOKENS.times and not {*TOKENS.silent} & {*written[:10]}
    times = [token for token in written[:10] if token >= TOKENS.times]
    assert times == sorted(times)


@pytest.mark.parametrize(
    ("before", "last", "latest", "may"),
    (
        (-1, -1, -1, "only times"),
        (-1, 50, 50, "only words"),
        (50, 5, 50, "later times and words"),
        (5, 53, 53, "times and the end"),
        (53, 53, 53, "only words"),
    ),
)
def test_rules_for_times(before: int, last: int, latest: int, may: str) -> None:
    logits = jnp.where(jnp.arange(WORDS) < TOKENS.times, 9.0, 0.0)
    args = tuple(map(jnp.array, (last, before, latest)))
    open_ = set(np.flatnonzero(np.isfinite(whisper.allowed(logits, TOKENS, *args))).tolist())
    words, times = set(range(50)) - {*TOKENS.silent}, set(range(50, 60))
    want = {
        "only times": times,
        "only words": words,
        "later times and words": words | (times - {50}),
        "times and the end": {*range(53, 60), *range(39, 50)} - {*TOKENS.silent},
    }
    assert open_ == want[may]
    likely = whisper.allowed(logits.at[50:].set(8.9), TOKENS, *args)
    assert may != "later times and words" or not np.isfinite(likely[:50]).any()


def test_parts_lie_between_times() -> None:
    written = [50, 7, 8, 55, 55, 9, 58, 39]
    assert [*whisper.parts(written, TOKENS)] == [(0.0, 0.1, [7, 8]), (0.1, 0.16, [9])]
    assert [*whisper.parts([7], TOKENS)] == [(0.0, 30.0, [7])]


def test_windows_begin_where_the_last_pair_of_times_is(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[float] = []

    def write(model: Any, sound: Any, language: Any, tokens: Any) -> tuple[Any, int]:
        assert int(language) == 42
        written = [[50, 7, 550, 550, 39], [50, 8, 560, 39]][len(begun) - 1]
        return np.array(written), len(written)

    def encode(image: tfn.Array) -> tfn.Array:
        assert image.shape == (80, 3000)
        begun.append(float(image.max()))
        return image

    monkeypatch.setattr(whisper, "write", write)
    samples = np.random.default_rng(0).standard_normal(whisper.RATE * 35, np.float32)
    found = [*whisper.transcribed(samples, encode, decoder(), TOKENS, "en")]
    assert found == [(0.0, 10.0, [7]), (10.0, 20.2, [8])] and len(begun) == 2


def test_the_language_is_the_likeliest_one() -> None:
    model, sound = decoder(), jnp.asarray(np.random.default_rng(1).standard_normal((9, 12), "f"))
    logits, _ = model.step(jnp.array([40]), model.caches(1), model.heard(sound))
    want = 42 if logits[42] > logits[43] else 43
    assert int(whisper.spoken(model, sound, TOKENS)) == want


def test_recordings_that_cannot_be_heard(tmp_path: Path) -> None:
    path = tmp_path / "speech.wav"

    def write(rate: int, channels: int) -> None:
        with wave.open(str(path), "wb") as file:
            file.setparams((channels, 2, rate, 0, "NONE", ""))
            file.writeframes(np.array([0, 100, -(2**15), 300], "<i2").tobytes())

    write(whisper.RATE, 2)
    np.testing.assert_allclose(whisper.read(path), [50 / 2**15, -0.5 + 150 / 2**15])
    write(8000, 1)
    with pytest.raises(ArgumentError, match=r"8000 samples a second(?s:.*)ffmpeg"):
        whisper.read(path)


def test_tokens_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "generation_config.json"
    known: dict[str, Any] = {
        "decoder_start_token_id": 40,
        "eos_token_id": 39,
        "no_timestamps_token_id": 49,
    }
    known |= {"task_to_id": {"transcribe": 41}, "suppress_tokens": [3, 40, 41]}
    path.write_text(json.dumps({**known, "lang_to_id": {"<|en|>": 42, "<|de|>": 43}}))
    assert whisper.Tokens.read(path) == TOKENS
    path.write_text("{}")
    with pytest.raises(StateError):
        whisper.Tokens.read(path)
