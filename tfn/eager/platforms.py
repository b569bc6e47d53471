"""Platforms: devices by name, of this machine or of the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

from tfn._support.lazy import by_name
from tfn.array import Array
from tfn.config import config
from tfn.errors import DeviceError
from tfn.hw.cpu.device import cpu
from tfn.hw.device import Device
from tfn.hw.guards import DEBUG
from tfn.hw.null import null
from tfn.hw.python import python
from tfn.trace.jaxpr import Jaxpr

# fmt: off
MAKERS: dict[str, Callable[[], Device]] = {
    "cpu": cpu, DEBUG: cpu, "python": python, "null": null,
    "cuda":        by_name("tfn.hw.cuda.device.cuda"),
    "cuda-debug":  partial(by_name("tfn.hw.cuda.device.cuda"), "cuda-debug"),
    "opencl":      by_name("tfn.hw.opencl.device.opencl"),
    "webgpu":      by_name("tfn.hw.webgpu.device.webgpu"),
    "amd-emulated": by_name("tfn.hw.amd.device.amd_emulated"),
    "dsp":         by_name("tfn.hw.dsp.device.dsp"),
    "dsp-fastrpc": by_name("tfn.hw.dsp.device.dsp_fastrpc"),
}
# fmt: on
"""The devices by name; files and drivers of those in text are loaded at their first use.

A new one needs its row here, and nothing else outside of its folder.
"""
DRIVEN = frozenset({"cuda", "cuda-debug", "opencl", "webgpu"})
"""Platforms whose devices are those of a driver: there may be none on this machine."""


def no_device(name: str, got: str) -> DeviceError:
    """The error for a platform that does not exist."""
    return DeviceError(
        f"there is no device {name!r}",
        got=got,
        hint="config.device, or the environment variable TFN_DEVICE, is one "
        "of " + ", ".join(MAKERS),
    )


class Controller(Protocol):
    """Runs programs in other processes; see `tfn.distributed.connect`."""

    def call(
        self, jaxpr: Jaxpr, operands: Sequence[Array], donated: frozenset[int], on: Any, name: str
    ) -> list[Array]:
        """A whole closed function: handles of its results."""

    def put(self, x: Array, sharding: Any) -> Array:
        """An array on the devices of a sharding."""

    @property
    def size(self) -> int:
        """The number of workers."""

    @property
    def owners(self) -> Sequence[int]:
        """The worker of each device."""

    def has(self, x: Any) -> bool:
        """Whether workers alone have the data of an array."""

    def save(
        self,
        folder: str,
        step: int,
        topic: str,
        timeout_s: float,
        rows: Sequence[tuple[int, str, Array, Any]],
    ) -> None:
        """Let workers begin to write pieces of a checkpoint, each as host i + 1 its own."""

    def read(self, path: str, name: str, shape: Any, dtype: Any, sharding: Any) -> Array:
        """An array of a checkpoint, of which each worker reads its part."""

    def verify(self, path: str) -> None:
        """Compare the digests of a checkpoint, each worker a share."""


CONTROLLERS: dict[str, Controller] = {}
"""By platform: those whose devices belong to the workers of a cluster."""


def cluster() -> Controller | None:
    """The controller of the cluster that this process is connected to."""
    return next(iter(CONTROLLERS.values()), None)


def controller(kinds: Sequence[Any], on: Any = None) -> Controller | None:
    """The controller of the devices that a call runs on; None for those of this process."""
    if not CONTROLLERS:
        return None
    places = [kind.sharding for kind in kinds if kind.sharding is not None]
    place = places[0] if places else on.place if on else None
    return CONTROLLERS.get(place.devices[0].platform if place else config.device)
