"""Signature of an exported function: its inputs and outputs as fields, the same in every language.

A field is one array: a leaf of an argument or of the result.  Its `name` is an identifier made of
its `path`, which is the expression by which Python code refers to it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

from tfn.dtypes import NARROW, DType
from tfn.extend import Shape, Target, frozen
from tfn.lower.program import ALIGNMENT as ALIGNMENT

ABI = 1
"""The version of the calling convention: of the struct's layout, the checks and the manifest."""
MAGIC = b"tfn-export:"
"""The first bytes of a manifest in a file: its length, digest and JSON text follow."""
DIGEST = b"tfn-sha256:"
"""The first bytes behind a shared library, which loaders ignore; its digest follows."""
# fmt: off
RESERVED = frozenset({
    "abi", "program", "arena_bytes",
    "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum",
    "extern", "float", "for", "goto", "if", "inline", "int", "long", "register", "restrict",
    "return", "short", "signed", "sizeof", "static", "struct", "switch", "typedef", "union",
    "unsigned", "void", "volatile", "while",
})
"""Names that no field may have: other members of the struct, and keywords of C."""
# fmt: on

TYPES = {
    "bool": "uint8_t",
    "float16": "uint16_t",
    "bfloat16": "uint16_t",
    "float32": "float",
    "float64": "double",
    "complex64": "float",
    "complex128": "double",
    **{dtype.name: "uint8_t" for dtype in NARROW},
}
"""C types of dtypes; integers have their own names."""


def c_type(dtype: DType) -> str:
    """The type of an element.

    Example:
        >>> import numpy as np
        >>> c_type(np.dtype("float32")), c_type(np.dtype("uint8"))
        ('float', 'uint8_t')
    """
    return TYPES.get(dtype.name, f"{dtype.name}_t")


@frozen
class Field:
    """One array.

    Attributes:
        name: an identifier.
        path: the expression by which Python code refers to it.
        same: the field with which it may share memory, "" if none.
    """

    name: str
    path: str
    shape: Shape
    dtype: DType
    same: str = ""

    @property
    def size_bytes(self) -> int:
        """Bytes of its elements."""
        return prod(self.shape) * self.dtype.itemsize

    @property
    def alignment(self) -> int:
        """Alignment in bytes: that of an element, or of its parts if it is complex."""
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
class Kept:
    """An array of the state that a caller keeps from call to call.

    Attributes:
        field: a member of the struct of the state.
        start: its bytes before the first call.
        offset: where in the arena its next value is made; None if it is made in place.
    """

    field: Field
    start: bytes
    offset: int | None


@frozen
class Signature:
    """The contract between a caller and an exported function.

    Attributes:
        name: of the function.
        inputs, outputs: in the order of the members of the struct.
        constants: names of arguments that are embedded in the code.
        arena_bytes: size of the working memory.
        threads: maximum number of threads that run a call.
        target: the machine that the code is made for.
        state: what the caller keeps from call to call, in the order of the program's outputs.
    """

    name: str
    inputs: tuple[Field, ...]
    outputs: tuple[Field, ...]
    constants: tuple[str, ...]
    arena_bytes: int
    threads: int
    target: Target
    state: tuple[Kept, ...] = ()

    @property
    def entry(self) -> str:
        """The name of the function that is called."""
        return f"{self.name}_step" if self.state else self.name

    @property
    def fields(self) -> tuple[Field, ...]:
        """Inputs, then outputs."""
        return self.inputs + self.outputs

    @property
    def program(self) -> int:
        """A digest of names, shapes and dtypes, by which a caller of another program is refused."""
        kept = [x.field.record for x in self.state]
        text = json.dumps([self.name, *(field.record for field in self.fields), *kept])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little")

    @property
    def manifest(self) -> bytes:
        """The signature as bytes that can be found in a file: `MAGIC`, length, digest, JSON."""
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
            **({"state": [x.field.record for x in self.state]} if self.state else {}),
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


def unique(names: Iterable[str], reserved: Sequence[str] = ()) -> list[str]:
    """Names made distinct by numbers behind repeated ones.

    Example:
        >>> unique(["a", "b", "a"], reserved=["b"])
        ['a', 'b_2', 'a_2']
    """
    used = set(reserved)
    out: list[str] = []
    for name in names:
        candidate, count = name, 1
        while candidate in used:
            count += 1
            candidate = f"{name}_{count}"
        used.add(candidate)
        out.append(candidate)
    return out


def named(
    paths: Sequence[str],
    kinds: Sequence[tuple[Shape, DType]],
    reserved: Sequence[str] = (),
    same: Mapping[int, str] | None = None,
) -> tuple[Field, ...]:
    """Fields with these paths, shapes and dtypes."""
    names = unique(map(identifier, paths), reserved)
    return tuple(
        Field(name, path, shape, dtype, (same or {}).get(i, ""))
        for i, (name, path, (shape, dtype)) in enumerate(zip(names, paths, kinds, strict=True))
    )
