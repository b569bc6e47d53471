"""make_jaxpr and eval_shape."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.errors import ArgumentError


def test_make_jaxpr_prints() -> None:
    assert str(tfn.make_jaxpr(tnp.sin)(1.0)) == "{ lambda ; a:f32[]. let b:f32[] = sin a in (b,) }"
    jaxpr = tfn.make_jaxpr(tfn.grad(lambda x: tnp.sin(x) * x))(1.0)
    assert "cos a" in str(jaxpr)


def test_names_and_captured_values_do_not_matter() -> None:
    a, b = tnp.ones(3), tnp.zeros(3)
    first = tfn.make_jaxpr(lambda x: x * a)(a)
    second = tfn.make_jaxpr(lambda longer: longer * b)(b)
    assert first == second and first.function is second.function


def test_static_and_shape() -> None:
    jaxpr, out = tfn.make_jaxpr(lambda n, x: {"y": x * n}, static_argnums=0, return_shape=True)(
        3, tfn.ShapeDtypeStruct((2,), tnp.bfloat16)
    )
    assert len(jaxpr.params) == 1
    assert out == {"y": tfn.ShapeDtypeStruct((2,), tnp.bfloat16)}


def test_eval_shape_computes_nothing() -> None:
    huge = tfn.ShapeDtypeStruct((10**6, 10**6), "float32")
    seen: list[Any] = []

    def f(p: dict[str, Any], *, k: Any) -> Any:
        seen.append(p["x"])
        return [p["x"] @ p["x"], k.sum()]

    out = tfn.eval_shape(f, {"x": huge}, k=np.ones((2, 3), np.float16))
    assert out == [huge, tfn.ShapeDtypeStruct((), "float16")]
    assert len(seen) == 1
    with pytest.raises(ArgumentError, match=r"p\['x'\] is not an array"):
        tfn.eval_shape(f, {"x": "?"}, k=1.0)


def test_types_may_be_results():
    row = tfn.ShapeDtypeStruct((3,), "int8")
    out = tfn.eval_shape(lambda x: (row, x), 1.0)
    assert out[0] == row and out[1].shape == ()
