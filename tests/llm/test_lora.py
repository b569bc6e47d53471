"""Adapters beside quantized weights."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
from tests.llm import building
from tests.llm.test_network import TOKENS
from tfn import llm, random
from tfn.errors import ArgumentError
from tfn.llm.weights import Adapted


def test_adapters_change_nothing_before_training_and_have_slopes(uncompiled: None) -> None:
    model = llm.load(building.tiny("Q8_0"))
    ours = llm.adapters(model, random.key(0), 2)
    assert sorted(ours) == [f"blk.{n}.attn_{name}.weight" for n in range(2) for name in "qv"]
    adapted = llm.adapt(model, ours)
    assert isinstance(adapted.weights["blk.0.attn_q.weight"], Adapted)
    assert np.allclose(adapted(TOKENS), model(TOKENS), atol=1e-5)
    slopes = tfn.grad(lambda a: (llm.adapt(model, a)(TOKENS) ** 2).mean())(ours)
    assert all(np.abs(s.up).max() > 0 and not np.abs(s.down).max() for s in slopes.values())


def test_weights_that_are_none_are_refused() -> None:
    model = llm.load(building.network("mixtral"))
    with pytest.raises(ArgumentError, match="attn_z"):
        llm.adapters(model, random.key(0), names=("attn_q", "attn_z"))
    with pytest.raises(ArgumentError, match="matrix"):
        llm.adapters(model, random.key(0), names=("ffn_up_exps",))
