"""The only reader of the environment: at most eight knobs, read once at import.

Every knob that a pass reads is part of the key of what the pass makes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

_WATCHERS: list[Callable[[], None]] = []


def _cache_dir() -> Path:
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("TFN_CACHE_DIR") or Path(root) / "tfn")


@dataclass
class Config:
    """Settings of the process; assign to a field to change it.

    Attributes:
        device: name of the default device: ``cpu``, ``python`` or ``null`` (TFN_DEVICE).
        threads: worker threads of the CPU device; 0 means one per core (TFN_THREADS).
        cache_dir: folder of compiled objects (TFN_CACHE_DIR).
        disk_cache: whether compiled objects, and what `tune` has found, are kept on disk
            (TFN_DISK_CACHE).
        memory_limit_bytes: largest sum of live buffers, 0 for no limit (TFN_MEMORY_LIMIT).
        key_reuse: whether a random key may be used twice (TFN_KEY_REUSE).
        debug_nans: whether each result is searched for NaN, and the operation named that made the
            first (TFN_DEBUG_NANS).
        native_dispatch: calls through native builtins, else through ctypes (TFN_NATIVE_DISPATCH).
    """

    device: str = field(default_factory=lambda: os.environ.get("TFN_DEVICE", "cpu"))
    threads: int = field(default_factory=lambda: int(os.environ.get("TFN_THREADS", "0")))
    cache_dir: Path = field(default_factory=_cache_dir)
    disk_cache: bool = field(default_factory=lambda: os.environ.get("TFN_DISK_CACHE", "1") != "0")
    memory_limit_bytes: int = field(
        default_factory=lambda: int(os.environ.get("TFN_MEMORY_LIMIT", "0"))
    )
    key_reuse: bool = field(default_factory=lambda: os.environ.get("TFN_KEY_REUSE", "0") != "0")
    debug_nans: bool = field(default_factory=lambda: os.environ.get("TFN_DEBUG_NANS", "0") != "0")
    native_dispatch: bool = field(
        default_factory=lambda: os.environ.get("TFN_NATIVE_DISPATCH", "1") != "0"
    )

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in FIELDS:
            raise AttributeError(f"there is no setting {name!r}; settings are {', '.join(FIELDS)}")
        object.__setattr__(self, name, value)
        for watcher in _WATCHERS:
            watcher()


FIELDS = tuple(Config.__annotations__)
config = Config()


class _Settings(ModuleType):
    """This module, whose attributes are the settings, too: ``tfn.config.threads = 2``."""

    def __getattr__(self, name: str) -> Any:
        if name in FIELDS:
            return getattr(config, name)
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self) or name.startswith("__"):
            super().__setattr__(name, value)
        else:
            setattr(config, name, value)


sys.modules[__name__].__class__ = _Settings


def watch(watcher: Callable[[], None]) -> None:
    """Call a function now and after every change of `config`, for those who cannot read it."""
    _WATCHERS.append(watcher)
    watcher()
