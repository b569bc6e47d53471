"""Files of arrays: what comes back, that nothing is copied, and what is said of bad files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import tfn
from tfn import nn, random, tree
from tfn import numpy as jnp
from tfn.dtypes import ALL
from tfn.errors import ArgumentError, StateError
from tfn.nn import optim, safetensors, state

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.safetensors"


def same(a: Any, b: Any) -> None:
    assert tree.structure(a) == tree.structure(b)
    for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True):
        assert type(x) is type(y)
        x, y = np.asarray(x), np.asarray(y)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        assert x.tobytes() == y.tobytes()


def test_a_model_and_its_optimizer(path: Path) -> None:
    model = nn.MLP.init(random.key(0), (5, 7, 3))
    optimizer = optim.chain(optim.clip_by_global_norm(1.0), optim.adam(1e-3))
    whole = {
        "model": model,
        "optimizer": optimizer.init(model),
        "key": random.key(3),
        "step": 7,
        "rate": 0.25,
        "done": False,
        "nothing": None,
    }
    state.save(path, whole)
    same(state.load(path, whole), whole)
    first = state.names(whole)[:4]
    assert first == ["done", "key.0", "model.layers.0.weight", "model.layers.0.bias"]
    shapes = tfn.eval_shape(lambda: model)
    state.save(path, model)
    same(state.load(path, shapes), model)


@pytest.mark.parametrize("dtype", sorted(ALL, key=str), ids=lambda d: d.name)
def test_every_dtype(dtype: Any, path: Path) -> None:
    values = np.array([0, 1, 2, 77, 0, 5], np.uint8).reshape(2, 3)
    whole = {
        "x": jnp.asarray(values.astype(dtype)),
        "scalar": jnp.asarray(values[1, 2], dtype),
        "none": jnp.zeros((0, 3), dtype),
    }
    state.save(path, whole)
    same(state.load(path), whole)


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_eight_bit_floats_are_kept_for_numpy(dtype: Any, path: Path) -> None:
    x = np.array([1.5, -0.25, 0.0]).astype(dtype)
    state.save(path, {"x": x})
    same(state.mapped(path), {"x": x})
    same(state.load(path, {"x": x}), {"x": x})


def test_other_libraries_read_it_and_are_read(path: Path) -> None:
    arrays = {
        "a.b": np.arange(6.0).reshape(2, 3),
        "c": np.arange(5, dtype=np.int8),
        "d": np.zeros((0, 2), np.float32),
        "e": np.full((), 3, np.float32),
    }
    save_file(arrays, path, {"who": "they"})
    assert {name: x.tolist() for name, x in state.load(path).items()} == {
        name: x.tolist() for name, x in arrays.items()
    }
    assert state.metadata(path) == {"who": "they"}
    state.save(path, arrays, metadata={"who": "we"})
    assert {name: x.tolist() for name, x in load_file(path).items()} == {
        name: x.tolist() for name, x in arrays.items()
    }
    assert state.metadata(path)["who"] == "we"


def test_several_files_and_their_index(tmp_path: Path) -> None:
    save_file({"a": np.ones(3, np.float32), "b": np.zeros(2, np.int8)}, tmp_path / "1.safetensors")
    save_file({"c": np.full(4, 7.0)}, tmp_path / "2.safetensors")
    places = {"a": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors"}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": places}))
    assert {name: x.tolist() for name, x in state.load(index).items()} == {
        "a": [1, 1, 1],
        "b": [0, 0],
        "c": [7] * 4,
    }
    assert state.load(index, {"a": jnp.zeros(3), "b": np.zeros(2, np.int8), "c": np.zeros(4)})
    for bad in (
        "{",
        "[]",
        '{"weight_map": 3}',
        '{"weight_map": {"z": "2.safetensors"}}',
        '{"weight_map": {"c": "../2.safetensors"}}',
        '{"weight_map": {"c": 2}}',
        "[" * 9**5,
        f'{{"weight_map": {{"c": "{index.name}"}}}}',
    ):
        index.write_text(bad)
        with pytest.raises(StateError, match="no index of the arrays"):
            state.load(index)
    (tmp_path / "2.safetensors").write_bytes(b"short")
    index.write_text(json.dumps({"weight_map": places}))
    with pytest.raises(StateError, match="no whole safetensors file"):
        state.load(index)


def test_loaded_arrays_do_not_depend_on_the_file(path: Path) -> None:
    """A page of a mapped file that is gone ends the process."""
    x = np.arange(100_000.0)
    state.save(path, {"x": x})
    loaded, as_numpy = state.load(path)["x"], state.load(path, {"x": x})["x"]
    os.truncate(path, 0)
    np.testing.assert_array_equal(loaded, x)
    np.testing.assert_array_equal(as_numpy, x)
    # Read into place, not copied.
    assert np.asarray(loaded).ctypes.data % safetensors.ALIGNMENT == 0
    with pytest.raises(StateError, match="no whole safetensors file"):
        state.mapped(path)


def test_the_file_may_be_replaced_and_what_was_loaded_donated(path: Path) -> None:
    x = jnp.arange(1000.0)
    state.save(path, {"x": x})
    old = state.load(path)["x"]
    state.save(path, {"x": x * 2})
    new = state.load(path)["x"]
    bump = tfn.jit(lambda x: x + 1, donate_argnums=0)
    np.testing.assert_array_equal(bump(old), np.arange(1000.0) + 1)
    np.testing.assert_array_equal(bump(new), np.arange(1000.0) * 2 + 1)
    np.testing.assert_array_equal(state.load(path)["x"], np.arange(1000.0) * 2)


def test_save_refuses_trees_that_do_not_fit_a_file(path: Path) -> None:
    with pytest.raises(ArgumentError, match="one name"):
        state.save(path, {"a.b": 1, "a": {"b": 2}})
    with pytest.raises(ArgumentError, match="__metadata__"):
        state.save(path, {"__metadata__": 1})
    with pytest.raises(ArgumentError, match=r"only arrays and numbers[^$]*w: str"):
        state.save(path, {"w": "text"})
    with pytest.raises(ArgumentError, match="datetime64"):
        state.save(path, {"w": np.zeros(2, "M8[s]")})
    assert not path.exists()
    with pytest.raises(FileNotFoundError):
        state.save(path.parent / "no" / "folder", {"w": 1})


def test_differences_from_the_template_are_named(path: Path) -> None:
    state.save(path, {"layers": [{"w": jnp.ones((2, 3))}], "b": jnp.ones(3)})
    fits: Any = {"layers": [{"w": jnp.ones((2, 3))}], "b": jnp.ones(3)}
    state.load(path, fits)
    with pytest.raises(
        StateError, match=r"layers.0.w is float32\[2,3\] in the file, float32\[3,2\]"
    ):
        state.load(path, {**fits, "layers": [{"w": jnp.ones((3, 2))}]})
    with pytest.raises(StateError, match=r"b is float32\[3\] in the file, bfloat16\[3\]"):
        state.load(path, {**fits, "b": jnp.ones(3, "bfloat16")})
    with pytest.raises(StateError, match="c is not in the file"):
        state.load(path, {**fits, "c": 1})
    with pytest.raises(StateError, match="b is not in the template"):
        state.load(path, {"layers": fits["layers"]})
    with pytest.raises(StateError, match="and 6 more"):
        state.load(path, {str(n): 0 for n in range(8)})


def test_metadata_are_texts(path: Path) -> None:
    bad: list[Any] = [{"e": 3}, {3: "e"}, {"e": None}, {"e": b"x"}]
    for metadata in bad:
        with pytest.raises(ArgumentError, match="metadata are texts"):
            state.save(path, {"w": 1}, metadata=metadata)
    for names in ({"w\ud800": 1}, {"w": 1}):
        with pytest.raises(ArgumentError, match="surrogate"):
            state.save(path, names, metadata={} if "w" not in names else {"e": "\ud800"})
    assert os.listdir(path.parent) == []
    texts = {"tfn_crc32": "f" * 8, 'a": "b': '"tfn_crc32": "00000000"', "é": "ü\n\0"}
    numbers = {"tfn_crc32": 1, "tfn": 2.0, "": 3}
    state.save(path, numbers, metadata=texts)
    assert state.load(path, numbers) == numbers
    actual = state.metadata(path)
    assert {key: actual[key] for key in texts if key != "tfn_crc32"} == {
        key: text for key, text in texts.items() if key != "tfn_crc32"
    }
    state.save(path, {"w": 1}, metadata=actual)  # once more, with a checksum of its own
    state.load(path)


def test_save_refuses_the_suffix_of_an_index(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="index"):
        state.save(tmp_path / "a.json", {"w": 1})
    assert os.listdir(tmp_path) == []


def test_templates_are_of_arrays_and_numbers(path: Path) -> None:
    state.save(path, {"w": 1})
    with pytest.raises(ArgumentError, match="w: str"):
        state.load(path, {"w": "text"})


PARTS = {"model": {"encoder": {"w": np.ones(2), "b": np.zeros(2)}, "head": np.ones(3)}, "step": 7}


def test_a_part_of_a_file_is_loaded(path: Path) -> None:
    state.save(path, PARTS)
    assert state.load(path, only="*encoder*").keys() == {"model.encoder.w", "model.encoder.b"}
    assert state.load(path, only=["step", "*.head"]).keys() == {"step", "model.head"}
    assert state.load(path, at="model.encoder").keys() == {"w", "b"}
    template = {"w": np.full(2, 9.0), "b": np.full(2, 9.0)}
    found = state.load(path, template, at="model.encoder", only="w")
    assert found["w"].tolist() == [1, 1] and found["b"] is template["b"]
    with pytest.raises(StateError, match="fit the template"):
        state.load(path, {"w": np.ones(3)}, at="model.encoder")
    for wrong in ({"only": "encodr.*"}, {"at": "model.enc"}, {"only": "w", "at": "model"}):
        with pytest.raises(StateError, match="has nothing of this name") as caught:
            state.load(path, **wrong)  # type: ignore[arg-type]
        assert "model.encoder" in caught.value.hint or "head" in caught.value.hint
