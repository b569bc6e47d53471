"""Named scopes: paths of names, which change nothing that is computed."""

import pytest

import tfn
import tfn.numpy as tnp
from tfn.errors import ArgumentError
from tfn.trace import source_lines
from tfn.trace.op import Op
from tfn.trace.uop import walk


def test_nodes_have_the_path_of_the_scopes_around_them_and_keep_it_in_derivatives():
    def f(x):
        with tfn.named_scope("outer"):
            y = tnp.sin(x)
            with tfn.named_scope("inner"):
                y = tnp.exp(y)
        return tnp.tanh(y)

    with source_lines.tracking():
        nodes = list(walk(tfn.jit(f).trace(1.0).jaxpr.outputs))
        slopes = list(walk(tfn.jit(tfn.grad(f)).trace(1.0).jaxpr.outputs))
        scopes = {u.op: source_lines.scope_of(u) for u in nodes}
        of_cosine = {source_lines.scope_of(u) for u in slopes if u.op is Op.COS}
    assert scopes[Op.SIN] == ("outer",) and scopes[Op.EXP] == ("outer", "inner")
    assert scopes[Op.TANH] == () and of_cosine == {("outer",)}


def test_a_scope_decorates_and_ends_with_an_error():
    @tfn.named_scope("name")
    def f(x):
        assert source_lines.scope() == ("name",)
        raise ValueError

    with pytest.raises(ValueError):
        f(1)
    assert source_lines.scope() == ()
    with pytest.raises(ArgumentError, match="a text as its name"), tfn.named_scope(3):
        pass


def test_a_scope_makes_no_new_program():
    f = tfn.jit(lambda x: x + 1)
    for name in ("a", "b"):
        with tfn.named_scope(name):
            assert f(1.0) == 2
    assert f.cache_info().misses == 1
