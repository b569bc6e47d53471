"""JAX's names for devices, shardings and settings, for a process with one device.

Every array is on that device, so every sharding is the same, and none is applied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from tfn.array import Array
from tfn.compat.names import VERSION
from tfn.config import config as tfn_config
from tfn.dtypes import DType
from tfn.eager import run
from tfn.errors import ArgumentError
from tfn.trace.op import Shape
from tfn.transforms.jit import jit as tfn_jit

__version__ = VERSION
__version_info__ = tuple(map(int, VERSION.split(".")))


@dataclass(frozen=True)
class Device:
    """The device, as JAX describes one."""

    platform: str = "cpu"
    id: int = 0
    process_index: int = 0

    @property
    def device_kind(self) -> str:
        """The name of the kind of device."""
        return self.platform


def devices(backend: str | None = None) -> list[Device]:
    """The one device."""
    return [Device(run.device().name)]


local_devices = devices


def device_count(backend: str | None = None) -> int:
    """Returns 1."""
    return 1


local_device_count = process_count = device_count


def process_index(backend: str | None = None) -> int:
    """Returns 0."""
    return 0


def default_backend() -> str:
    """The platform of the device: ``cpu``."""
    return run.device().name


# Shardings.


def PartitionSpec(*parts: object) -> tuple[Any, ...]:
    """Returns the names of the mesh axes over which each axis of an array is split, as a tuple."""
    return parts


@dataclass(frozen=True)
class AbstractMesh:
    """Named axes of devices; all of size 1 here."""

    axis_sizes: Shape = ()
    axis_names: tuple[str, ...] = ()

    @property
    def shape(self) -> dict[str, int]:
        """The size of each axis."""
        return dict(zip(self.axis_names, self.axis_sizes, strict=True))

    @property
    def empty(self) -> bool:
        """Whether there are no axes."""
        return not self.axis_names

    @property
    def size(self) -> int:
        """The number of devices."""
        return prod(self.axis_sizes)

    are_all_axes_explicit = False


def Mesh(devices: Any, axis_names: Any = ()) -> AbstractMesh:
    """Returns a mesh from an array of devices and a name for each axis.

    Raises:
        ArgumentError: for more than the one device.
    """
    names = (axis_names,) if isinstance(axis_names, str) else tuple(axis_names)
    return make_mesh(np.shape(devices), names)


def make_mesh(axis_shapes: Any, axis_names: Any, **options: Any) -> AbstractMesh:
    """Returns a mesh of devices, of which there is one.

    Args:
        axis_shapes: sizes of the axes, all 1.
        axis_names: a name for each axis.
        options: further arguments of JAX, ignored.

    Raises:
        ArgumentError: for more.
    """
    if prod(axis_shapes) != 1:
        raise ArgumentError(
            "there is one device",
            got=f"a mesh of {tuple(axis_shapes)}",
            hint="make a mesh of shape (1,)",
        )
    return AbstractMesh(tuple(axis_shapes), tuple(axis_names))


@dataclass(frozen=True)
class NamedSharding:
    """The layout of an array over a mesh."""

    mesh: AbstractMesh = AbstractMesh()
    spec: tuple[Any, ...] = ()


@dataclass(frozen=True)
class SingleDeviceSharding:
    """An array is on one device."""

    device: Device = Device()


Sharding = NamedSharding | SingleDeviceSharding


# Compilation.

_HINTS = frozenset(
    {
        "inline",
        "keep_unused",
        "device",
        "backend",
        "in_shardings",
        "out_shardings",
        "compiler_options",
    }
)


def jit(fun: Callable[..., Any] | None = None, **options: Any) -> Any:
    """`tfn.jit`, without the options that say where to run, or how to compile for whom.

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
        >>> str(ShapedArray((2, 3), np.dtype("float32")))
        'float32[2,3]'
    """

    shape: Shape
    dtype: DType
    weak_type: bool = False
    sharding: NamedSharding = field(default=NamedSharding(), repr=False)

    def __str__(self) -> str:
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]"

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
    return ShapedArray(value.shape, value.dtype, value.weak_type)


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
