"""Inspection of the namespace, as the array API standard defines it."""

import numpy as np
import pytest

import tfn.numpy as tnp
from tfn.errors import ArgumentError, DTypeError
from tfn.numpy.inspection import KINDS


def test_namespace():
    x = tnp.ones(2)
    assert x.__array_namespace__() is tnp and tnp.__array_api_version__ == "2024.12"
    assert x.__array_namespace__(api_version="2022.12") is tnp
    with pytest.raises(ArgumentError, match="not the array API 1999"):
        x.__array_namespace__(api_version="1999")
    info = tnp.__array_namespace_info__()
    assert info.default_device() in info.devices() and x.device in info.devices()
    assert info.default_dtypes()["integral"] == tnp.int32
    assert set(info.dtypes(kind="signed integer")) == {"int8", "int16", "int32", "int64"}
    assert "bool" in info.dtypes() and "bfloat16" not in info.dtypes()
    assert set(info.dtypes(kind=("bool", "complex floating"))) == {
        "bool",
        "complex64",
        "complex128",
    }


def test_kinds():
    for kind, members in KINDS.items():
        for dtype in members:
            assert tnp.isdtype(dtype, kind) and tnp.isdtype(dtype, ("bool", kind))
    assert not tnp.isdtype("float32", "integral") and tnp.isdtype(np.int8, tnp.int8)
    with pytest.raises(DTypeError):
        tnp.isdtype("float32", "colourful")


def test_casts_by_promotion():
    assert tnp.can_cast("uint8", "int16") and not tnp.can_cast("int16", "uint8")
    assert tnp.can_cast(tnp.ones(1), "float64") and tnp.can_cast("bfloat16", "float32")


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_limits_of_floats(name):
    got, want = tnp.finfo(name), np.finfo(name)
    exponents = ("nexp", "iexp", "machep", "negep", "minexp", "maxexp")
    numbers = ("eps", "epsneg", "max", "min", "tiny", "smallest_normal", "resolution")
    for key in (*exponents, *numbers, "bits", "nmant", "precision"):
        assert getattr(got, key) == getattr(want, key), key
    assert type(got.eps) is float and got.dtype == want.dtype
    assert tnp.finfo(tnp.ones(1, name)) == got
    assert tnp.iinfo(tnp.ones(1, "int8")).max == 127
    assert tnp.finfo("complex64") == tnp.finfo("float32")
    with pytest.raises(DTypeError, match="floating dtype"):
        tnp.finfo("int8")


def test_questions_about_values():
    assert tnp.isscalar(1) and tnp.isscalar(tnp.array(1)) and not tnp.isscalar([1])
    assert tnp.iterable(tnp.ones(2)) and not tnp.iterable(tnp.ones(()))
    assert tnp.array_repr(tnp.array([1.23456]), precision=2) == "Array([1.23], dtype=float32)"
    assert tnp.array_str(tnp.array([1.23456]), precision=2) == "[1.23]"


def test_kinds_of_casts():
    pairs = [("int32", "int8"), ("float64", "float32"), ("float32", "int32"), ("bool", "int8")]
    for casting in ("no", "equiv", "same_kind", "unsafe"):
        for pair in [*pairs, ("int8", "int8")]:
            assert tnp.can_cast(*pair, casting) == np.can_cast(*pair, casting)
    assert not tnp.can_cast("int4", "int8") and tnp.can_cast("int4", "int2", "same_kind")
    with pytest.raises(ArgumentError):
        tnp.can_cast("int8", "int8", "other")


def test_nothing_has_no_dtype():
    with pytest.raises(ArgumentError, match="result_type needs at least one"):
        tnp.result_type()
