"""Platforms: devices by name, of this machine or of the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tfn.array import Array
from tfn.config import config
from tfn.errors import DeviceError
from tfn.hw import cuda, dsp, opencl
from tfn.hw.cpu.device import cpu
from tfn.hw.device import Device
from tfn.hw.guards import DEBUG
from tfn.hw.null import null
from tfn.hw.python import python
from tfn.trace.jaxpr import Jaxpr


def _opencl() -> Device:
    """Loads its files only now: most programs run on a processor without a driver."""
    return opencl.device.opencl()


def _dsp_fastrpc() -> Device:
    return dsp.device.dsp_fastrpc()


def _cuda() -> Device:
    """Loads its files, and the driver of the GPU, only now."""
    return cuda.device.cuda()


def _cuda_debug() -> Device:
    """The same GPU, with kernels that are waited for one by one."""
    return cuda.device.cuda(cuda.device.DEBUG)


def _dsp() -> Device:
    """Loads its files only now, too."""
    return dsp.device.dsp()


# fmt: off
MAKERS: dict[str, Callable[[], Device]] = {
    "cpu": cpu, DEBUG: cpu, "cuda": _cuda, "cuda-debug": _cuda_debug, "opencl": _opencl,
    "dsp": _dsp, "dsp-fastrpc": _dsp_fastrpc, "python": python, "null": null,
}
# fmt: on
"""The devices by name.  A new one needs its row here, and nothing else outside `tfn/hw`."""
DRIVEN = frozenset({"cuda", "cuda-debug", "opencl"})
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
