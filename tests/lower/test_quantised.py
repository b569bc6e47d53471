"""Products of quantised weights: dequantised where they are read, never as a matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tfn
from tests.covering import covering
from tests.lower.check_passes import HOST, SMALL
from tests.lower.quantised import FORMATS, close, draw
from tfn.lower import pipeline
from tfn.lower.target.target import Target

V3 = Target("x86_64-unknown-linux-gnu", "x86-64-v3", "", 32, 16)


def product(name: str) -> Any:
    def f(x: Any, *arrays: Any) -> Any:
        return FORMATS[name].dequantised(*arrays) @ x

    return f


@covering("name, rows, columns", [*FORMATS], [1, 7, 64, 130], [32, 96, 1024])
def test_a_product_with_a_vector_has_the_values_of_numpy(
    name: str, rows: int, columns: int
) -> None:
    arrays = draw(name, rows, columns)
    w = FORMATS[name].exact(*arrays)
    x = np.random.default_rng(1).standard_normal(w.shape[1]).astype("f4")
    close(tfn.jit(product(name))(x, *arrays), w @ x)


@covering("name, target", [*FORMATS], [HOST, V3, SMALL])
def test_a_product_with_a_vector_is_one_kernel_without_a_matrix(name: str, target: Target) -> None:
    arrays = draw(name, 2048, 2048)
    columns = FORMATS[name].exact(*(a[:1] for a in arrays)).shape[1]
    x = np.zeros(columns, "f4")
    program = pipeline.lower(tfn.make_jaxpr(product(name))(x, *arrays), target)
    assert (len(program.kernels), program.arena_bytes) == (1, 0)


@pytest.mark.parametrize("name", FORMATS)
def test_the_code_of_a_product_does_not_grow_with_its_size(name: str) -> None:
    texts = []
    for n in (1024, 4096):
        arrays = draw(name, n, n)
        x = np.zeros(FORMATS[name].exact(*(a[:1] for a in arrays)).shape[1], "f4")
        program = pipeline.lower(tfn.make_jaxpr(product(name))(x, *arrays), V3)
        texts.append([k.text.count("\n") for k in program.kernels])
    assert texts[0] == texts[1]


@pytest.mark.parametrize("name", FORMATS)
def test_the_gradient_of_a_product_is_that_of_its_matrix(name: str) -> None:
    arrays = draw(name, 33, 64)
    w = FORMATS[name].exact(*arrays)
    x = np.random.default_rng(1).standard_normal(w.shape[1]).astype("f4")
    gradient = tfn.jit(tfn.grad(lambda x, *a: (product(name)(x, *a) ** 2).sum()))(x, *arrays)
    close(gradient, 2 * w.T @ (w @ x))
    xs = np.stack([x, 2 * x, -x])
    close(tfn.jit(tfn.vmap(lambda x: product(name)(x, *arrays)))(xs), xs @ w.T)
