"""The names under which derivatives of the user's own are found."""

import tfn


def test_names_are_those_of_the_face():
    found = tfn.custom_derivatives
    for name in ("custom_jvp", "custom_vjp", "custom_gradient", "closure_convert"):
        assert getattr(found, name) is getattr(tfn, name)
    assert found.SymbolicZero((2,), "float32").shape == (2,)
    assert found.CustomVJPPrimal(1.0, True).perturbed
