"""Whole programs proved: networks and their training; and what is wrong told from what is right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import mnist
import mnist_in_c
import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tests.lower.report.verify.test_accesses import changed
from tfn import nn, random
from tfn.errors import ArgumentError, ExportError, MissingPackageError
from tfn.hw.cpu.target import named
from tfn.inspect.verify import report, verify
from tfn.lower import pipeline
from tfn.lower.index import solver
from tfn.nn import optim

X = np.ones((5, 9), np.float32)


@pytest.mark.parametrize("model", mnist.MODELS)
def test_networks_on_mnist(model: str) -> None:
    """Steps, tests, first values, and shuffles, of which only the sort is believed."""
    for name, (function, args) in mnist_in_c.functions(mnist.MODELS[model], 1).items():
        actual = verify(function, *args)
        assert actual.proved, str(actual)
        assert bool(actual.assumptions) == (name == "shuffle")


@nn.module
class GPT:
    characters: nn.Embedding
    blocks: nn.Stack
    out: nn.Linear


def gpt(key: random.Key) -> GPT:
    a, b, c = random.split(key, 3)
    blocks = nn.Stack.init(lambda key: nn.TransformerBlock.init(key, 32, 2), b, 2)
    return GPT(nn.Embedding.init(a, 65, 32), blocks, nn.Linear.init(c, 32, 65))


def test_a_step_of_a_gpt() -> None:
    optimizer = optim.adam(1e-3)

    def loss(network: GPT, texts: Any) -> Any:
        logits = network.out(network.blocks(network.characters(texts[:, :-1]), is_causal=True))
        return nn.softmax_cross_entropy_with_integer_labels(logits, texts[:, 1:]).mean()

    def step(network: GPT, state: Any, texts: Any) -> Any:
        value, slopes = tfn.value_and_grad(loss)(network, texts)
        updates, state = optimizer.update(slopes, state, network)
        return optim.apply_updates(network, updates), state, value

    network = tfn.eval_shape(gpt, random.key(0))
    state = tfn.eval_shape(optimizer.init, network)
    actual = verify(step, network, state, tfn.ShapeDtypeStruct((4, 33), "int32"))
    assert actual.proved and not actual.assumptions, str(actual)


def test_a_scanned_lstm() -> None:
    network = nn.LSTM.init(random.key(0), 12, 20)

    def loss(network: nn.LSTM, xs: Any) -> Any:
        return (network(xs)[0] ** 2).mean()

    xs = tfn.ShapeDtypeStruct((30, 4, 12), "float32")
    actual = verify(tfn.value_and_grad(loss), network, xs)
    assert actual.proved and not actual.assumptions, str(actual)


def test_report_prints_as_a_table() -> None:
    text = str(verify(lambda x, i: tnp.sort(tnp.tile(x[i].ravel(), 4000)), X, np.arange(5)))
    head, *_, launches, assumed = text.splitlines()
    assert " ".join(head.split()) == "kernel accesses by intervals by z3 assumed unproved"
    assert launches.endswith("launches within inputs, outputs and arena")
    assert assumed.startswith("assumed: a sort's words")


def test_one_text_for_arrays_of_several_sizes() -> None:
    actual = tfn.verify(lambda: (tnp.zeros(5120), tnp.zeros(512)))
    assert actual.proved and len(actual.kernels) == actual.launches == 2


def test_a_slot_that_is_wrong() -> None:
    target = tfn.run.device().target
    program = pipeline.lower(tfn.make_jaxpr(lambda x: x * 2)(X), target)
    assert report(program, target).proved
    (launch,) = program.launches
    slots = [replace(slot, offset=4) for slot in launch.operands]
    actual = report(replace(program, steps=(replace(launch, operands=tuple(slots)),)), target)
    assert not actual.proved and "ends at byte 184 of the output 0, which has 180" in str(actual)


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


def test_export_says_how_to_do_without_z3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "installed", lambda: False)

    def f(x: Any) -> Any:
        return tnp.roll(x, 3).reshape(x.shape[::-1]) + 1  # an index that intervals do not bound

    with pytest.raises(MissingPackageError) as caught:
        tfn.export(f, X, path=tmp_path / "f.c")
    assert "unproved='allow'" in caught.value.__notes__[0]
    assert tfn.export(f, X, path=tmp_path / "f.c", unproved="allow").files[0].exists()
    assert tfn.export(lambda x: x * 2, X, path=tmp_path / "g.c").files[0].exists()


TEXT = """\
define void @NAME(i64 %begin, i64 %end, ptr %operands) {
  ret void
}
"""


def test_kernels_whose_text_is_not_known() -> None:
    """The instructions are made again, and must become the very text of the kernel."""
    target = tfn.run.device().target
    program = pipeline.lower(tfn.make_jaxpr(lambda x: x * 2)(X), target)
    (launch,) = program.launches
    other = replace(launch, kernel=replace(launch.kernel, name="k" + 20 * "0", text=TEXT))
    actual = report(replace(program, steps=(other,)), target)
    assert not actual.proved and "are not known" in str(actual)


@pytest.mark.parametrize(
    "name", ["x86-64", "x86-64-v3", "x86-64-v4", "aarch64", "riscv64", "wasm32"]
)
def test_other_targets(name: str) -> None:
    def f(x: Any, w: Any, i: Any) -> Any:
        return tnp.tanh(x @ w)[i].sum(0), tnp.sort(x.ravel()), tnp.pad(x, 3)

    x, w = tfn.ShapeDtypeStruct((37, 21), "float32"), tfn.ShapeDtypeStruct((21, 19), "float32")
    i = tfn.ShapeDtypeStruct((5,), "int32")
    actual = tfn.verify(f, x, w, i, target=named(name))
    assert actual.proved, str(actual)


@pytest.mark.parametrize("ask", [verify, tfn.show, tfn.view], ids=lambda ask: ask.__name__)
def test_targets_are_given_by_name(ask, tmp_path):
    options = {"path": tmp_path / "page.html"} if ask is tfn.view else {}
    for target in ("x86-64-v2", "aarch64", "host", named("x86-64-v3"), None):
        assert str(ask(lambda x: x + 1, X, target=target, **options))
    for wrong in ("x86-64-v9", "", "X86-64-V3", 3, ("host",)):
        with pytest.raises(ArgumentError, match="target") as caught:
            ask(lambda x: x + 1, X, target=wrong, **options)
        assert "x86-64-v3" in caught.value.hint
