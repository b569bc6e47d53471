"""What an exported function takes and gives: a list of fields, the same for every language.

A field is one array: an argument's leaf, or one of a result.  Its `name` is an identifier made of
its `path`, which is what a user of Python calls it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from tfn._support.frozen import frozen
from tfn.dtypes import DType
from tfn.lower.program import ALIGNMENT as ALIGNMENT
from tfn.lower.target.target import Target
from tfn.trace.op import Shape

ABI = 1
"""The version of the calling convention: of the struct's layout, the checks and the manifest."""
MAGIC = b"tfn-export:"
"""What a manifest begins with in a file: then its length, its digest, and itself, as JSON."""
DIGEST = b"tfn-sha256:"
"""What stands behind a shared library, where no system looks: then the digest of all before it."""
# fmt: off
RESERVED = frozenset({
    "abi", "program", "arena_bytes",
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum",
    "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict",
    "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union",
    "unsigned", "void", "volatile", "while",
})
"""What no field is called: other members of the struct, and words of C."""
# fmt: on


@frozen
class Field:
    """One array.

    Attributes:
        name: an identifier.
        path: what the user calls it.
        same: the field whose memory it may have too, "" if none.
    """

    name: str
    path: str
    shape: Shape
    dtype: DType
    same: str = ""

    @property
    def size_bytes(self) -> int:
        """Of its elements."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def alignment(self) -> int:
        """What its address must be a multiple of: its parts, where it is complex."""
        return self.dtype.itemsize // (2 if self.dtype.kind == "c" else 1)

    @property
    def record(self) -> dict[str, Any]:
        """The field as JSON."""
        return {
            "name": self.name,
            "path": self.path,
            "shape": list(self.shape),
            "dtype": self.dtype.name,
            "same": self.same,
        }


@frozen
class Signature:
    """What a caller needs to know.

    Attributes:
        name: of the function.
        inputs, outputs: in the order of the members of the struct.
        constants: names of arguments that are part of the code.
        arena_bytes: working memory.
        threads: how many may take part in a call.
        target: what the code is for.
    """

    name: str
    inputs: tuple[Field, ...]
    outputs: tuple[Field, ...]
    constants: tuple[str, ...]
    arena_bytes: int
    threads: int
    target: Target

    @property
    def fields(self) -> tuple[Field, ...]:
        """Inputs, then outputs."""
        return self.inputs + self.outputs

    @property
    def program(self) -> int:
        """A digest of names, shapes and dtypes, by which caller and function know each other."""
        text = json.dumps([self.name, *(field.record for field in self.fields)])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")

    @property
    def manifest(self) -> bytes:
        """All of it, to be found in a file: `MAGIC`, length, digest, JSON."""
        record = {
            "abi": ABI,
            "name": self.name,
            "program": self.program,
            "arena_bytes": self.arena_bytes,
            "arena_alignment": ALIGNMENT,
            "threads": self.threads,
            "target": [self.target.triple, self.target.cpu, self.target.features],
            "inputs": [field.record for field in self.inputs],
            "outputs": [field.record for field in self.outputs],
            "constants": list(self.constants),
        }
        text = json.dumps(record, separators=(",", ":")).encode()
        digest = hashlib.sha256(text).hexdigest().encode()
        return MAGIC + f"{len(text)}:".encode() + digest + b":" + text


def identifier(path: str) -> str:
    """A path as a name in C: ``network.layers[0]`` is network_layers_0.

    Example:
        >>> identifier("params['w'][0]"), identifier("2d"), identifier("float")
        ('params_w_0', '_2d', 'float_')
    """
    name = re.sub(r"[^A-Za-z0-9]+", "_", path).strip("_") or "_"
    name = f"_{name}" if name[0].isdigit() else name
    return f"{name}_" if name in RESERVED else name


def unique(names: Iterable[str], taken: Sequence[str] = ()) -> list[str]:
    """Names with a number after those that came before.

    Example:
        >>> unique(["a", "b", "a"], taken=["b"])
        ['a', 'b_2', 'a_2']
    """
    used = set(taken)
    out: list[str] = []
    for name in names:
        found, count = name, 1
        while found in used:
            count += 1
            found = f"{name}_{count}"
        used.add(found)
        out.append(found)
    return out


def named(
    paths: Sequence[str],
    kinds: Sequence[tuple[Shape, DType]],
    taken: Sequence[str] = (),
    same: Mapping[int, str] | None = None,
) -> tuple[Field, ...]:
    """The fields of paths, shapes and dtypes."""
    names = unique(map(identifier, paths), taken)
    return tuple(
        Field(name, path, shape, dtype, (same or {}).get(i, ""))
        for i, (name, path, (shape, dtype)) in enumerate(zip(names, paths, kinds, strict=True))
    )
