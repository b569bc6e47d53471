"""``jax.extend.backend``: the platforms of tfn, as JAX's clients of XLA are asked for theirs."""

from __future__ import annotations

from tfn import __version__, clear_caches
from tfn.extend import devices as eager
from tfn.extend import frozen
from tfn.sharding import Device


@frozen
class Backend:
    """The devices of a platform, with the names that XLA's clients have.

    Attributes:
        platform: its name, such as ``cpu``.
    """

    platform: str

    @property
    def platform_version(self) -> str:
        """The version of tfn."""
        return f"tfn {__version__}"

    @property
    def runtime_type(self) -> str:
        """The name of the library."""
        return "tfn"

    def devices(self) -> list[Device]:
        """All devices."""
        return eager.devices(self.platform)

    def local_devices(self) -> list[Device]:
        """The devices of this process."""
        return eager.local_devices(backend=self.platform)

    def device_count(self) -> int:
        """The number of all devices."""
        return len(self.devices())

    def local_device_count(self) -> int:
        """The number of devices of this process."""
        return len(self.local_devices())

    def process_index(self) -> int:
        """The number of this process."""
        return eager.process_index()


def get_backend(platform: str | None = None) -> Backend:
    """The platform of a name, or the default one.

    Raises:
        DeviceError: if there is no such platform, or this machine has no device of it.

    Example:
        >>> get_backend().platform, get_backend("cpu").device_count() >= 1
        ('cpu', True)
    """
    return Backend(eager.devices(platform)[0].platform)


def backends() -> dict[str, Backend]:
    """The default platform, by its name."""
    backend = get_backend()
    return {backend.platform: backend}


def get_default_device() -> Device:
    """The device on which arrays are made.

    Example:
        >>> get_default_device().id
        0
    """
    return eager.devices()[0]


def clear_backends() -> None:
    """Forget all traces and compiled programs; devices stay."""
    clear_caches()


clear_in_memory_compilation_cache = clear_backends
