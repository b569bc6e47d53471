"""The types of values over explicit axes of a mesh."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import tfn
import tfn.numpy as tnp
from tfn.errors import ArgumentError, AxisError, ShardingTypeError
from tfn.sharding import AbstractMesh, AxisType, NamedSharding, P, typeof
from tfn.transforms.shard import layout

MIXED = AbstractMesh((4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
pytestmark = pytest.mark.usefixtures("eight_devices")


def struct(*spec: Any, mesh: Any = MIXED, **sums: Any) -> tfn.ShapeDtypeStruct:
    sharding = NamedSharding(mesh, P(*spec, **sums))
    return tfn.ShapeDtypeStruct((8, 4), "float32", sharding=sharding)


def test_axes_of_the_compiler_are_no_part_of_types() -> None:
    assert str(struct("x", "y")) == "f32[8@x,4]" == str(struct(("y", "x")))
    assert str(typeof(1.0)) == "f32[]" and layout.of(tnp.ones(3)) is None
    free = MIXED.update(axis_types=AxisType.Auto)
    assert layout.of(struct("x", mesh=free)) is None
    got = layout.of(struct("x", "y"))
    assert got is not None and got.constraint((8, 4)).spec == (("x",), ("?",))
    assert got.without_axis(0).spec == ((),) and got.sharding.mesh == MIXED


def test_specs_with_sums() -> None:
    spec = P("x", None, unreduced={"y"})
    assert repr(spec) == "P('x', None, unreduced={'y'})" and spec != P("x", None)
    assert pickle.loads(pickle.dumps(spec)) == spec and hash(spec) != hash(P("x", None))
    assert spec.unreduced == {"y"} and spec.update(partitions=("x",)).unreduced == {"y"}
    assert repr(P(reduced={"x"})) == "P(reduced={'x'})" and P("x") + P("y") == P("x", "y")
    with pytest.raises(ArgumentError, match="'x' in two roles"):
        P("x", unreduced={"x"})
    with pytest.raises(ArgumentError, match="is a set of names"):
        P(unreduced="x")
    with pytest.raises(AxisError, match="'z', which the mesh does not have"):
        struct(unreduced={"z"})
    explicit = MIXED.update(axis_types=AxisType.Explicit)
    assert str(struct("x", mesh=explicit, unreduced={"y"})) == "f32[8@x,4]{U:y}"


def test_a_function_is_traced_for_each_type_of_its_arguments() -> None:
    mesh = tfn.make_mesh((4, 2), ("x", "y"))
    seen: list[str] = []

    @tfn.jit
    def inner(v: Any) -> Any:
        seen.append(str(typeof(v)))
        return v * 2

    x = tfn.reshard(tnp.ones((8, 4)), NamedSharding(mesh, P("x")))
    y = tfn.reshard(x, NamedSharding(mesh, P(None, "y")))
    assert str(typeof(inner(x))) == "f32[8@x,4]" and str(typeof(inner(y))) == "f32[8,4@y]"
    outer = tfn.jit(lambda a, b: (inner(a), inner(b)))
    assert [str(typeof(v)) for v in outer(x, y)] == ["f32[8@x,4]", "f32[8,4@y]"]
    assert seen == ["f32[8@x,4]", "f32[8,4@y]"] * 2


def test_where_rules_do_not_count() -> None:
    mesh = tfn.make_mesh((4, 2), ("x", "y"))
    put = lambda *spec: tfn.reshard(tnp.ones((8, 4)), NamedSharding(mesh, P(*spec)))
    x, y = put("x"), put("y")
    with layout.resolved_outside():
        assert layout.is_resolved_outside() and float((x + y).sum()) == 64.0
    with pytest.raises(ShardingTypeError, match="one axis is divided over 'x' and over 'y'"):
        x + y
    free = mesh.update(axis_types=AxisType.Auto)
    a, b = (tfn.reshard(v, NamedSharding(free, v.sharding.spec)) for v in (x, y))
    assert float((a + b).sum()) == 64.0, "the compiler divides as it likes"
