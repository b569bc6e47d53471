"""The operations of tfn under the names of JAX's primitives."""

import pytest

import tfn.numpy as tnp
from tfn.compat import op_primitives
from tfn.compat.jaxprs import make_jaxpr
from tfn.compat.names import OP_NAMES


def test_equations_have_these_primitives():
    (equation,) = make_jaxpr(tnp.sin)(1.0).eqns
    assert equation.primitive is op_primitives.sin_p
    assert float(op_primitives.add_p.bind(1.0, 2.0)) == 3.0
    assert "sin_p" in dir(op_primitives)


@pytest.mark.parametrize("name", OP_NAMES)
def test_names_of_lax_are_there(name):
    assert getattr(op_primitives, f"{name}_p").op is op_primitives.OPS[name]


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="no primitive nothing_p"):
        op_primitives.nothing_p  # noqa: B018
