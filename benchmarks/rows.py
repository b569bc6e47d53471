"""The rows of the race: what each is about, and its inputs, which are the same for all.

The programs themselves are written once for libraries with JAX's names (`functional.py`), once for
PyTorch and once for NumPy.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

MEGA = 1 << 20
SIZES = (784, 512, 512, 10)
CONVOLUTIONS = ((5, 5, 1, 32), (5, 5, 32, 32), (3, 3, 32, 64), (3, 3, 64, 64))
LAYERS, WIDTH, HEADS, LENGTH, WORDS = 4, 256, 8, 256, 1000
"""The GPT: layers, width of its stream, heads, tokens of a text, size of the vocabulary."""

Inputs = dict[str, Any]
Step = Callable[[], Any]
"""One run of a program: it gives its results, computed."""


@dataclass(frozen=True)
class Row:
    """A program of the race: its name, the group it stands in, its inputs, and what it is."""

    name: str
    group: str
    inputs: Callable[[], Inputs]
    about: str


def normal(seed: int, *shape: int, scale: float = 1.0) -> np.ndarray[Any, Any]:
    """Numbers that are the same everywhere."""
    random = np.random.default_rng(seed)
    return random.standard_normal(shape, dtype=np.float32) * np.float32(scale)


def whole(seed: int, bound: int, *shape: int) -> np.ndarray[Any, Any]:
    """Integers from 0 to below a bound."""
    return np.random.default_rng(seed).integers(0, bound, shape).astype(np.int32)


def normals(**shapes: tuple[int, ...]) -> Callable[[], Inputs]:
    """Inputs that are all normal numbers."""
    return lambda: {name: normal(i, *shape) for i, (name, shape) in enumerate(shapes.items())}


def dense(seed: int, *sizes: int) -> list[Any]:
    """Weights and biases of layers."""
    pairs = enumerate(itertools.pairwise(sizes))
    return [
        (normal(seed + i, a, b, scale=(2 / a) ** 0.5), np.zeros(b, np.float32))
        for i, (a, b) in pairs
    ]


def convolutions(seed: int) -> list[Any]:
    """Windows (height, width, channels, features) and biases."""
    return [
        (normal(seed + i, *s, scale=(2 / (s[0] * s[1] * s[2])) ** 0.5), np.zeros(s[3], np.float32))
        for i, s in enumerate(CONVOLUTIONS)
    ]


def digits(count: int) -> Inputs:
    """A batch like MNIST's."""
    images = np.random.default_rng(5).random((count, 784), dtype=np.float32)
    return {"x": images, "y": whole(6, 10, count)}


def transformer() -> Inputs:
    """A small GPT, and texts to learn."""
    d = WIDTH

    def norm() -> tuple[Any, Any]:
        return np.ones(d, np.float32), np.zeros(d, np.float32)

    def block(seed: int) -> Inputs:
        shapes = {"qkv": (d, 3 * d), "out": (d, d), "up": (d, 4 * d), "down": (4 * d, d)}
        weights = {k: normal(seed + i, *s, scale=0.02) for i, (k, s) in enumerate(shapes.items())}
        return {**weights, "norm1": norm(), "norm2": norm()}

    weights = {
        "words": normal(40, WORDS, d, scale=0.02),
        "places": normal(41, LENGTH, d, scale=0.02),
        "blocks": [block(50 + 10 * i) for i in range(LAYERS)],
        "norm": norm(),
        "out": normal(42, d, WORDS, scale=0.02),
    }
    return {"layers": weights, "tokens": whole(7, WORDS, 4, LENGTH + 1)}


def product(name: str, m: int, k: int, n: int, about: str = "") -> Row:
    """A matrix product."""
    return Row(name, "matrices", normals(a=(m, k), b=(k, n)), about or f"{m} x {k} x {n}")


IMAGES: dict[str, tuple[int, ...]] = {"x": (32, 32, 32, 64), "w": (3, 3, 64, 64)}
NORM: dict[str, tuple[int, ...]] = {"x": (4096, 1024), "g": (1024,), "b": (1024,)}


def recurrent() -> Inputs:
    """Weights of a long short-term memory, and 32 sequences."""
    weights = {"wx": normal(0, 256, 1024, scale=0.06), "wh": normal(1, 256, 1024, scale=0.06)}
    return {**weights, "b": normal(2, 1024, scale=0.1), "x": normal(3, 128, 32, 256)}


def embedding(**more: tuple[int, ...]) -> Callable[[], Inputs]:
    """A table of 50,000 words, and 8,192 of them."""
    return lambda: {
        "table": normal(0, 50_000, 512),
        "words": whole(1, 50_000, 8192),
        **{k: normal(2, *shape) for k, shape in more.items()},
    }


ROWS = {
    row.name: row
    for row in (
        Row("disp_tiny", "calls", normals(x=(8,)), "jit(x + 1) on 8 floats"),
        Row(
            "disp_tree100",
            "calls",
            lambda: {"tree": [normal(i, 8) for i in range(100)]},
            "a jitted function of 100 arrays of 8 floats",
        ),
        Row("eager20", "calls", normals(x=(8,)), "20 operations on 8 floats, not jitted"),
        Row("saxpy16M", "memory", normals(x=(16 * MEGA,), y=(16 * MEGA,)), "2.5 x + y of 16M"),
        Row("gelu16M", "memory", normals(x=(16 * MEGA,)), "gelu of 16M, by tanh"),
        Row("sum16M", "memory", normals(x=(16 * MEGA,)), "sum of 16M"),
        Row("softmax4096", "memory", normals(x=(4096, 4096)), "softmax of the rows of 4096 x 4096"),
        Row("layernorm", "memory", normals(**NORM), "4096 rows of 1024"),
        Row(
            "layernorm_grad",
            "memory",
            normals(**NORM, ct=(4096, 1024)),
            "to input, scale and shift",
        ),
        Row("cumsum4M", "memory", normals(x=(4 * MEGA,)), "running sum of 4M"),
        Row("argmax4096", "memory", normals(x=(4096, 4096)), "of each row"),
        Row("sort1M", "memory", normals(x=(MEGA,)), "one million floats"),
        Row("embed_fwd", "memory", embedding(), "8192 rows of a table of 50,000 x 512"),
        Row("embed_grad", "memory", embedding(ct=(8192, 512)), "the gradient to the table"),
        product("mm256", 256, 256, 256),
        product("mm512", 512, 512, 512),
        product("mm1024", 1024, 1024, 1024),
        product("mm_odd", 1000, 700, 333),
        product("mm_tn1024", 1024, 1024, 1024, "a.T @ b"),
        product("mm_nt1024", 1024, 1024, 1024, "a @ b.T"),
        Row("bmm64", "matrices", normals(a=(64, 64, 64), b=(64, 64, 64)), "64 products of 64 x 64"),
        product("matvec4096", 1, 4096, 4096),
        Row(
            "conv_fwd",
            "convolutions",
            normals(**IMAGES),
            "3 x 3, 64 channels, 32 images of 32 x 32",
        ),
        Row("conv_grad", "convolutions", normals(**IMAGES, ct=IMAGES["x"]), "to input and weights"),
        Row(
            "mlp_train",
            "training",
            lambda: {"layers": dense(10, *SIZES), **digits(128)},
            "784-512-512-10, batch 128, one Adam step",
        ),
        Row(
            "cnn_train",
            "training",
            lambda: {"layers": (convolutions(20), dense(30, 576, 10)[0]), **digits(128)},
            "four convolutions, batch 128, one Adam step",
        ),
        Row(
            "gpt_train",
            "training",
            transformer,
            "4 layers, width 256, 4 texts of 256, one Adam step",
        ),
        Row("lstm_grad", "loops", recurrent, "128 steps, batch 32, width 256"),
        Row(
            "fori10k", "loops", lambda: {"x": np.abs(normal(0, 8))}, "10,000 iterations on 8 floats"
        ),
        Row(
            "while10k", "loops", lambda: {"x": np.float32(0.5)}, "10,000 iterations, a test in each"
        ),
        Row(
            "perex_grad",
            "functional",
            lambda: {"layers": dense(10, 784, 128, 10), **digits(256)},
            "a gradient for each of 256 examples, 784-128-10",
        ),
        Row(
            "hvp_mlp",
            "functional",
            lambda: {"layers": dense(10, *SIZES), "along": dense(60, *SIZES), **digits(128)},
            "Hessian times vector, 784-512-512-10, batch 128",
        ),
        Row(
            "hess_rosen50",
            "functional",
            lambda: {"x": normal(0, 50, scale=0.5)},
            "Hessian of Rosenbrock's function of 50",
        ),
    )
}


def leaves(value: Any) -> list[Any]:
    """The arrays in lists, tuples and dicts, in order."""
    if isinstance(value, dict):
        value = [value[key] for key in sorted(value)]
    if isinstance(value, (list, tuple)):
        return [leaf for part in value for leaf in leaves(part)]
    return [value]
