"""JAX's settings, its types of values, and `jit` with options that have no meaning here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

from tfn.array import Array
from tfn.compat.names import VERSION
from tfn.config import config as tfn_config
from tfn.dtypes import DType
from tfn.eager import run
from tfn.trace.mesh import AbstractMesh
from tfn.trace.named_sharding import NamedSharding, PartitionSpec, names_of
from tfn.trace.op import Shape
from tfn.transforms.jit import jit as tfn_jit

__version__ = VERSION
__version_info__ = tuple(map(int, VERSION.split(".")))


# Compilation.

_HINTS = frozenset(
    {
        "inline",
        "keep_unused",
        "backend",
        "compiler_options",
    }
)


def jit(fun: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`tfn.jit`, without the options that say how to compile for whom.

    Example:
        >>> jit(lambda x: 2 * x, inline=True)(3.0).item()
        6.0
    """
    return tfn_jit(fun, **{name: o for name, o in options.items() if name not in _HINTS})


# Types of values.


@dataclass(frozen=True)
class ShapedArray:
    """The type of an array.

    Example:
        >>> import numpy as np
        >>> str(ShapedArray((2, 3), np.dtype("float32")))
        'float32[2,3]'
    """

    shape: Shape
    dtype: DType
    weak_type: bool = False
    sharding: Any = field(default=NamedSharding(AbstractMesh((), ()), PartitionSpec()), repr=False)

    def __str__(self) -> str:
        sizes = list(map(str, self.shape))
        for axis, part in enumerate(self.sharding.spec):
            names = [n for n in names_of(part) if n in self.sharding.mesh.explicit_axes]
            sizes[axis] += f"@{','.join(map(str, names))}" if names else ""
        return f"{self.dtype.name}[{','.join(sizes)}]"

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)


def typeof(x: object) -> ShapedArray:
    """The type of an array or a number.

    Example:
        >>> typeof(1.0).weak_type
        True
    """
    value = run.asarray(x)
    kind = value.kind
    if kind is None or not isinstance(kind.sharding, NamedSharding):
        return ShapedArray(value.shape, value.dtype, value.weak_type)
    return ShapedArray(value.shape, value.dtype, value.weak_type, kind.sharding)


@dataclass(frozen=True)
class _PredicateType:
    """A type by a predicate, for ``isinstance(x, ...)``."""

    name: str
    holds: Callable[[Any], bool]

    def __instancecheck__(self, x: object) -> bool:
        return self.holds(x)

    def __repr__(self) -> str:
        return self.name


def _traced(x: object) -> bool:
    return isinstance(x, Array) and x.trace is not None


Tracer: Any = _PredicateType("Tracer", _traced)


# Settings.


class Settings:
    """``jax.config``: settings that tfn has no use for are kept, and do nothing.

    64-bit types are there whenever they are asked for by name, whatever ``jax_enable_x64`` says.
    Keys may be used twice, as with JAX, unless ``jax_debug_key_reuse`` forbids it.
    """

    def __init__(self) -> None:
        self.jax_enable_x64 = False
        self.jax_numpy_dtype_promotion = "standard"
        self.jax_default_matmul_precision: str | None = None
        self.jax_platform_name = self.jax_platforms = "cpu"
        self.jax_log_compiles = self.jax_disable_jit = False
        self.jax_threefry_partitionable = True
        self.jax_default_prng_impl = "threefry2x32"

    def update(self, name: str, value: object) -> None:
        """Change a setting."""
        setattr(self, name, value)
        if name == "jax_debug_key_reuse":
            tfn_config.key_reuse = not value

    def read(self, name: str) -> Any:
        """The value of a setting."""
        return getattr(self, name)


config = Settings()


@contextmanager
def _nothing(*settings: object) -> Iterator[None]:
    """A block in which a setting would be changed that tfn has no use for."""
    yield


enable_x64 = log_compiles = default_matmul_precision = named_scope = _nothing


def named_call(fun: Callable[..., Any] | None = None, *, name: str | None = None) -> Any:
    """The function as it is: a trace is printed by operations, not by names."""
    return (lambda f: f) if fun is None else fun
