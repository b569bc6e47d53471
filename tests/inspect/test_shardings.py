"""Pictures of shardings."""

from __future__ import annotations

import numpy as np
import pytest

import tfn
from tests.conftest import Golden
from tfn.config import config
from tfn.errors import ArgumentError, ConcretizationTypeError

pytestmark = pytest.mark.usefixtures("eight_devices")


def test_pictures(
    capsys: pytest.CaptureFixture[str], golden: Golden, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "device", "cpu")  # another name has another width
    mesh = tfn.make_mesh((2, 4), ("x", "y"))
    for spec in (tfn.P("x", "y"), tfn.P("x"), tfn.P(None, "y"), tfn.P("y", "x"), tfn.P()):
        print(spec)
        sharding = tfn.NamedSharding(mesh, spec)
        tfn.debug.visualize_sharding((8, 8), sharding)
    print("a vector")
    tfn.debug.visualize_sharding((8,), tfn.NamedSharding(mesh, tfn.P("y")))
    golden("shardings.txt", capsys.readouterr().out)


def test_shardings_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    rows = tfn.NamedSharding(tfn.make_mesh((8,), "x"), tfn.P("x"))
    x, seen = tfn.device_put(np.ones(8), rows), []
    tfn.debug.inspect_array_sharding({"x": x, "y": x}, callback=seen.append)
    tfn.grad(lambda v: tfn.debug.inspect_array_sharding(v, callback=seen.append) or v.sum())(x)
    assert seen == [rows] * 3
    tfn.debug.visualize_array_sharding(tfn.device_put(np.ones((8, 2)), rows))
    assert capsys.readouterr().out.count("|") == 16
    with pytest.raises(ConcretizationTypeError, match="its sharding"):
        tfn.jit(tfn.debug.visualize_array_sharding)(x)
    with pytest.raises(ArgumentError, match="one or two axes"):
        tfn.debug.visualize_sharding((2, 2, 2), rows)
