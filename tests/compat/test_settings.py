"""Settings, and types of values."""

import numpy as np

import tfn
import tfn.numpy as tnp
from tfn.compat import settings as one


def test_types_of_values():
    kind = one.typeof(tnp.ones((2, 3)))
    assert (kind.shape, kind.dtype, kind.ndim, kind.size) == ((2, 3), np.dtype("f"), 2, 6)
    assert kind.sharding.mesh.empty and not kind.sharding.mesh.are_all_axes_explicit
    assert one.typeof(2).weak_type and repr(one.Tracer) == "Tracer"


def test_types_of_arrays_on_a_mesh():
    mesh = tfn.make_mesh((1, 1), ("x", "y"))
    sharding = tfn.NamedSharding(mesh, tfn.P("y", None))
    kind = one.typeof(tfn.device_put(np.ones((2, 3), "f"), sharding))
    assert kind.sharding == sharding and str(kind) == "float32[2@y,3]"


def test_settings_are_kept():
    settings = one.Settings()
    settings.update("jax_debug_nans", True)
    assert settings.read("jax_debug_nans") is True and settings.jax_enable_x64 is False
    with one.enable_x64(True):
        pass
