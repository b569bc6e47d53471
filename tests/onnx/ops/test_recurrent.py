"""Recurrent layers beside loops of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.onnx.ops.cases import F, outputs, ramp
from tfn.errors import NotAvailableError

T, N, D, H = 4, 2, 3, 5
X = ramp(T, N, D) / F(4)


def weights(gates: int, ways: int = 1) -> tuple[Any, Any, Any]:
    sizes = (ways, gates * H, D), (ways, gates * H, H), (ways, 2 * gates * H)
    return tuple(ramp(*s) / F(np.prod(s)) * F(4) for s in sizes)  # type: ignore[return-value]


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def lstm(x: Any, w: Any, r: Any, b: Any) -> Any:
    h = c = np.zeros((x.shape[1], H))
    rows = []
    for row in x:
        i, o, f, g = np.split(row @ w.T + h @ r.T + b[: 4 * H] + b[4 * H :], 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        rows.append(h)
    return np.stack(rows), h, c


def gru(x: Any, w: Any, r: Any, b: Any, before: bool) -> Any:
    h = np.zeros((x.shape[1], H))
    rows = []
    for row in x:
        z, s, n = np.split(row @ w.T + b[: 3 * H], 3, -1)
        rz, rs, rn = r[:H], r[H : 2 * H], r[2 * H :]
        bz, bs, bn = np.split(b[3 * H :], 3)
        z, s = sigmoid(z + h @ rz.T + bz), sigmoid(s + h @ rs.T + bs)
        n = np.tanh(n + (s * (h @ rn.T + bn) if before else (s * h) @ rn.T + bn))
        h = (1 - z) * n + z * h
        rows.append(h)
    return np.stack(rows), h


def close(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_lstm_of_both_directions() -> None:
    w, r, b = weights(4, 2)
    y, h, c = outputs("LSTM", X, w, r, b, count=3, hidden_size=H, direction="bidirectional")
    rows, last, cell = lstm(X, w[0], r[0], b[0])
    close(y[:, 0], rows)
    close(h[0], last)
    close(c[0], cell)
    back, end, _ = lstm(X[::-1], w[1], r[1], b[1])
    close(y[:, 1], back[::-1])
    close(h[1], end)


@pytest.mark.parametrize("before", [0, 1])
def test_gru_resets_before_or_after_the_product(before: int) -> None:
    w, r, b = weights(3)
    y, h = outputs("GRU", X, w, r, b, count=2, hidden_size=H, linear_before_reset=before)
    rows, last = gru(X, w[0], r[0], b[0], bool(before))
    close(y[:, 0], rows)
    close(h[0], last)


def test_rows_end_at_their_lengths() -> None:
    w, r, b = weights(1)
    lengths = np.array([4, 2], np.int32)
    for direction in ("forward", "reverse"):
        y, h = outputs("RNN", X, w, r, b, lengths, count=2, hidden_size=H, direction=direction)
        short, end = outputs("RNN", X[:2, 1:], w, r, b, count=2, hidden_size=H, direction=direction)
        close(y[:2, :, 1:], short)
        close(h[:, 1:], end)
        assert not np.asarray(y)[2:, :, 1].any()


def test_activations_have_numbers_of_their_own() -> None:
    w, r, b = weights(1)
    y = outputs(
        "RNN",
        X,
        w,
        r,
        b,
        hidden_size=H,
        activations=["Affine"],
        activation_alpha=[2.0],
        activation_beta=[0.5],
    )[0]
    close(y[0, 0], 2 * (X[0] @ w[0].T + b[0, :H] + b[0, H:]) + 0.5)
    with pytest.raises(NotAvailableError, match="Odd"):
        outputs("RNN", X, w, r, b, hidden_size=H, activations=["Odd"])
