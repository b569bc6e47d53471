"""Functions traced, lowered and compiled before they are called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tfn import debug
from tfn.errors import ArgumentError, DTypeError, ShapeError, TreeError
from tfn.inspect.show import STAGES

pytestmark = pytest.mark.usefixtures("compiled")

MATRIX = tfn.ShapeDtypeStruct((4, 3), "float32")
X = np.arange(12, dtype=np.float32).reshape(4, 3)


@tfn.jit
def layer(params: Any, x: Any) -> Any:
    return {"y": tfn.numpy.tanh(x @ params["w"] + params["b"])}


PARAMS = {"w": np.ones((3, 2), np.float32), "b": np.zeros(2, np.float32)}


def test_the_same_results_as_the_function() -> None:
    run = layer.lower(PARAMS, MATRIX).compile()
    for _ in range(3):
        assert (np.asarray(run(PARAMS, X)["y"]) == np.asarray(layer(PARAMS, X)["y"])).all()


def test_traced_functions_have_types() -> None:
    traced = layer.trace(PARAMS, MATRIX)
    compiled = traced.lower().compile()
    assert traced.fun_name == "layer" and "tanh" in str(traced.jaxpr)
    for stage in (traced, traced.lower(), compiled):
        assert stage.out_info["y"] == tfn.ShapeDtypeStruct((4, 2), "float32")
        assert stage.in_avals[0][1] == MATRIX
        assert stage.in_tree.num_leaves == 3 and stage.out_tree.num_leaves == 1
    memory = compiled.memory_analysis()
    assert memory.output_bytes == 32 and memory.argument_bytes == 4 * (6 + 2 + 12)
    assert compiled.cost_analysis()["flops"] == 2 * 4 * 2 * 3 + 8


def test_every_stage_as_text() -> None:
    lowered = layer.lower(PARAMS, MATRIX)
    compiled = lowered.compile()
    for stage in STAGES:
        assert lowered.as_text(stage) == compiled.as_text(stage) != ""
    assert lowered.as_text() == lowered.as_text("kernels")
    assert ".text" in compiled.as_text() and "barrier" in lowered.as_text()
    with pytest.raises(ArgumentError, match="jaxpr, shards, kernels"):
        lowered.as_text("stablehlo")


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        ((PARAMS, X[:3]), ShapeError, r"(?s)layer.*x: f32\[3,3\].*for x: f32\[4,3\]"),
        ((PARAMS, X.astype("int32")), DTypeError, r"(?s)x: i32\[4,3\].*for x: f32\[4,3\]"),
        ((PARAMS | {"b": X}, X), ShapeError, r"params\['b'\]"),
        ((PARAMS | {"c": X}, X), TreeError, "arguments"),
        ((PARAMS,), TreeError, "arguments"),
        ((PARAMS, "x"), ArgumentError, "x is not an array"),
    ],
)
def test_other_arguments_are_refused(args: Any, error: Any, words: str) -> None:
    run = layer.lower(PARAMS, MATRIX).compile()
    with pytest.raises(error, match=words):
        run(*args)
    assert issubclass(error, TypeError)


def test_it_cannot_be_transformed() -> None:
    run = layer.lower(PARAMS, MATRIX).compile()
    for transform in (tfn.jit, tfn.grad, tfn.vmap):
        with pytest.raises(ArgumentError, match="traced nor transformed"):
            transform(lambda x: run(PARAMS, x)["y"].sum())(np.stack([X, X]) + 0)


def test_static_and_keyword_arguments() -> None:
    @tfn.jit(static_argnames="n")
    def f(x: Any, n: int, *, y: Any) -> Any:
        return x * n + y

    run = f.lower(MATRIX, n=3, y=1.0).compile()
    assert (np.asarray(run(X, y=2.0)) == X * 3 + 2).all()
    with pytest.raises(TreeError):
        run(X, 3, y=2.0)


def test_donated_arguments_are_given_away() -> None:
    f = tfn.jit(lambda x: x + 1, donate_argnums=0)
    run, x = f.lower(MATRIX).compile(), tfn.numpy.asarray(X.copy()) + 0
    assert run(x).shape == (4, 3) and x.is_deleted()
    assert run.memory_analysis().output_bytes == 0


def test_donated_arguments_are_overwritten_without_native_calls_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tfn.eager.run.entry", lambda *args: None)
    run = tfn.jit(lambda x: x + 1, donate_argnums=0).lower(MATRIX).compile()
    x = tfn.numpy.asarray(X)
    assert x.buffer is not None
    address = x.buffer.address
    y = run(x)
    assert x.is_deleted() and y.buffer.address == address and y.tolist() == (X + 1).tolist()


def test_effects_happen_at_each_call(capsys: pytest.CaptureFixture[str]) -> None:
    run = tfn.jit(lambda x: (debug.print("{}", x), x * 2)[1]).lower(1.0).compile()
    assert capsys.readouterr().out == ""
    assert [float(run(x)) for x in (1.0, 2.0)] == [2, 4]
    assert capsys.readouterr().out == "1.0\n2.0\n"


def test_captured_values_of_compiled_functions() -> None:
    w = tfn.numpy.asarray(X)
    assert (np.asarray(tfn.jit(lambda x: x + w).lower(MATRIX).compile()(X)) == X + X).all()

    def outer(y: Any) -> Any:
        return tfn.jit(lambda x: x + y).lower(MATRIX)

    with pytest.raises(ArgumentError, match="being traced"):
        tfn.jit(outer)(1.0)


def test_options_of_no_compiler_are_refused():
    lowered = tfn.jit(lambda x: x + 1).lower(1.0)
    assert lowered.compile(compiler_options={"xla_cpu_enable_fast_math": True})(1.0) == 2.0
    with pytest.raises(ArgumentError, match="option"):
        lowered.compile(compiler_options={"fast": True})


def test_each_stage_knows_its_arguments() -> None:
    f = tfn.jit(lambda x, y: x + y["b"], donate_argnums=0)
    traced = f.trace(X, {"b": X})
    for stage in (traced, traced.lower(), traced.lower().compile()):
        (x, y), named = stage.args_info
        assert (x.shape, x.dtype, x.donated, y["b"].donated, named) == (
            (4, 3),
            np.dtype("float32"),
            True,
            False,
            {},
        )
        assert x.aval == stage.in_avals[0][0]
