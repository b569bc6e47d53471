"""Messages about values that are not there."""

import pytest

import tfn
import tfn.numpy as tnp
from tfn.errors import ConcretizationTypeError
from tfn.trace import concretization


def test_show_is_short():
    assert concretization.show(tnp.ones((64, 128), "bfloat16")) == "bf16[64,128]"
    assert concretization.show(tnp.asarray(1)) == "i32[]"


def test_the_error_names_only_the_arguments_that_matter():
    @tfn.jit
    def loss(params, x, unused):
        y = params["w"] * x
        raise concretization.error(y, ConcretizationTypeError, "its value", "the cure")

    with pytest.raises(ConcretizationTypeError) as caught:
        loss({"w": tnp.ones(3)}, tnp.ones(3), tnp.ones(3))
    assert caught.value.what.startswith("its value is needed, but while loss is being traced")
    assert caught.value.got == "Traced<f32[3] of loss>, which depends on params['w'], x"
    assert caught.value.hint == "the cure"


def test_immutable_says_what_to_write_instead():
    hints = {
        name: concretization.immutable(tnp.ones(2), "", name).hint
        for name in ("", "shape", "dtype")
    }
    assert hints == {
        "": "x = x.at[index].set(value) gives a new array",
        "shape": "x = x.reshape(shape) gives a new array",
        "dtype": "x = x.astype(dtype) gives a new array",
    }


def test_deleted():
    x = tnp.ones(2)
    assert concretization.deleted(x).what == "this array has been deleted: f32[2]"
