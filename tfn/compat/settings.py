"""Settings of JAX: ``jax.config``, and the blocks in which one of them is changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tfn import dtypes
from tfn.compat.names import VERSION
from tfn.config import config as tfn_config
from tfn.config import launcher_variables
from tfn.errors import ArgumentError
from tfn.extend import traces
from tfn.numpy.indexing import STATIC_CHECKS
from tfn.numpy.updates import CUTS
from tfn.random.keys import set_default_generator
from tfn.scopes import named_scope
from tfn.transforms.disable import DISABLED

__version__ = VERSION
__version_info__ = tuple(map(int, VERSION.split(".")))

# fmt: off
DEFAULTS: dict[str, Any] = {
    "jax_enable_x64": False,
    "jax_disable_jit": False,
    "jax_debug_nans": False,
    "jax_debug_infs": False,
    "jax_debug_key_reuse": False,
    "jax_numpy_dtype_promotion": "standard",
    "jax_numpy_rank_promotion": "allow",
    "jax_default_matmul_precision": None,
    "jax_default_device": None,
    "jax_default_prng_impl": "threefry2x32",
    "jax_default_dtype_bits": "32",
    "jax_enable_checks": False,
    "jax_enable_custom_prng": False,
    "jax_check_static_indices": False,
    "jax_check_tracer_leaks": False,
    "jax_log_compiles": False,
    "jax_platform_name": "cpu",
    "jax_platforms": "cpu",
    "jax_threefry_partitionable": True,
    "jax_transfer_guard": "allow",
    "jax_transfer_guard_device_to_device": None,
    "jax_transfer_guard_device_to_host": None,
    "jax_transfer_guard_host_to_device": None,
    "jax_allow_f16_reductions": True,
    "jax_array_garbage_collection_guard": "allow",
    "jax_auto_pcast": True,
    "jax_explain_cache_misses": False,
    "jax_jax2tf_associative_scan_reductions": False,
    "jax_legacy_prng_key": "allow",
    "jax_no_execution": False,
    "jax_no_tracing": False,
    "jax_remove_size_one_mesh_axis_from_type": False,
    "jax_softmax_custom_jvp": True,
    "jax_thread_guard": False,
    "jax_traceback_filtering": "auto",
    "jax_num_cpu_devices": -1,
    "jax_compilation_cache_dir": None,
    "jax_include_full_tracebacks_in_locations": True,
    "jax_pmap_shmap_merge": True,
    "jax_use_direct_linearize": True,
}
"""The settings, and their values at first."""


def _key_reuse(value: object) -> None:
    tfn_config.key_reuse = not value


def _debug_nans(value: object) -> None:
    tfn_config.debug_nans = bool(value)


_INSTALLED: list[bool] = []


def as_in_jax() -> None:
    """Let settings say what they say in JAX, where tfn has another default.

    Without ``jax_enable_x64`` arrays have 32 bits at most; without ``jax_check_static_indices`` a
    known index outside its axis is moved to the border, or left out by a write; floats that are put
    into integers are cut.  Called once, by `install_as_jax`.
    """
    _INSTALLED.append(True)
    for name in ("jax_enable_x64", "jax_check_static_indices"):
        config.update(name, config.read(name))
    CUTS[:] = [True]


def from_environment() -> None:
    """Take the settings that variables of the environment give, ``JAX_ENABLE_X64=1`` as with JAX.

    Raises:
        ArgumentError: for a value that a setting cannot have.
    """
    names = {name.upper(): name for name in DEFAULTS}
    for variable, text in launcher_variables(names).items():
        name = names[variable]
        config.update(name, _parsed(variable, text, DEFAULTS[name]))


def flags_of_xla() -> None:
    """Heed the one flag of ``XLA_FLAGS`` that has a meaning here: the number of devices.

    A program sets it before its first use of JAX, which may be after the import; the last of
    several counts.  Numbers that are none are left to XLA's own complaint, of which there is none.
    """
    text = launcher_variables(["XLA_FLAGS"]).get("XLA_FLAGS", "")
    if text != _SEEN[0]:
        _SEEN[0] = text
        found = re.findall(r"--xla_force_host_platform_device_count=(\d+)(?!\S)", text)
        if found:
            _devices(int(found[-1]))


_SEEN = [""]
"""The text of XLA_FLAGS that has been heeded."""


def _parsed(variable: str, text: str, default: Any) -> Any:
    """The value of a text, of the type of the setting's default."""
    try:
        if isinstance(default, bool):
            return SWITCH[text.lower()]
        return int(text) if isinstance(default, int) else text
    except (KeyError, ValueError):
        raise ArgumentError(
            f"the environment variable {variable} cannot have this value",
            got=repr(text),
            hint=f"it is a setting like {default!r}",
        ) from None


SWITCH = dict.fromkeys(("1", "true", "yes", "on", "t", "y"), True) | dict.fromkeys(
    ("0", "false", "no", "off", "f", "n"), False
)
"""The texts of a switch, as JAX reads them."""


def _x64(value: object) -> None:
    dtypes.narrow_types(bool(_INSTALLED))
    tfn_config.x64 = bool(value)


def _static_indices(value: object) -> None:
    STATIC_CHECKS[:] = [bool(value) or not _INSTALLED]


def _devices(value: Any) -> None:
    if value > 0:
        tfn_config.devices = value


def _disable_jit(value: object) -> None:
    DISABLED[:] = [bool(value)]


def _promotion(value: object) -> None:
    dtypes.set_strict_promotion(value == "strict")


ACTIONS: dict[str, Callable[[Any], None]] = {
    "jax_check_static_indices": _static_indices,
    "jax_debug_key_reuse": _key_reuse,
    "jax_debug_nans": _debug_nans,
    "jax_default_prng_impl": set_default_generator,
    "jax_disable_jit": _disable_jit,
    "jax_enable_x64": _x64,
    "jax_num_cpu_devices": _devices,
    "jax_numpy_dtype_promotion": _promotion,
}
"""Settings that change something in tfn; the others are kept, and change nothing."""
# fmt: on


class Settings:
    """``jax.config``: settings that tfn has no use for are kept, and do nothing.

    ``jax_enable_x64`` makes 64 bits the default of Python numbers; without it, a process in which
    ``import jax`` means tfn has no wider types.  Keys may be used twice, unless
    ``jax_debug_key_reuse`` forbids it.
    """

    def __init__(self) -> None:
        vars(self).update(DEFAULTS)

    @property
    def jax_enable_x64(self) -> bool:
        """Whether Python numbers have 64 bits: ``tfn.config.x64``."""
        return tfn_config.x64

    def update(self, name: str, value: Any) -> None:
        """Change a setting."""
        setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        vars(self)[name] = value
        if name in ACTIONS:
            ACTIONS[name](value)

    def read(self, name: str) -> Any:
        """The value of a setting."""
        return getattr(self, name)

    @property
    def x64_enabled(self) -> bool:
        """Whether Python numbers have 64 bits."""
        return self.jax_enable_x64

    def config_with_absl(self) -> None:
        """Does nothing: settings are not read from the command line."""

    parse_flags_with_absl = config_with_absl


config = Settings()


class Block:
    """A setting as a block: ``with debug_nans(True): ...``; its value is ``debug_nans.value``."""

    def __init__(self, name: str, default: Any = None) -> None:
        self.name, self.default = name, default

    @property
    def value(self) -> Any:
        """The present value."""
        return config.read(self.name)

    @contextmanager
    def __call__(self, new_value: Any = True) -> Iterator[None]:
        """A block in which the setting has another value."""
        before = config.read(self.name)
        config.update(self.name, new_value)
        try:
            yield
        finally:
            config.update(self.name, before)


enable_x64 = Block("jax_enable_x64")
debug_nans = Block("jax_debug_nans")
debug_infs = Block("jax_debug_infs")
debug_key_reuse = Block("jax_debug_key_reuse")
numpy_dtype_promotion = Block("jax_numpy_dtype_promotion")
numpy_rank_promotion = Block("jax_numpy_rank_promotion")
default_matmul_precision = Block("jax_default_matmul_precision")
default_prng_impl = Block("jax_default_prng_impl")
enable_checks = Block("jax_enable_checks")
enable_custom_prng = Block("jax_enable_custom_prng")
check_tracer_leaks = checking_leaks = Block("jax_check_tracer_leaks")
log_compiles = Block("jax_log_compiles")
threefry_partitionable = Block("jax_threefry_partitionable")
transfer_guard = Block("jax_transfer_guard")
transfer_guard_device_to_device = Block("jax_transfer_guard_device_to_device")
transfer_guard_device_to_host = Block("jax_transfer_guard_device_to_host")
transfer_guard_host_to_device = Block("jax_transfer_guard_host_to_device")
allow_f16_reductions = Block("jax_allow_f16_reductions")
array_garbage_collection_guard = Block("jax_array_garbage_collection_guard")
auto_pcast = Block("jax_auto_pcast")
explain_cache_misses = Block("jax_explain_cache_misses")
jax2tf_associative_scan_reductions = Block("jax_jax2tf_associative_scan_reductions")
legacy_prng_key = Block("jax_legacy_prng_key")
no_execution = Block("jax_no_execution")
no_tracing = Block("jax_no_tracing")
remove_size_one_mesh_axis_from_type = Block("jax_remove_size_one_mesh_axis_from_type")
softmax_custom_jvp = Block("jax_softmax_custom_jvp")
thread_guard = Block("jax_thread_guard")


def disable_jit(disable: bool = True) -> AbstractContextManager[None]:
    """A block in which jitted functions run as Python."""
    return _DISABLE_JIT(disable)


_DISABLE_JIT = Block("jax_disable_jit")


@contextmanager
def ensure_compile_time_eval() -> Iterator[None]:
    """A block in which what does not depend on traced values is computed at once.

    Example:
        >>> import tfn
        >>> @tfn.jit
        ... def f(x):
        ...     with ensure_compile_time_eval():
        ...         return x + float(tfn.numpy.arange(3.0).sum())
        >>> float(f(1.0))
        4.0
    """
    with traces.outside_traces():
        yield


def named_call(fun: Callable[..., Any] | None = None, *, name: str | None = None) -> Any:
    """The function, whose operations are in a scope of its name."""
    if fun is None:
        return lambda f: named_call(f, name=name)
    return named_scope(str(name or getattr(fun, "__name__", repr(fun))))(fun)
