"""Static fields beside arrays: their texts, and templates that have other ones."""

from __future__ import annotations

import enum
import functools
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import tfn
from tests.covering import together
from tfn import nn, random, tree
from tfn import numpy as jnp
from tfn.errors import ArgumentError, DamagedError, StateError
from tfn.experimental.sparse import BCOO
from tfn.nn import checkpoint, fields, quantize, state
from tfn.nn.checkpoint import Checkpoints, manifest


class Color(enum.IntEnum):
    RED = 1


class Point(NamedTuple):
    x: int
    y: Any


@dataclass(frozen=True)
class Options:
    name: str
    sizes: tuple[int, ...]


@nn.module
class Network:
    """A part with arrays, one without, and fields of its own."""

    encoder: nn.MLP
    drop: nn.Dropout
    heads: int = nn.static(default=2)
    note: Any = nn.static(default=None)
    seen: int = nn.static(default=0, compared=False)


def network(activation: Callable[[Any], Any] = nn.relu, **options: Any) -> Network:
    encoder = nn.MLP.init(random.key(0), (2, 3, 1), activation=activation)
    return Network(encoder, nn.Dropout(options.pop("rate", 0.5)), **options)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.safetensors"


def local(x: Any) -> Any:
    return x


TEXTS: list[tuple[Any, str]] = [
    (None, "None"),
    (True, "True"),
    (np.int8(7), "7"),
    (np.float32(0.5), "0.5"),
    (8.0, "8"),
    (-0.0, "0"),
    (1e300, "1e+300"),
    (float("nan"), "nan"),
    (2j, "2j"),
    ("a\x1b\u00e9", "'a\\x1b\\xe9'"),
    (b"x", "b'x'"),
    (Color.RED, "Color.RED"),
    (np.dtype(ml_dtypes.bfloat16), "bfloat16"),
    (np.float16, "float16"),
    ((), "()"),
    ((1, [2, None]), "(1, (2, None))"),
    (frozenset(("b", "a")), "{'a', 'b'}"),
    ({"b": 1, "a": local}, "{'a': local, 'b': 1}"),
    (slice(1, None), "slice(1, None, None)"),
    (range(3), "range(0, 3, 1)"),
    (Point(1, (2,)), "Point(x=1, y=(2))"),
    (Options("a", (1, 2)), "Options(name='a', sizes=(1, 2))"),
    (functools.partial(nn.leaky_relu, negative_slope=0.1),
     "partial(leaky_relu, (), {'negative_slope': 0.1})"),
    (nn.relu, "relu"),
    (jnp.tanh, "tanh"),
    (np.tanh, "tanh"),
    (tfn.checkpoint_policies.dots_saveable, "dots_saveable"),
    (lambda x: x, "? a function without a name of its own"),
    (functools.partial(lambda x: x), "? a function without a name of its own"),
    (object(), "? an object of the class object"),
    ({"a": [object()]}, "? an object of the class object"),
    (nn.Dropout().__call__, "? an object of the class method"),
    (np.ones(2), "? an object of the class ndarray"),
    (nn.Lambda(nn.relu), "? an object of the class Lambda"),
    (functools.reduce(lambda inner, _: (inner,), range(50), ()), "? of too many parts"),
    (tuple(range(200_000)), "? of too many parts"),
]  # fmt: skip


@together("value, said", TEXTS)
def test_the_text_of_a_value_is_the_same_everywhere(value: Any, said: str) -> None:
    assert fields.text(value) == said


def test_a_long_text_ends_in_its_digest() -> None:
    first, second = fields.text(tuple(range(500))), fields.text((*range(499), 0))
    assert first[:200] == second[:200] and first != second
    assert max(len(first), len(second)) < 250


def test_static_fields_are_texts_beside_the_arrays(path: Path) -> None:
    state.save(path, {"net": network(note=object())}, metadata={"who": "we"})
    texts = state.metadata(path)
    assert texts["who"] == "we"
    assert json.loads(texts["tfn_static"]) == {
        "net.heads": "2",
        "net.note": "? an object of the class object",
        "net.seen": "0",
        "net.encoder.activation": "relu",
        "net.drop.rate": "0.5",
        "net.drop.inference": "False",
    }
    assert load_file(path)["net.encoder.layers.0.bias"].shape == (3,)  # other libraries read it
    state.save(path, {"w": 1}, metadata=texts)
    assert "tfn_static" not in state.metadata(path)  # which were those of another tree


def test_a_template_with_other_static_fields_is_refused(path: Path) -> None:
    state.save(path, network(heads=4))
    with pytest.raises(
        StateError,
        match=r"(?s)does not fit the template.*heads is 4 in the file, 2 in the template; "
        r"encoder.activation is relu in the file, gelu in the template.*static=.ignore",
    ):
        state.load(path, network(nn.gelu))
    loaded = state.load(path, network(nn.gelu), static="ignore")
    assert (loaded.heads, loaded.encoder.activation) == (2, nn.gelu)  # the template says it
    with pytest.raises(ArgumentError, match="static"):
        state.load(path, network(), static="chekc")  # type: ignore[arg-type]


SAME: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "equal": ({}, {}),
    "equal numbers": ({"heads": 2}, {"heads": np.int64(2)}),
    "fields of training": ({"rate": 0.5}, {"rate": 0.0}),
    "fields that are not compared": ({"seen": 1}, {"seen": 2}),
    "values without a text": ({"note": object()}, {"note": object()}),
    "a value without a text in the template": ({"note": 1}, {"note": object()}),
    "functions without names": ({"activation": lambda x: x}, {"activation": lambda x: -x}),
}


@pytest.mark.parametrize("name", SAME)
def test_differences_that_do_not_matter_are_none(name: str, path: Path) -> None:
    saved, template = SAME[name]
    state.save(path, network(**saved))
    state.load(path, network(**template))


def quantized(bits: int) -> Any:
    return {"q": quantize.symmetric(jnp.ones((3, 4)), 0, bits), "w": jnp.zeros(3, "int8")}


def sparse(shape: tuple[int, ...]) -> BCOO:
    return BCOO((jnp.ones(2), jnp.zeros((2, 2), "int32")), shape=shape)


OTHER: dict[str, tuple[Any, Any, str]] = {
    "bits": (quantized(4), quantized(8), "q.bits is 4 in the file, 8"),
    "an activation": (network(), network(nn.gelu), "encoder.activation is relu"),
    "the shape of a sparse matrix": (
        sparse((3, 4)), sparse((4, 3)), r"structure is \(\(3, 4\)"),
    "strides": (
        nn.Conv2d.init(random.key(0), 1, 2, 3), nn.Conv2d.init(random.key(0), 1, 2, 3, strides=2),
        r"steps is ...*strides=\(1, 1"),
    "a long value": (
        network(note=(*range(499), 0)), network(note=tuple(range(500))), "note is .*sha256"),
    "a module of a list": (
        [nn.Lambda(nn.relu)], [nn.Lambda(nn.tanh)], "0.function is relu in the file, tanh"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHER)
@pytest.mark.parametrize("way", ["file", "checkpoint", "converted file", "converted checkpoint"])
def test_every_way_back_compares(name: str, way: str, path: Path) -> None:
    saved, template, said = OTHER[name]
    checkpoints = Checkpoints(path.parent / "run")
    checkpoints.save(3, saved)
    if way == "file":
        state.save(path, saved)
    else:
        checkpoint.to_file(checkpoints.path(3), path)
    if way == "converted checkpoint":
        checkpoints.clear()
        checkpoint.to_checkpoint(path, checkpoints.folder)
    readers: list[Any] = [state.load, checkpoint.load]
    if "checkpoint" in way:
        readers = [
            lambda _, like, **options: checkpoint.load(checkpoints.path(3), like, **options),
            lambda _, like, **options: checkpoints.restore(like, **options),
            lambda _, like, **options: checkpoints.restore(like, step=3, **options),
            lambda _, like, **options: checkpoints.resume(like, **options),
        ]
    for read in readers:
        read(path, saved)
        with pytest.raises(StateError, match=said):
            read(path, template)
        read(path, template, static="ignore")


def test_a_part_is_compared_as_far_as_it_goes(path: Path) -> None:
    state.save(path, {"model": network(heads=4), "q": quantized(4)["q"]})
    state.load(path, network(heads=2), only="encoder.*", at="model")
    with pytest.raises(StateError, match="heads is 4"):
        state.load(path, network(heads=2), at="model")
    with pytest.raises(StateError, match="activation is relu"):
        state.load(path, network(nn.gelu), only="encoder.*", at="model")
    with pytest.raises(StateError, match="bits is 4"):  # the node that owns what is read
        state.load(path, quantized(8), only="q.scale")
    state.load(path, {"q": quantized(8)["q"], "model": network()}, only="model.encoder.*")


def test_files_without_a_record_are_loaded(path: Path) -> None:
    net = network()
    arrays = {n: np.asarray(x) for n, x in zip(state.names(net), tree.leaves(net), strict=True)}
    save_file(arrays, path)
    assert state.load(path, network(nn.gelu)).encoder.activation is nn.gelu
    state.save(path, arrays)  # a dict of arrays has no fields
    assert state.load(path, network(nn.gelu)).encoder.activation is nn.gelu
    state.save(path, net)
    assert state.load(path, dict.fromkeys(arrays, 0.0) | arrays).keys() == arrays.keys()


@pytest.mark.parametrize(
    "said", ["", "{", "[]", "3", '{"heads": 4}', '{"a": "1", "a": "2"}', "[" * 9**5, '{"a": null}'],
    ids=lambda said: said[:10],
)  # fmt: skip
def test_a_record_that_is_none_is_refused(said: str, path: Path) -> None:
    net = network()
    arrays = {n: np.asarray(x) for n, x in zip(state.names(net), tree.leaves(net), strict=True)}
    save_file(arrays, path, {"tfn_static": said})
    with pytest.raises(StateError, match="no file with static fields"):
        state.load(path, net)
    state.load(path, net, static="ignore")
    with pytest.raises(DamagedError, match="no file with static fields"):
        checkpoint.load(path, net)


def test_texts_from_outside_are_shown_short_and_printable(path: Path) -> None:
    net = network()
    arrays = {n: np.asarray(x) for n, x in zip(state.names(net), tree.leaves(net), strict=True)}
    save_file(arrays, path, {"tfn_static": json.dumps({"heads": "\x1b[2J" + "x" * 10**6})})
    with pytest.raises(StateError) as caught:
        state.load(path, net)
    assert len(str(caught.value)) < 1000
    assert "\x1b" not in str(caught.value)


def test_a_record_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fields, "LIMIT_CHARACTERS", 200)
    found = fields.record([nn.Lambda(nn.relu) for _ in range(20)])
    assert found.pop("") == "? 11 more are left out"
    assert len(found) == 9 and len(json.dumps(found)) < 400
    assert [*fields.differences(found, [nn.Lambda(nn.gelu)], ())] == [
        "0.function is relu in the file, gelu in the template"
    ]


def test_two_fields_of_one_name_are_not_compared() -> None:
    both = {"a.b": nn.Lambda(nn.relu), "a": {"b": nn.Lambda(nn.gelu)}}
    assert fields.record(both) == {"a.b.function": "? several fields have this name"}


def test_a_checkpoint_of_before_has_no_static_fields() -> None:
    raw = manifest.encode(manifest.empty(3, "")._replace(static={"heads": "4"}))
    assert manifest.decode("m.json", raw).static == {"heads": "4"}
    lines = [line for line in raw.splitlines(keepends=True) if b"heads" not in line]
    before = b"".join(lines).replace(b' "static": {\n },\n', b"")
    before = re.sub(b'"sha256": "[^"]*"', b'"sha256": "' + b"0" * 64 + b'"', before)
    before = before.replace(b"0" * 64, hashlib.sha256(before).hexdigest().encode())
    assert manifest.decode("m.json", before).static == {}
