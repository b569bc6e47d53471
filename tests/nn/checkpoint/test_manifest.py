"""Manifests: read as they were written, and refused with any other byte or field."""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import pytest

from tfn import numpy as jnp
from tfn import random
from tfn.errors import DamagedError, StateError, TfnError
from tfn.nn import state
from tfn.nn.checkpoint import Checkpoints, read
from tfn.nn.checkpoint.manifest import BLANK, NAME, decode, encode, values


@pytest.fixture
def raw(tmp_path: Path) -> bytes:
    tree = {"w": jnp.ones((2, 3)), "n": 3, "rate": math.inf, "on": True, "key": random.key(5)}
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(7, tree, metadata={"a": '\n "sha256": "0"'})
    return (checkpoints.path(7) / NAME).read_bytes()


def test_what_is_written_is_read(raw: bytes) -> None:
    manifest = decode("m", raw)
    assert encode(manifest) == raw
    assert manifest.numbers == {"n": 3, "on": True, "rate": math.inf}
    assert manifest.numbers["on"] is True
    assert manifest.keys == {"key.0": ((2,), (0, 5))}
    assert values(manifest)["key.0"].tolist() == [0, 5]
    assert math.isnan(decode("m", encode(manifest._replace(numbers={"x": math.nan}))).numbers["x"])


def test_every_other_byte_is_refused(raw: bytes) -> None:
    for at in range(len(raw)):
        for bit in (1, 0x20, 0x80):
            with pytest.raises(DamagedError):
                decode("m", raw[:at] + bytes([raw[at] ^ bit]) + raw[at + 1 :])
        with pytest.raises(DamagedError):
            decode("m", raw[:at])


def sealed(record: Any) -> bytes:
    """A manifest under a right digest, as anybody can write one."""
    record = {"format": record["format"], "version": record["version"], "sha256": BLANK} | {
        name: x for name, x in record.items() if name not in ("format", "version", "sha256")
    }
    raw = json.dumps(record, indent=1).encode()
    return raw.replace(BLANK.encode(), hashlib.sha256(raw).hexdigest().encode(), 1)


def places(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """The paths of all values in a record."""
    yield path
    if isinstance(value, (dict, list)):
        for name, x in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(x, (*path, name))


OTHERS = (None, -1, 2**70, 1.5, True, "", "../a.safetensors", "x" * 200, [], {}, [1, 2, 3], [[[]]])


def test_any_other_field_under_a_right_digest_is_an_error_of_tfn_or_a_manifest(raw: bytes) -> None:
    record = json.loads(raw)
    assert decode("m", sealed(record)) == decode("m", raw)
    refused = 0
    for path in places(record):
        if not path or path[0] in ("format", "sha256"):
            continue
        for other in OTHERS:
            changed = json.loads(raw)
            place = changed
            for name in path[:-1]:
                place = place[name]
            place[path[-1]] = other
            try:
                decode("m", sealed(changed))
            except TfnError:
                refused += 1
    assert refused > 300


def test_one_of_a_later_version_says_so(raw: bytes) -> None:
    record = json.loads(raw) | {"version": 2}
    with pytest.raises(StateError, match="another version of tfn") as caught:
        decode("m", sealed(record))
    assert not isinstance(caught.value, DamagedError)


def test_pieces_that_do_not_make_up_an_array(raw: bytes) -> None:
    for change in (
        {"start": [1, 0]},  # beyond the end
        {"shape": [1, 3]},  # a hole
        {"shape": [2]},
        {"file": 1},
    ):
        record = json.loads(raw)
        record["arrays"]["w"]["pieces"][0] |= change
        with pytest.raises(DamagedError):
            decode("m", sealed(record))


def test_single_files_have_one_too(tmp_path: Path) -> None:
    state.save(
        tmp_path / "a.safetensors", {"w": jnp.ones((2, 3))}, metadata={"step": "x", "a": "b"}
    )
    manifest = read(tmp_path / "a.safetensors")
    assert (manifest.step, manifest.metadata, manifest.hosts) == (None, {"a": "b"}, 1)
    assert manifest.arrays["w"].pieces[0].shape == (2, 3)
    for content in (b"", b"text", b"\xff" * 100):
        (tmp_path / "b.safetensors").write_bytes(content)
        with pytest.raises(DamagedError):
            read(tmp_path / "b.safetensors")
    with pytest.raises(DamagedError, match="without manifest"):
        read(tmp_path)
