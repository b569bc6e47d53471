"""Architectures as data: what the values of a file say, and what they cannot say."""

from __future__ import annotations

import numpy as np
import pytest

from tests.llm import building
from tfn.errors import NotAvailableError, StateError
from tfn.llm.config import ARCHITECTURES, Rope, from_values, supported


def test_values_of_a_file_become_a_network() -> None:
    c = from_values(building.sizes("llama"), 260)
    assert (c.layers, c.width, c.heads, c.kv_heads, c.size, c.context) == (2, 32, 4, 2, 8, 64)
    assert c.vocabulary == 260 and c.rope.base == 1000 and c.interleaved and not c.window
    assert c.query_scale == 8**-0.5 and c.position_bytes == 2 * 2 * 2 * 16


@pytest.mark.parametrize(("values", "message"), [
    ({"block_count": 0}, "block_count is missing"),
    ({"block_count": "two"}, "'two', not a number"),
    ({"attention.head_count_kv": 3}, "4 heads of queries, 3 of keys"),
    ({"rope.dimension_count": 10}, "10 numbers of 8"),
    ({"rope.freq_base": 0.5}, "base 0.5"),
    ({"rope.scaling.type": "magic"}, "magic"),
])  # fmt: skip
def test_values_that_are_no_network_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(StateError, match=message):
        from_values(building.sizes("llama", **values), 260)


def test_an_architecture_without_a_row_is_refused_by_name() -> None:
    with pytest.raises(NotAvailableError, match="no architecture 'mamba'"):
        from_values(building.sizes("mamba"), 260)
    assert all(supported(name) is row for name, row in ARCHITECTURES.items())


def test_numbers_of_each_layer_may_be_equal_and_no_others() -> None:
    equal = building.sizes("llama", **{"attention.head_count": np.full(2, 4, "<i4")})
    assert from_values(equal, 260).heads == 4
    with pytest.raises(StateError, match="head_count"):
        from_values(building.sizes("llama", **{"attention.head_count": np.array([4, 2])}), 260)


def test_layers_with_windows_and_without_rotation() -> None:
    gemma = from_values(building.sizes("gemma3", **{"attention.sliding_window": 4}), 260)
    assert [gemma.windowed(n) for n in range(6)] == [True] * 5 + [False]
    assert gemma.rope.window_base == 10000
    smollm = from_values(building.sizes("smollm3"), 260)
    assert [smollm.turned(n) for n in range(4)] == [True, True, True, False]
    phi = from_values(building.sizes("phi3", **{"attention.sliding_window": 4}), 260)
    assert not any(map(phi.windowed, range(4)))


def test_frequencies_are_stretched() -> None:
    plain = Rope(8, 10000.0).frequencies()
    assert np.allclose(plain, [1, 0.1, 0.01, 0.001])
    assert np.allclose(Rope(8, kind="linear", factor=4.0).frequencies(), plain / 4)
    yarn = Rope(128, kind="yarn", factor=4.0, original=4096)
    ratio = Rope(128).frequencies() / yarn.frequencies()
    assert (
        np.allclose(ratio[:20], 1) and np.allclose(ratio[50:], 4) and (np.diff(ratio) > -1e-5).all()
    )
    assert np.isclose(yarn.amplitude, 1 + 0.1 * np.log(4))
