"""Trees of arrays in files, in the safetensors format, named by their paths.

The arrays of ``{"layers": [Linear, ...]}`` are called ``layers.0.weight`` and so on, so a file is
read by other libraries too.  The static fields of modules are texts beside them, and `load`
refuses a template that has other ones, as the bits of a quantization.

`load` reads all bytes and compares the checksum that `save` wrote; `mapped` maps the file, and
compares nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any, Literal, TypeVar

import numpy as np

from tfn import numpy as jnp
from tfn import tree
from tfn.array import Array
from tfn.config import config
from tfn.errors import ArgumentError, StateError
from tfn.extend import PathLike, one_of, platforms
from tfn.extend import parsing as parsing
from tfn.nn import fields, safetensors
from tfn.nn.safetensors import ALIGNMENT, MAX_SHOWN, TEXTS, Data
from tfn.nn.safetensors import contents as contents
from tfn.nn.safetensors import mapped as mapped
from tfn.nn.safetensors import metadata as metadata
from tfn.nn.safetensors import verify as verify

NUMBERS = (bool, int, float)
Static = Literal["check", "ignore"]
STATIC = ("check", "ignore")
OTHER_FIELDS = (
    "give the modules of the template the fields of the file, as quantize the template alike; "
    'static="ignore" reads the arrays as they are'
)
T = TypeVar("T")


def names(pytree: Any) -> list[str]:
    """Returns the names of the leaves of a tree in a file: their paths, with dots.

    Raises:
        ArgumentError: if two would have one name.

    Example:
        >>> names({"w": [1, 2], "b": 3})
        ['b', 'w.0', 'w.1']
    """
    listed = [
        tree.keystr(path, simple=True, separator=".") for path, _ in tree.leaves_with_path(pytree)
    ]
    for name, times in Counter([*listed, TEXTS]).items():
        if times > 1:
            raise ArgumentError(
                "two leaves would have one name in the file",
                got=name,
                hint="keys of dicts must not hold dots",
            )
    return listed


def save(path: PathLike, pytree: object, *, metadata: Mapping[str, str] | None = None) -> None:
    """Writes the arrays and numbers of a tree to a safetensors file, atomically.

    Its static fields are written as texts, for `load` to compare.

    Args:
        path: file to write; replaced as a whole.
        pytree: a tree of arrays and numbers.
        metadata: texts to store with them; none if None.

    Raises:
        ArgumentError: for a leaf that is no array or number, two of one name, metadata that are
            no texts, or a path that ends in ``.json``, where `load` expects an index of files.
        OSError: if the system refuses; the file is then what it was.

    Example:
        >>> save("/tmp/tfn-example.safetensors", {"w": jnp.ones((2, 3)), "epoch": 7})
        >>> load("/tmp/tfn-example.safetensors")["w"].shape
        (2, 3)
    """
    named = zip(names(pytree), tree.leaves(pytree), strict=True)
    leaves = {name: safetensors.checked(name, x) for name, x in named}
    texts = dict(metadata or {})
    texts.pop(fields.KEY, None)  # of another file
    texts |= fields.encode(fields.record(pytree))
    safetensors.write(path, leaves, leaves.__getitem__, metadata=texts)


def load(
    path: PathLike,
    template: object = None,
    *,
    only: str | Sequence[str] = (),
    at: str = "",
    static: Static = "check",
) -> Any:
    """Reads the tree that was saved in a file, into memory of its own.

    All bytes are read.  Of a file that `save` wrote, their checksum is compared.

    Args:
        path: of a file, or of the index (``model.safetensors.index.json``) of several, as large
            models of other libraries have it.
        template: a tree of arrays, of `ShapeDtypeStruct`s, or of numbers, of the structure
            expected, with the shapes and dtypes that are expected.  If None, the result
            is a dict of arrays by their names.
        only: patterns of the names that are wanted, such as ``"encoder.*"``; all if there are
            none.  Other leaves of the template are given back as they are.
        at: the name of the subtree that the template describes, such as ``"model.encoder"``.
        static: "check" compares the static fields of the template with those that were saved, as
            far as the file has them; "ignore" does not.

    Raises:
        StateError: if a file is damaged, not of this format, or does not hold what the template
            describes, or nothing of the names that are wanted; if the template has other static
            fields.
        ArgumentError: if a leaf of the template has no shape.
        OSError: if a file cannot be opened.

    Example:
        >>> save("/tmp/tfn-example.safetensors", {"w": jnp.ones((2, 3)), "epoch": 7})
        >>> load("/tmp/tfn-example.safetensors", {"w": jnp.zeros((2, 3)), "epoch": 0})["epoch"]
        7
        >>> load("/tmp/tfn-example.safetensors", {"w": jnp.zeros((3, 2)), "epoch": 0})
        Traceback (most recent call last):
          ...
        tfn.errors.StateError: /tmp/tfn-example.safetensors does not fit the template
          got: w is float32[2,3] in the file, float32[3,2] in the template
        ...
        >>> load("/tmp/tfn-example.safetensors", {"w": None, "epoch": 0}, only="epoch")
        {'epoch': 7, 'w': None}
    """
    one_of("load", "static", static, STATIC)
    found, headers = safetensors.found(path, safetensors.in_memory)
    arrays = chosen(path, found, only, at)
    if template is None:
        return {name: as_array(data) for name, data in arrays.items()}
    expected, restore = wanted(template, only)
    record: dict[str, str] = {}
    for texts in headers if static == "check" else ():
        record |= fields.decode(path, texts)
    refuse(path, template, record, arrays, expected, only, at)
    return restore({name: _like(x, arrays[name]) for name, x in expected.items()})


def refuse(
    path: PathLike,
    template: object,
    record: Mapping[str, str],
    arrays: Mapping[str, Any],
    expected: Mapping[str, Any],
    only: str | Sequence[str],
    at: str,
) -> None:
    """Raise unless a file holds what a template describes.

    Args:
        path: of the file, for messages.
        template, only, at: as of `load`.
        record: the static fields of the file.
        arrays: those of the file that are wanted, or their types, by name.
        expected: the leaves of the template that are wanted, by name.

    Raises:
        StateError: naming the first differences.
        ArgumentError: for a leaf of the template that has no dtype.

    Example:
        >>> refuse("file", {"w": 1.5}, {}, {"w": np.ones(())}, {"w": 1.5}, (), "")
    """
    start, patterns = f"{at}." if at else "", _patterns(only)
    inside = {n.removeprefix(start): said for n, said in record.items() if n.startswith(start)}
    is_wanted = lambda name: _matches(name, patterns)
    other = [*fields.differences(inside, template, expected, is_wanted)]
    wrong = [*other, *differences(arrays, expected)]
    if wrong:
        more = f", and {len(wrong) - MAX_SHOWN} more" if len(wrong) > MAX_SHOWN else ""
        mend = "load(path) without a template gives what the file holds"
        raise StateError(
            f"{os.fspath(path)} does not fit the template",
            got="; ".join(wrong[:MAX_SHOWN]) + more,
            hint=OTHER_FIELDS if other else mend,
        )


def chosen(
    path: PathLike, found: Mapping[str, T], only: str | Sequence[str], at: str
) -> dict[str, T]:
    """The part of some names that a caller of `load` wants, without the name of their subtree.

    Args:
        path: of the file, for messages.
        found: what there is, by name.
        only, at: as of `load`.

    Raises:
        StateError: if there is none for a pattern, or no such subtree.

    Example:
        >>> chosen("file", {"a.w": 1, "a.b": 2, "c": 3}, "w*", "a")
        {'w': 1}
    """
    start = f"{at}." if at else ""
    inside = {name.removeprefix(start): x for name, x in found.items() if name.startswith(start)}
    patterns = _patterns(only)
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in inside):
            raise _nothing(path, f"{start}{pattern}", found)
    if at and not inside:
        raise _nothing(path, f"{start}*", found)
    return {name: x for name, x in inside.items() if _matches(name, patterns)}


def _patterns(only: str | Sequence[str]) -> list[str]:
    return [only] if isinstance(only, str) else [*only]


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatchcase(name, pattern) for pattern in patterns)


def _nothing(path: PathLike, pattern: str, found: Iterable[str]) -> StateError:
    near = get_close_matches(pattern, found, MAX_SHOWN, 0) or ["nothing"]
    return StateError(
        f"{os.fspath(path)} has nothing of this name",
        got=pattern,
        hint="it holds " + ", ".join(near) + ", ...",
    )


def wanted(
    template: object, only: str | Sequence[str]
) -> tuple[dict[str, Any], Callable[[Mapping[str, Any]], Any]]:
    """The leaves of a template that are wanted, by name, and the function that replaces them.

    Example:
        >>> expected, restore = wanted({"a": 1, "b": 2}, "b")
        >>> expected, restore({"b": 5})
        ({'b': 2}, {'a': 1, 'b': 5})
    """
    patterns = _patterns(only)
    leaves, structure = tree.flatten(template)
    named = dict(zip(names(template), leaves, strict=True))
    expected = {name: x for name, x in named.items() if _matches(name, patterns)}
    return expected, lambda new: tree.unflatten(structure, [*(named | dict(new)).values()])


def differences(arrays: Mapping[str, Data], template: Mapping[str, Any]) -> Iterator[str]:
    """Sentences that say where the arrays of a file are not what a template describes.

    Args:
        arrays: by name.
        template: arrays, types of arrays, and numbers, by name.

    Raises:
        ArgumentError: for a leaf of the template that has no dtype.

    Example:
        >>> list(differences({"w": np.ones(2)}, {"w": np.ones(3)}))
        ['w is float64[2] in the file, float64[3] in the template']
    """
    for name, x in template.items():
        if name not in arrays:
            yield f"{name} is not in the file"
            continue
        if not isinstance(x, NUMBERS) and not hasattr(x, "dtype"):
            raise ArgumentError(
                "a template is of arrays, their types, and numbers",
                got=f"{name}: {type(x).__name__}",
            )
        data = arrays[name]
        expected = np.asarray(x) if isinstance(x, NUMBERS) else x
        if (data.shape, data.dtype) != (tuple(expected.shape), expected.dtype):
            yield f"{name} is {_kind(data)} in the file, {_kind(expected)} in the template"
    yield from (f"{name} is not in the template" for name in arrays if name not in template)


def _kind(x: Any) -> str:
    return f"{x.dtype.name}[{','.join(map(str, x.shape))}]"


def _like(x: object, data: Data) -> Any:
    """Data as what the template has in their place."""
    if isinstance(x, NUMBERS):
        return type(x)(data.item())
    return data if isinstance(x, np.ndarray) else as_array(data)


def as_array(data: Data) -> Array:
    """An array on the memory of data that nothing writes to.

    A copy, where it is not aligned, or the devices are those of a cluster.

    Example:
        >>> as_array(np.zeros(0, "int8")).shape
        (0,)
    """
    aligned = data.__array_interface__["data"][0] % ALIGNMENT == 0
    here = config.device not in platforms.CONTROLLERS
    return jnp.asarray(data, copy=False if aligned and here else None)
