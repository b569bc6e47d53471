"""The operations of tfn under the names of JAX's primitives."""

import pytest

import tfn
import tfn.numpy as tnp
from tests.covering import together
from tfn.compat import op_primitives
from tfn.compat.jaxprs import make_jaxpr, primitive_of
from tfn.compat.names import OP_NAMES


def test_equations_have_these_primitives():
    (equation,) = make_jaxpr(tnp.sin)(1.0).eqns
    assert equation.primitive is op_primitives.sin_p
    assert float(op_primitives.add_p.bind(1.0, 2.0)) == 3.0
    assert "sin_p" in dir(op_primitives)


@together("name", OP_NAMES)
def test_names_of_lax_are_there(name):
    primitive = getattr(op_primitives, f"{name}_p")
    assert primitive is getattr(op_primitives, f"{name}_p") and primitive.composed
    assert (str(primitive) == name) or primitive is primitive_of(op_primitives.OPS[name])


def test_primitives_of_several_operations():
    assert float(op_primitives.square_p.bind(3.0)) == 9.0
    assert float(tfn.grad(lambda x: op_primitives.integer_pow_p.bind(x, y=3))(2.0)) == 12.0
    assert complex(tfn.jit(op_primitives.conj_p.bind)(1j)) == -1j


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="no primitive nothing_p"):
        op_primitives.nothing_p  # noqa: B018
