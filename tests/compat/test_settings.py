"""Settings of JAX."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.compat import settings
from tfn.errors import ArgumentError, DTypeError


def test_settings_are_kept():
    config = settings.Settings()
    config.update("jax_log_compiles", True)
    assert config.read("jax_log_compiles") is True and config.jax_enable_x64 is False
    with settings.log_compiles(True):
        assert settings.log_compiles.value is True
    assert settings.log_compiles.value is False


def test_the_environment_decides(monkeypatch):
    own = settings.Settings()
    monkeypatch.setattr(settings, "config", own)
    monkeypatch.setenv("JAX_LOG_COMPILES", "True")
    monkeypatch.setenv("JAX_NUMPY_RANK_PROMOTION", "raise")
    monkeypatch.setenv("JAX_DEBUG_INFS", "0")
    monkeypatch.setenv("JAX_PMAP_SHMAP_MERGE", "")
    settings.from_environment()
    assert own.jax_log_compiles is True and own.jax_numpy_rank_promotion == "raise"
    assert own.jax_debug_infs is False and own.jax_pmap_shmap_merge is True
    monkeypatch.setenv("JAX_ENABLE_X64", "perhaps")
    with pytest.raises(ArgumentError, match="JAX_ENABLE_X64 cannot have this value"):
        settings.from_environment()


def test_64_bits_are_the_default_while_they_are_enabled():
    with settings.enable_x64(True):
        assert settings.config.x64_enabled
        wide = [tnp.zeros(2), tnp.asarray(1.0), tnp.arange(2), tnp.sin(1), tnp.arange(2) / 2]
        wide += [tnp.sum(tnp.ones(2, "int8")), tnp.linspace(0, 1, 3), tfn.jit(lambda x: x)(1)]
        wide += [tfn.random.normal(tfn.random.key(0)), tnp.array([1, 2]), tnp.eye(2)]
        assert {x.dtype for x in wide} == {np.dtype("float64"), np.dtype("int64")}
    narrow = [tnp.zeros(2), tnp.asarray(1.0), tnp.arange(2), tnp.sin(1), tnp.arange(2) / 2]
    assert {x.dtype for x in narrow} == {np.dtype("float32"), np.dtype("int32")}


def test_constants_are_not_recorded_within_ensure_compile_time_eval():
    kinds = []

    @tfn.jit
    def f(x):
        kinds.append(tnp.arange(3).owner is None)
        with settings.ensure_compile_time_eval():
            total = tnp.arange(3).sum()
        kinds.append(total.owner is None)
        return x + total

    assert f(1).item() == 4 and kinds == [False, True]


def test_promotion_can_be_strict():
    half, single, count = tnp.ones(2, "float16"), tnp.ones(2), tnp.arange(2)
    with settings.numpy_dtype_promotion("strict"):
        assert (half * 2.0).dtype == np.float16 and (count + 1).dtype == np.int32
        for x, y in ((half, single), (count, 1.5), (count, half)):
            with pytest.raises(DTypeError, match="strict"):
                tnp.add(x, y)
        with settings.numpy_dtype_promotion("standard"):
            assert (half + single).dtype == np.float32
    assert (half + single).dtype == np.float32 and (count * 1.5).dtype == np.float32


def test_functions_of_matrices_promote_nothing_themselves():
    a = tnp.asarray(np.array([[2.0, 1.0], [1.0, 3.0]], "float32"))
    with settings.numpy_dtype_promotion("strict"):
        for f in (tnp.linalg.inv, tnp.linalg.det, tnp.linalg.slogdet, tfn.scipy.linalg.expm):
            tfn.block_until_ready((f(a), tfn.jacfwd(f)(a)))
        assert tnp.linalg.solve(a, a[0]).tolist() == pytest.approx([1, 0], abs=1e-6)


def test_names_change_nothing():
    with settings.named_scope("layer"):
        assert settings.named_call(abs)(-2) == settings.named_call(name="n")(abs)(-2) == 2
    settings.config.parse_flags_with_absl()


def test_static_indices_are_checked_by_a_setting(monkeypatch):
    monkeypatch.setattr(settings, "_INSTALLED", [True])
    monkeypatch.setattr(settings, "STATIC_CHECKS", checks := [True])
    own = settings.Settings()
    own.update("jax_check_static_indices", False)
    assert checks == [False]
    own.update("jax_check_static_indices", True)
    assert checks == [True]
