"""Whole programs proved: networks and their training; and what is wrong told from what is right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from examples import char_gpt, mnist, mnist_in_c
from tests.lower.test_accesses import changed
from tfn import nn, random
from tfn.errors import ArgumentError, ExportError
from tfn.exporting.verify import report, verify
from tfn.lower import pipeline
from tfn.nn import optim

X = np.ones((5, 9), np.float32)


@pytest.mark.parametrize("model", mnist.MODELS)
def test_networks_on_mnist(model: str) -> None:
    """Steps, tests, first values, and shuffles, of which only the sort is believed."""
    for name, (function, args) in mnist_in_c.functions(mnist.MODELS[model], 1).items():
        found = verify(function, *args)
        assert found.proved, str(found)
        assert bool(found.assumptions) == (name == "shuffle")


def test_a_step_of_a_gpt() -> None:
    network = tfn.eval_shape(
        lambda key: char_gpt.GPT.init(key, 65, 32, layers=2, width=32, heads=2), random.key(0)
    )
    optimizer = optim.adam(1e-3)
    state = tfn.eval_shape(optimizer.init, network)
    texts = tfn.ShapeDtypeStruct((4, 33), "uint8")
    found = verify(char_gpt.make_step(optimizer), network, state, texts)
    assert found.proved and not found.assumptions, str(found)


def test_a_scanned_lstm() -> None:
    network = nn.LSTM.init(random.key(0), 12, 20)

    def loss(network: nn.LSTM, xs: Any) -> Any:
        return (network(xs)[0] ** 2).mean()

    xs = tfn.ShapeDtypeStruct((30, 4, 12), "float32")
    found = verify(tfn.value_and_grad(loss), network, xs)
    assert found.proved and not found.assumptions, str(found)


def test_how_it_prints() -> None:
    text = str(verify(lambda x, i: tnp.sort(x[i].ravel()), X, np.arange(5)))
    head, *_, launches, assumed = text.splitlines()
    assert " ".join(head.split()) == "kernel accesses by intervals by z3 assumed unproved"
    assert launches.endswith("launches within inputs, outputs and arena")
    assert assumed.startswith("assumed: a sort's words")


def test_one_text_for_arrays_of_several_sizes() -> None:
    found = tfn.verify(lambda: (tnp.zeros(5120), tnp.zeros(512)))
    assert found.proved and len(found.kernels) == found.launches == 2


def test_a_slot_that_is_wrong() -> None:
    target = tfn.run.device().target
    program = pipeline.lower(tfn.make_jaxpr(lambda x: x * 2)(X), target)
    assert report(program, target).proved
    (launch,) = program.launches
    slots = [replace(slot, offset=4) for slot in launch.operands]
    found = report(replace(program, steps=(replace(launch, operands=tuple(slots)),)), target)
    assert not found.proved and "ends at byte 184 of the output 0, which has 180" in str(found)


def test_export_refuses_what_is_not_proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = pipeline.instructions
    monkeypatch.setattr(pipeline, "instructions", lambda *args: changed(right(*args), 0, 99))

    def f(x: Any) -> Any:
        return x.ravel() * 3

    path = tmp_path / "f.c"
    with pytest.raises(
        ExportError, match=r"kernel 0, k\w+: load at (.|\n)*which has 45 elements: at"
    ):
        tfn.export(f, X, path=path)
    assert not path.exists()
    tfn.export(f, X, path=path, unproved="allow")
    assert path.exists()
    with pytest.raises(ArgumentError, match="'refuse' or 'allow'"):
        tfn.export(f, X, path=path, unproved="perhaps")
