"""Signatures: names of fields, manifests."""

from __future__ import annotations

import numpy as np
import pytest

from tfn.exporting.load import manifest
from tfn.exporting.signature import RESERVED, Field, Signature, identifier, named, unique
from tfn.hw.cpu.target import TARGETS

FLOAT = np.dtype("float32")


@pytest.mark.parametrize(
    "path", ["x", "a[0]", "a['b c']", "0", "é", "if", "arena_bytes", "", "a.b"]
)
def test_every_path_becomes_an_identifier(path: str) -> None:
    name = identifier(path)
    assert name.isascii() and name.isidentifier() and name not in RESERVED


def test_names_differ() -> None:
    names = unique(["x", "x", "x_2", "y"], reserved=["y"])
    assert len({*names, "y"}) == 5
    fields = named(["a.b", "a_b"], [((2,), FLOAT), ((), FLOAT)], ["a_b"])
    assert [field.name for field in fields] == ["a_b_2", "a_b_3"]


def signature(*outputs: Field) -> Signature:
    fields = named(["x", "w['é']"], [((3, 4), FLOAT), ((0,), np.dtype("bool"))])
    return Signature("f", fields, outputs, ("b",), 128, 1, TARGETS["aarch64"])


def test_a_manifest_is_read_as_it_was_written() -> None:
    one = signature(Field("out", "out", (), np.dtype("complex64"), "x"))
    read = manifest(b"before" + one.manifest + b"\0after", "a file")
    assert read.fields == one.fields and read.program == one.program
    assert (read.name, read.constants, read.arena_bytes) == ("f", ("b",), 128)


def test_programs_with_other_fields_do_not_know_each_other() -> None:
    shapes = [(), (1,), (2, 2)]
    kinds = [Field("out", "out", shape, FLOAT) for shape in shapes]
    kinds += [Field("out", "out", (), np.dtype("int32")), Field("other", "out", (), FLOAT)]
    assert len({signature(kind).program for kind in kinds}) == len(kinds)


def test_alignments_are_those_of_the_parts() -> None:
    fields = named(["a", "b"], [((2,), np.dtype("complex128")), ((), np.dtype("uint8"))])
    assert [(f.alignment, f.size_bytes) for f in fields] == [(8, 32), (1, 1)]
