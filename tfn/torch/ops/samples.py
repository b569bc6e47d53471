"""Random operations: each takes a key of its own, so the numbers are not those of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfn import lax, random
from tfn import numpy as jnp
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


def normal_of(mean: Value, std: Value, random_key: Any = None, **options: Any) -> Value:
    """Normal numbers, each with a mean and deviation of its own, or one for all."""
    held = next(v for v in (mean, std) if hasattr(v, "shape"))
    shape = jnp.broadcast_shapes(*(v.shape for v in (mean, std) if hasattr(v, "shape")))
    return (random.normal(random_key(), shape) * std + mean).astype(held.dtype)


def normal_sized(
    mean: float, std: float, size: Sequence[int], random_key: Any = None, **options: Any
) -> Value:
    """Normal numbers of a shape."""
    return random.normal(random_key(), tuple(size)) * std + mean


def cauchy(
    x: Value, median: float = 0.0, sigma: float = 1.0, random_key: Any = None, **o: Any
) -> Value:
    """Numbers of Cauchy's distribution."""
    return (random.cauchy(random_key(), x.shape) * sigma + median).astype(x.dtype)


def log_normal(
    x: Value, mean: float = 1.0, std: float = 2.0, random_key: Any = None, **o: Any
) -> Value:
    """Exponentials of normal numbers."""
    return jnp.exp(random.normal(random_key(), x.shape) * std + mean).astype(x.dtype)


def geometric(x: Value, p: float, random_key: Any = None, **o: Any) -> Value:
    """The numbers of attempts until a success."""
    return random.geometric(random_key(), p, x.shape).astype(x.dtype)


def randint_like(x: Value, *ends: int, random_key: Any = None, **options: Any) -> Value:
    """Integers from a range, in the shape of an array."""
    low, high = (0, *ends)[-2:]
    return random.randint(random_key(), x.shape, low, high).astype(x.dtype)


def multinomial(
    chances: Value, num_samples: int, replacement: bool = False, random_key: Any = None, **o: Any
) -> Value:
    """Places drawn by their chances, which need not add up to 1; all different, or not."""
    logits, shape = jnp.log(chances), (*chances.shape[:-1], num_samples)
    if replacement:
        return random.categorical(random_key(), logits[..., None, :], shape=shape).astype("int64")
    noise = random.gumbel(random_key(), chances.shape)  # the largest are draws without return
    return lax.top_k(logits + noise, num_samples)[1].astype("int64")


def rrelu_with_noise(
    x: Value,
    noise: Value,
    lower: float = 1 / 8,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
    random_key: Any = None,
) -> Value:
    """Values, of which those that are not positive are scaled, in training at random."""
    slope: Value = (lower + upper) / 2
    if training:
        slope = random.uniform(random_key(), x.shape, minval=lower, maxval=upper).astype(x.dtype)
    return jnp.where(x > 0, x, x * cast(slope, x.dtype))


# fmt: off
OPS: dict[str, Callable[..., Any]] = {
    "rand": _drawn(random.uniform), "randn": _drawn(random.normal),
    "rand_like": _drawn_like(random.uniform), "randn_like": _drawn_like(random.normal),
    "randperm": randperm, "native_dropout": native_dropout, "bernoulli": bernoulli,
    "randint": lambda high, size, random_key=None, **options: randint(0, high, size, random_key),
    "randint.low": randint, "uniform": uniform, "normal_functional": normal,
    "normal.Tensor_Tensor": normal_of, "normal.Tensor_float": normal_of,
    "normal.float_Tensor": normal_of, "normal.float_float": normal_sized, "cauchy": cauchy,
    "log_normal": log_normal, "geometric": geometric, "multinomial": multinomial,
    "randint_like": randint_like, "randint_like.low_dtype": randint_like,
    "rrelu_with_noise": rrelu_with_noise,
}
# fmt: on
