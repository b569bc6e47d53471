"""Settings: read once, changed by assignment, and who is told."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tfn
from tfn import config as module
from tfn.config import FIELDS, SETTINGS, Config, config, watch
from tfn.errors import ArgumentError


def test_the_environment_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TFN_DEVICE", "null")
    monkeypatch.setenv("TFN_THREADS", "3")
    monkeypatch.setenv("TFN_DEVICES", "8")
    monkeypatch.setenv("TFN_MEMORY_LIMIT", "1000")
    monkeypatch.setenv("TFN_CACHE_LIMIT", "2000")
    monkeypatch.setenv("TFN_DISK_CACHE", "0")
    monkeypatch.setenv("TFN_CACHE_DIR", "/nowhere")
    read = Config()
    assert (read.device, read.threads, read.memory_limit_bytes) == ("null", 3, 1000)
    assert read.devices == 8
    assert read.cache_limit_bytes == 2000
    assert not read.disk_cache and str(read.cache_dir) == "/nowhere"
    assert len(Config.__dataclass_fields__) <= 12


WRONG = {
    "device": [3, None],
    "devices": ["0", "many", 0, 4097, None],
    "target": [3, None],
    "threads": ["abc", "-1", "1.5", "4097", -1, 1.5, True, None],
    "cache_dir": ["a\0b", 3, None],
    "disk_cache": ["2", "maybe", 2, None],
    "memory_limit_bytes": ["1G", "-1", str(1 << 63), -1, None],
    "batch_invariant": ["y", 2, None],
    "key_reuse": ["y", 0.5],
    "debug_nans": ["-1", "nan"],
    "x64": ["64", None],
    "cache_limit_bytes": ["-1", "x"],
}
RIGHT = {
    "device": [("python", "python")],
    "devices": [("8", 8), (2, 2), ("", 1)],
    "target": [("host", "host"), ("", "host")],
    "threads": [("7", 7), (" 7 ", 7), (np.int32(7), 7), ("", 0)],
    "cache_dir": [("/a", Path("/a")), ("b", Path.cwd() / "b"), (Path("/c"), Path("/c"))],
    "disk_cache": [("0", False), ("False", False), ("no", False), ("off", False), (0, False)],
    "memory_limit_bytes": [("1000", 1000), (1 << 40, 1 << 40)],
    "batch_invariant": [("1", True), ("", False), (False, False)],
    "key_reuse": [("1", True), ("TRUE", True), ("yes", True), ("on", True), (1, True)],
    "debug_nans": [("", False)],
    "x64": [("1", True), ("", False), (0, False)],
    "cache_limit_bytes": [("", 512 << 20)],
}


def test_every_setting_is_tested() -> None:
    assert set(WRONG) == set(RIGHT) == set(FIELDS) == set(SETTINGS)


@pytest.mark.parametrize(("name", "value"), [(k, v) for k, values in WRONG.items() for v in values])
def test_a_value_that_a_setting_cannot_have(
    name: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = re.escape(SETTINGS[name].allowed)
    with pytest.raises(ArgumentError, match=rf"config\.{name} cannot have .*\s.*\s.*\s.*{allowed}"):
        setattr(Config(), name, value)
    if isinstance(value, str) and "\0" not in value:  # which no environment can hold
        variable = SETTINGS[name].variable
        monkeypatch.setenv(variable, value)
        with pytest.raises(
            ArgumentError, match=f"variable {variable} cannot .*\\s.*\\s.*{allowed}"
        ):
            Config()


@pytest.mark.parametrize(("name", "case"), [(k, v) for k, cases in RIGHT.items() for v in cases])
def test_a_value_that_a_setting_can_have(
    name: str, case: tuple[object, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    given, wanted = case
    read = Config()
    if given != "":
        setattr(read, name, given)
        assert getattr(read, name) == wanted and type(getattr(read, name)) is type(wanted)
    if isinstance(given, str):
        monkeypatch.setenv(SETTINGS[name].variable, given)
        assert getattr(Config(), name) == wanted


def test_an_import_says_which_variable_is_wrong() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import tfn"],
        capture_output=True,
        text=True,
        env=os.environ | {"TFN_THREADS": "abc"},
        timeout=60,
    )
    assert done.stderr.endswith(
        "tfn.errors.ArgumentError: the environment variable TFN_THREADS cannot have this value\n"
        "  got: 'abc'\n  hint: it is a number from 0, for one per core, to 4096\n"
    )


def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TFN_CACHE_DIR", raising=False)
    for home, given, wanted in (
        ("/home/a", None, "/home/a/.cache/tfn"),
        ("/home/a", "/caches", "/caches/tfn"),
        ("/home/a", "relative", "/home/a/.cache/tfn"),  # which the specification says to ignore
    ):
        monkeypatch.setenv("HOME", home)
        monkeypatch.setenv("XDG_CACHE_HOME", given or "")
        assert str(Config().cache_dir) == wanted
    monkeypatch.setattr(Path, "home", _unknown)
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert str(Config().cache_dir) == f"/tmp/tfn-{os.getuid()}"


def _unknown() -> Path:
    raise RuntimeError("Could not determine home directory.")


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
        with pytest.raises(AttributeError, match="no setting 'threds'; settings are device, dev"):
            settings.threds = 2
    with pytest.raises(AttributeError, match=r"'tfn\.config' has no attribute 'threds'"):
        tfn.config.threds  # noqa: B018


def test_import_loads_no_compiler() -> None:
    code = "import sys, tfn; assert not {'llvmlite', 'z3'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
