"""Bases of types and primitives that a library defines."""

import pytest

from tfn.compat import hijax
from tfn.errors import NotAvailableError


def test_classes_can_be_derived_and_not_used():
    class Change(hijax.Effect):
        pass

    class Get(hijax.HiPrimitive):
        pass

    hijax.control_flow_allowed_effects.add_type(Change)
    assert Change in hijax.control_flow_allowed_effects.types
    hijax.register_hitype(Change, type)
    with pytest.raises(NotAvailableError, match="get_state"):
        Get("get_state").bind(1)
    assert hijax.AvalQDD(1, 2).qdd == hijax.AvalMutableQDD(1, 2).mutable_qdd
    assert hijax.aval_property(abs).fget is hijax.aval_method(abs).fun
