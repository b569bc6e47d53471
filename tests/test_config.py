"""Settings: read once, changed by assignment, and who is told."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tfn
from tfn import config as module
from tfn.config import Config, config, watch


def test_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFN_DEVICE", "null")
    monkeypatch.setenv("TFN_THREADS", "3")
    monkeypatch.setenv("TFN_MEMORY_LIMIT", "1000")
    monkeypatch.setenv("TFN_NATIVE_DISPATCH", "0")
    monkeypatch.setenv("TFN_DISK_CACHE", "0")
    monkeypatch.setenv("TFN_CACHE_DIR", "/nowhere")
    read = Config()
    assert (read.device, read.threads, read.memory_limit_bytes) == ("null", 3, 1000)
    assert not read.native_dispatch and not read.disk_cache and str(read.cache_dir) == "/nowhere"
    assert len(Config.__dataclass_fields__) <= 8


def test_watchers_are_told_at_once_and_after_each_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_WATCHERS", [])
    seen: list[int] = []
    watch(lambda: seen.append(config.memory_limit_bytes))
    monkeypatch.setattr(config, "memory_limit_bytes", 5)
    config.memory_limit_bytes = 7
    assert seen[1:] == [5, 7]


def test_the_module_is_its_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that is misspelt is an error, not an attribute that nobody reads."""
    monkeypatch.setattr(config, "key_reuse", False)
    assert tfn.config.key_reuse is False
    tfn.config.key_reuse = True
    assert config.key_reuse is True and "key_reuse" not in vars(tfn.config)
    for settings in (config, tfn.config):
        with pytest.raises(AttributeError, match="no setting 'threds'; settings are device, thr"):
            settings.threds = 2
    with pytest.raises(AttributeError, match=r"'tfn\.config' has no attribute 'threds'"):
        tfn.config.threds  # noqa: B018


def test_import_loads_no_compiler() -> None:
    code = "import sys, tfn; assert not {'llvmlite', 'z3'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
