"""Pictures of shardings."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
from tests.conftest import Golden
from tfn.config import config
from tfn.errors import ArgumentError

pytestmark = pytest.mark.usefixtures("eight_devices")


def test_pictures(
    capsys: pytest.CaptureFixture[str], golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "device", "cpu")  # another name has another width
    mesh = tfn.make_mesh((2, 4), ("x", "y"), tfn.sharding.AxisType.Auto)
    for spec in (tfn.P("x", "y"), tfn.P("x"), tfn.P(None, "y"), tfn.P("y", "x"), tfn.P()):
        print(spec)
        sharding = tfn.NamedSharding(mesh, spec)
        tfn.debug.visualize_sharding((8, 8), sharding)
    print("a vector")
    tfn.debug.visualize_sharding((8,), tfn.NamedSharding(mesh, tfn.P("y")))
    golden("shardings.txt", capsys.readouterr().out)


def test_shardings_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    rows = tfn.NamedSharding(tfn.make_mesh((8,), "x", tfn.sharding.AxisType.Auto), tfn.P("x"))
    x, seen = tfn.device_put(np.ones(8), rows), []
    tfn.debug.inspect_array_sharding({"x": x, "y": x}, callback=seen.append)
    tfn.grad(lambda v: tfn.debug.inspect_array_sharding(v, callback=seen.append) or v.sum())(x)
    assert seen == [rows] * 3
    tfn.debug.visualize_array_sharding(tfn.device_put(np.ones((8, 2)), rows))
    assert capsys.readouterr().out.count("|") == 16
    with pytest.raises(ArgumentError, match="one or two axes"):
        tfn.debug.visualize_sharding((2, 2, 2), rows)


def test_shardings_of_traced_values_are_told_once_they_are_chosen() -> None:
    rows = tfn.NamedSharding(tfn.make_mesh((8,), "x", tfn.sharding.AxisType.Auto), tfn.P("x"))
    x, seen = tfn.device_put(np.ones((8, 2), "float32"), rows), []

    def total(v: tfn.Array) -> tfn.Array:
        w = v @ v.T
        tfn.debug.inspect_array_sharding(w, callback=seen.append)
        return w.sum()

    run = tfn.jit(total)
    assert [float(run(x)) for _ in range(3)] == [128.0] * 3
    assert [s.is_equivalent_to(rows, 2) for s in seen] == [True], "once for each program"
    assert tfn.jit(tfn.grad(total))(x).shape == (8, 2) and len(seen) == 2
    looped = tfn.jit(lambda v: tfn.lax.scan(lambda c, r: (c, total(c)), v, None, length=2)[1])
    assert looped(x).tolist() == [128.0] * 2 and len(seen) == 3
    assert float(run(np.ones((8, 2), "float32"))) == 128 and len(seen[-1].device_set) == 1
