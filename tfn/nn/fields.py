"""Static fields of the nodes of a tree, as texts in a file beside its arrays.

    {"layers.0.weight.bits": "4", "activation": "gelu", "norm": "? a function without a name"}

Arrays alone do not say how a module uses them: the bits of a quantization, the number of heads, an
activation.  A file has these fields by the names that arrays have, so that a template of others
is refused.  A text stands for a value in every process and version: functions and classes are
called by their qualified names without modules, which move.  A value that has no such text has the
reason in its place, after a question mark, and is not compared.
"""

from __future__ import annotations

import hashlib
import json
import types
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import partial
from typing import Any

import numpy as np

from tfn import tree
from tfn._support.files import unique
from tfn.extend import PathLike, parsing

KEY = "tfn_static"  # of the record among the texts of a file
LIMIT_CHARACTERS = 1 << 24  # of a record: some 100,000 fields
TEXT_CHARACTERS = 200  # of a value; the rest of a longer one is in a digest
SHOWN_CHARACTERS, CONTEXT_CHARACTERS = 60, 20  # of a text in a message, and ahead of a difference
MAX_DEPTH, MAX_PARTS = 16, 100_000  # of a value that holds others
NO_TEXT = "? "  # before the reason: no text of a value begins so
LEFT_OUT = ""  # the name under which a record that is full says how many it leaves out


def record(pytree: object) -> dict[str, str]:
    """Returns the texts of the static fields in a tree, by their names in a file.

    Example:
        >>> from tfn import nn
        >>> record({"a": [nn.Lambda(nn.relu), nn.Lambda(lambda x: x)]})
        {'a.0.function': 'relu', 'a.1.function': '? a function without a name of its own'}
    """
    found: dict[str, str] = {}
    length = 0
    left_out = 0
    for name, value, _ in _fields(pytree):
        said = NO_TEXT + "several fields have this name" if name in found else text(value)
        length += len(json.dumps([name, said]))
        if length > LIMIT_CHARACTERS:
            left_out += 1
        else:
            found[name] = said
    return found | ({LEFT_OUT: f"{NO_TEXT}{left_out} more are left out"} if left_out else {})


def _fields(pytree: object) -> Iterator[tuple[str, Any, bool]]:
    """The static fields of a tree: name in a file, value, whether a template must have the same."""
    waiting: list[tuple[tuple[Any, ...], Any]] = [((), pytree)]
    while waiting:
        path, node = waiting.pop()
        about: dict[str, Any] = (
            {f.name: f.metadata for f in fields(node)} if is_dataclass(node) else {}
        )
        for name, value in tree.static_fields(node).items():
            own = (*path, tree.GetAttrKey(name))
            is_compared = about.get(name, {}).get("compared", True)
            yield tree.keystr(own, simple=True, separator="."), value, is_compared
        inner = lambda x, node=node: x is not node and bool(tree.static_fields(x))
        pairs = tree.leaves_with_path(node, inner)
        waiting += [((*path, *keys), x) for keys, x in reversed(pairs) if tree.static_fields(x)]


# Texts.


class _NoTextError(Exception):
    """The reason why a value has no text that stands for it everywhere."""


def text(value: object) -> str:
    """The text of a value, or the reason why it has none, after a question mark.

    Example:
        >>> text((8, 1.5, None, "same", np.dtype("int8"))), text(np.tanh), text(1.0)
        ("(8, 1.5, None, 'same', int8)", 'tanh', '1')
        >>> text(print), text(object())
        ('print', '? an object of the class object')
    """
    parts = iter(range(MAX_PARTS))
    try:
        said = _text(value, 0, parts)
    except _NoTextError as error:
        return NO_TEXT + str(error)
    if len(said) <= TEXT_CHARACTERS:
        return said
    return f"{said[:TEXT_CHARACTERS]}... sha256 {hashlib.sha256(said.encode()).hexdigest()[:16]}"


def _text(value: Any, depth: int, parts: Iterator[int]) -> str:
    """The text of a value, or of a part of it.

    Raises:
        _NoTextError: if it has none.
    """
    if depth > MAX_DEPTH or next(parts, None) is None:
        raise _NoTextError("of too many parts")
    inner = partial(_text, depth=depth + 1, parts=parts)
    kind = type(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Enum):
        return f"{kind.__qualname__}.{value.name}"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1 << 53:
        return repr(int(value))  # equal numbers have equal texts
    if value is None or value is ... or isinstance(value, (bool, int, float, complex)):
        return repr(value)
    if isinstance(value, (str, bytes)):
        return ascii(value)
    if isinstance(value, np.dtype):
        return value.name
    if isinstance(value, (tuple, list)):
        names = getattr(kind, "_fields", None)
        return (kind.__qualname__ if names else "") + _items(value, names, inner)
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(inner, value)))}}}"
    if isinstance(value, Mapping):
        return f"{{{', '.join(sorted(f'{inner(k)}: {inner(x)}' for k, x in value.items()))}}}"
    if isinstance(value, (slice, range)):
        return kind.__name__ + inner((value.start, value.stop, value.step))
    if isinstance(value, partial):
        return f"partial({inner(value.func)}, {inner(value.args)}, {inner(value.keywords)})"
    if is_dataclass(value) and not isinstance(value, type) and kind not in tree.FIELDS:
        names = [f.name for f in fields(value) if f.compare]
        return kind.__qualname__ + _items([getattr(value, n) for n in names], names, inner)
    return _name(value)


def _items(values: Any, names: Any, inner: Callable[[Any], str]) -> str:
    texts = [inner(x) for x in values]
    if names:
        texts = [f"{name}={said}" for name, said in zip(names, texts, strict=True)]
    return f"({', '.join(texts)})"


def _name(value: Any) -> str:
    """The qualified name of a function or a class.

    Raises:
        _NoTextError: for other objects, and where the name does not tell one from another.
    """
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if isinstance(value, types.MethodType) or not callable(value) or not isinstance(name, str):
        raise _NoTextError(f"an object of the class {type(value).__qualname__}")
    if "<" in name:
        raise _NoTextError("a function without a name of its own")
    return name


# Files.


def encode(found: Mapping[str, str]) -> dict[str, str]:
    """The texts of a file that hold a record; none for an empty one.

    Example:
        >>> encode({"bits": "4"}), encode({})
        ({'tfn_static': '{"bits": "4"}'}, {})
    """
    return {KEY: json.dumps(found)} if found else {}


def decode(path: PathLike, texts: Mapping[str, str]) -> dict[str, str]:
    """The record among the texts of a file; an empty one if it has none.

    Args:
        path: of the file, for messages.
        texts: of the file, which may come from anywhere.

    Raises:
        StateError: if it is no record.

    Example:
        >>> decode("a.safetensors", {"tfn_static": '{"bits": "4"}'}), decode("a.safetensors", {})
        ({'bits': '4'}, {})
    """
    said = texts.get(KEY, "{}")
    with parsing(path, "file with static fields as texts by names"):
        if len(said) > 2 * LIMIT_CHARACTERS:
            raise ValueError(f"{len(said):,} characters")
        return checked(json.loads(said, object_pairs_hook=unique))


def checked(found: Any) -> dict[str, str]:
    """A record, if it is one: texts by names.

    Raises:
        ValueError: if it is none.

    Example:
        >>> checked({"bits": "4"})
        {'bits': '4'}
    """
    if not isinstance(found, dict) or not all(isinstance(said, str) for said in found.values()):
        raise ValueError("static fields are texts by names")
    return found


# Templates.


def differences(
    found: Mapping[str, str],
    template: object,
    leaves: Collection[str],
    is_wanted: Callable[[str], bool] = lambda name: True,
) -> Iterator[str]:
    """Sentences that say where the static fields of a file are not those of a template.

    A field that only one of them has is none of them: classes get fields, and lose them.

    Args:
        found: the record of the file, by the names that the template has.
        template: a tree.
        leaves: the names of its leaves that are read.  Where they are a part of the tree, the
            fields of the node that owns one of them are compared, too: they say how it is used.
        is_wanted: whether a field of a name is of the part that is read.

    Example:
        >>> from tfn import nn
        >>> list(differences({"function": "relu"}, nn.Lambda(nn.gelu), ()))
        ['function is relu in the file, gelu in the template']
    """
    expected = {
        name: value for name, value, compared in _fields(template) if compared and name in found
    }
    owners = {_owner(name) for name in expected}
    owned = {next((p for p in _nodes(name) if p in owners), None) for name in leaves}
    for name, value in expected.items():
        if is_wanted(name) or _owner(name) in owned:
            was, now = found[name], text(value)
            if was != now and not was.startswith(NO_TEXT) and not now.startswith(NO_TEXT):
                pairs = enumerate(zip(was, now, strict=False))
                same = next((i for i, (a, b) in pairs if a != b), min(len(was), len(now)))
                begin = max(0, same - CONTEXT_CHARACTERS)
                was, now = (_shown(said, begin) for said in (was, now))
                yield f"{_shown(name)} is {was} in the file, {now} in the template"


def _owner(name: str) -> str:
    return name.rpartition(".")[0]


def _nodes(name: str) -> Iterator[str]:
    """The names of the nodes that a leaf is in, the innermost first."""
    while name:
        name = _owner(name)
        yield name


def _shown(said: str, begin: int = 0) -> str:
    """A part of a text, which may come from anywhere, as messages show it."""
    end = begin + SHOWN_CHARACTERS
    part = "..." * (begin > 0) + said[begin:end] + "..." * (end < len(said))
    return part if part.isprintable() else ascii(part)
