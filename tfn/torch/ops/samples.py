"""Random operations: each takes a key of its own, so the numbers are not those of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfn import numpy as jnp
from tfn import random
from tfn.torch.ops.known import Value, cast, dtype_of


def _drawn(draw: Callable[..., Value]) -> Callable[..., Value]:
    """Floats of a distribution, in a shape."""

    def op(size: Sequence[int], dtype: Any = None, random_key: Any = None, **options: Any) -> Value:
        return draw(random_key(), tuple(size)).astype(
            "float32" if dtype is None else dtype_of(dtype)
        )

    return op


def _drawn_like(draw: Callable[..., Value]) -> Callable[..., Value]:
    """Floats of a distribution, in the shape of an array."""

    def op(x: Value, dtype: Any = None, random_key: Any = None, **options: Any) -> Value:
        return draw(random_key(), x.shape).astype(x.dtype if dtype is None else dtype_of(dtype))

    return op


def randperm(n: int, dtype: Any = None, random_key: Any = None, **options: Any) -> Value:
    """The integers below n in random order."""
    return random.permutation(random_key(), n)


def randint(low: int, high: int, size: Any, random_key: Any = None, **options: Any) -> Value:
    """Integers from a range."""
    return random.randint(random_key(), tuple(size), low, high)


def native_dropout(
    x: Value, p: float, train: bool | None, random_key: Any = None
) -> tuple[Value, Value]:
    """Values of which some are zero and the others larger, and which those are."""
    if train is False or p == 0:
        return x, jnp.ones(x.shape, bool)
    if p == 1:
        return jnp.zeros_like(x), jnp.zeros(x.shape, bool)
    kept = random.bernoulli(random_key(), 1 - p, x.shape)
    return jnp.where(kept, x * cast(1 / (1 - p), x.dtype), cast(0, x.dtype)), kept


def bernoulli(x: Value, p: Value = None, random_key: Any = None, **options: Any) -> Value:
    """Zeros and ones, with the chances that an array has or a number says."""
    return random.bernoulli(random_key(), x if p is None else p, x.shape).astype(x.dtype)


def uniform(
    x: Value, low: float = 0.0, high: float = 1.0, random_key: Any = None, **o: Any
) -> Value:
    """Numbers between two others."""
    return (random.uniform(random_key(), x.shape) * (high - low) + low).astype(x.dtype)


def normal(
    x: Value, mean: float = 0.0, std: float = 1.0, random_key: Any = None, **o: Any
) -> Value:
    """Normal numbers with a mean and deviation."""
    return (random.normal(random_key(), x.shape) * std + mean).astype(x.dtype)


# fmt: off
OPS: dict[str, Callable[..., Any]] = {
    "rand": _drawn(random.uniform), "randn": _drawn(random.normal),
    "rand_like": _drawn_like(random.uniform), "randn_like": _drawn_like(random.normal),
    "randperm": randperm, "native_dropout": native_dropout, "bernoulli": bernoulli,
    "randint": lambda high, size, random_key=None, **options: randint(0, high, size, random_key),
    "randint.low": randint, "uniform": uniform, "normal_functional": normal,
}
# fmt: on
