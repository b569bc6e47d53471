"""Settings of the process: at most twelve, the only readers of environment variables.

Every setting that a pass reads is part of the cache key of its results.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from operator import index
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from tfn.errors import ArgumentError

_WATCHERS: list[Callable[[], None]] = []
_WORDS = {
    "0": False,
    "false": False,
    "no": False,
    "off": False,
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
}
MOST_THREADS = 4096
MOST_DEVICES = 4096
MOST_BYTES = (1 << 63) - 1  # native code counts in 64 bits


def _name(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _count(value: Any, most: int) -> int:
    number = int(value) if isinstance(value, str) else index(value)
    if isinstance(value, bool) or not 0 <= number <= most:
        raise ValueError
    return number


def _positive(value: Any, most: int) -> int:
    number = _count(value, most)
    if not number:
        raise ValueError
    return number


def _switch(value: object) -> bool:
    if isinstance(value, str):
        return _WORDS[value.lower()]
    if value not in (0, 1):
        raise ValueError
    return bool(value)


def _folder(value: Any) -> Path:
    path = _own_folder() if value == "" else Path(value)
    if "\0" in str(path):
        raise ValueError
    return path.absolute()  # or it would move with the working folder


def _own_folder() -> Path:
    """The default folder of caches of this user.

    Source: XDG Base Directory Specification, version 0.8.
    """
    root = Path(os.environ.get("XDG_CACHE_HOME") or "-")
    try:
        return (root if root.is_absolute() else Path.home() / ".cache") / "tfn"
    except RuntimeError:  # a user whom the system does not know
        return Path(f"/tmp/tfn-{os.getuid()}")


class Setting(NamedTuple):
    """A setting: its source, its default and its values.

    Attributes:
        variable: of the environment.
        default: the text to use if the variable is not set, or empty.
        take: the value of a text, or of an assigned object; raises if it is not allowed.
        allowed: the allowed values, in words.
    """

    variable: str
    default: str
    take: Callable[[Any], Any]
    allowed: str


_SWITCHED = "on or off: 1, true, yes, on, or 0, false, no, off"
# fmt: off
SETTINGS: dict[str, Setting] = {
    "device":             Setting("TFN_DEVICE", "cpu", _name, "the name of a device"),
    "devices":            Setting("TFN_DEVICES", "1", partial(_positive, most=MOST_DEVICES),
                                  f"a number from 1 to {MOST_DEVICES}"),
    "target":             Setting("TFN_TARGET", "host", _name,
                                  "host, or the name of a processor"),
    "threads":            Setting("TFN_THREADS", "0", partial(_count, most=MOST_THREADS),
                                  f"a number from 0, for one per core, to {MOST_THREADS}"),
    "cache_dir":          Setting("TFN_CACHE_DIR", "", _folder, "the path of a folder"),
    "disk_cache":         Setting("TFN_DISK_CACHE", "1", _switch, _SWITCHED),
    "memory_limit_bytes": Setting("TFN_MEMORY_LIMIT", "0", partial(_count, most=MOST_BYTES),
                                  "a number of bytes, 0 for no limit"),
    "batch_invariant":    Setting("TFN_BATCH_INVARIANT", "0", _switch, _SWITCHED),
    "key_reuse":          Setting("TFN_KEY_REUSE", "0", _switch, _SWITCHED),
    "debug_nans":         Setting("TFN_DEBUG_NANS", "0", _switch, _SWITCHED),
    "x64":                Setting("TFN_X64", "0", _switch, _SWITCHED),
    "cache_limit_bytes":  Setting("TFN_CACHE_LIMIT", str(512 << 20),
                                  partial(_count, most=MOST_BYTES), "a number of bytes"),
}
# fmt: on


def launcher_variables(names: Iterable[str]) -> dict[str, str]:
    """The variables of the environment, among some, that are set: by a launcher, or for JAX."""
    return {name: os.environ[name] for name in names if os.environ.get(name)}


def child_environment(**variables: str) -> dict[str, str]:
    """The environment of a process that is started for a job: this one's, and some variables.

    What Open MPI has told this process about itself is left out.
    """
    own = {name: text for name, text in os.environ.items() if not name.startswith("OMPI_")}
    return {**own, **variables}


def default_variables(**variables: str) -> None:
    """Set variables of the environment that are not set: a package reads them when it loads."""
    for name, text in variables.items():
        os.environ.setdefault(name, text)


def _checked(name: str, value: object, what: str, where: str | None = None) -> Any:
    try:
        return SETTINGS[name].take(value)
    except (ValueError, TypeError, KeyError, OSError):
        raise ArgumentError(
            f"{what} cannot have this value",
            got=repr(value),
            where=where,
            hint=f"it is {SETTINGS[name].allowed}",
        ) from None


def _environment(name: str) -> Any:
    variable, default = SETTINGS[name][:2]
    text = os.environ.get(variable) or default
    return _checked(name, text, f"the environment variable {variable}", where="")


@dataclass
class Config:
    """Settings of the process; assign to a field to change it.

    Raises:
        ArgumentError: for a value, or a variable of the environment, that a setting cannot have.

    Attributes:
        device: name of the default device: ``cpu``, ``cuda``, ``opencl``, ``dsp``, ``python`` or
            ``null``; ``cpu-debug`` is the CPU with memory that shows who writes beside an array or
            after its end, ``cuda-debug`` a GPU whose kernels are waited for one by one, so that a
            fault has a name (TFN_DEVICE).
        devices: the number of devices of this process: they share its memory and its threads, and
            a mesh divides arrays among them (TFN_DEVICES).
        target: the processor that the CPU device compiles for: ``host`` is this machine's; an older
            one that it can stand for, such as ``x86-64-v3``, gives programs the code, and the bits,
            that they have there (TFN_TARGET).  It is chosen before the first program.
        threads: worker threads of the CPU device; 0 means one per core (TFN_THREADS).
        cache_dir: folder of compiled objects (TFN_CACHE_DIR).  It is used only if it belongs to
            the user and no other user may write to it: its objects are executed.
        disk_cache: whether compiled objects, and what `tune` has found, are kept on disk
            (TFN_DISK_CACHE).
        memory_limit_bytes: largest sum of live buffers, 0 for no limit (TFN_MEMORY_LIMIT).
        batch_invariant: whether the order in which a sum is added on a processor follows from the
            lengths of that sum alone, so that a row has the same bits in any batch, and a part on
            any mesh (TFN_BATCH_INVARIANT).
        key_reuse: whether a random key may be used twice (TFN_KEY_REUSE).
        debug_nans: whether each result is searched for NaN, and the operation named that made the
            first (TFN_DEBUG_NANS).
        x64: whether numbers of Python, indices, and results whose dtype nothing says, have 64 bits
            instead of 32; random numbers are then those of JAX with ``jax_enable_x64`` (TFN_X64).
        cache_limit_bytes: memory of cached programs, kernels and traces, 0 for no limit; the least
            recently used are dropped (TFN_CACHE_LIMIT).
    """

    device: str = field(default_factory=partial(_environment, "device"))
    devices: int = field(default_factory=partial(_environment, "devices"))
    target: str = field(default_factory=partial(_environment, "target"))
    threads: int = field(default_factory=partial(_environment, "threads"))
    cache_dir: Path = field(default_factory=partial(_environment, "cache_dir"))
    disk_cache: bool = field(default_factory=partial(_environment, "disk_cache"))
    memory_limit_bytes: int = field(default_factory=partial(_environment, "memory_limit_bytes"))
    batch_invariant: bool = field(default_factory=partial(_environment, "batch_invariant"))
    key_reuse: bool = field(default_factory=partial(_environment, "key_reuse"))
    debug_nans: bool = field(default_factory=partial(_environment, "debug_nans"))
    x64: bool = field(default_factory=partial(_environment, "x64"))
    cache_limit_bytes: int = field(default_factory=partial(_environment, "cache_limit_bytes"))

    def __setattr__(self, name: str, value: object) -> None:
        if name not in FIELDS:
            raise AttributeError(f"there is no setting {name!r}; settings are {', '.join(FIELDS)}")
        object.__setattr__(self, name, _checked(name, value, f"config.{name}"))
        for watcher in _WATCHERS:
            watcher()


_MOST = {"threads": (1 << 15) - 1, "memory_limit_bytes": (1 << 63) - 1}
"""The largest values of settings that native code reads as numbers."""

FIELDS = tuple(Config.__annotations__)
config = Config()


class _Settings(ModuleType):
    """This module, whose attributes are the settings, too: ``tfn.config.threads = 2``."""

    def __getattr__(self, name: str) -> Any:
        if name in FIELDS:
            return getattr(config, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        if name in vars(self) or name.startswith("__"):
            super().__setattr__(name, value)
        else:
            setattr(config, name, value)


sys.modules[__name__].__class__ = _Settings


def watch(watcher: Callable[[], None]) -> None:
    """Call a function now and after every change of `config`, to pass it on to native code."""
    _WATCHERS.append(watcher)
    watcher()
