"""Primitives of the user: evaluated, compiled, differentiated, transposed and batched by rules."""

import numpy as np
import pytest

import tfn
import tfn.numpy as tnp
from tfn.compat import primitives
from tfn.compat.avals import ShapedArray
from tfn.compat.mlir import lower_fun, register_lowering
from tfn.compat.primitives import Primitive
from tfn.compat.zeros import UndefinedPrimal, Zero
from tfn.errors import ArgumentError, MissingRuleError


@pytest.fixture
def scaled():
    """``scaled_p.bind(x, by=n)``: a linear primitive with all rules, and the calls of each."""
    scaled_p, calls = Primitive("scaled"), []
    scaled_p.def_impl(lambda x, *, by: x * by)
    scaled_p.def_abstract_eval(lambda x, *, by: x)

    def jvp(primals, tangents, *, by):
        calls.append(("jvp", type(tangents[0])))
        (x,), (dx,) = primals, tangents
        return scaled_p.bind(x, by=by), dx if type(dx) is Zero else scaled_p.bind(dx, by=by)

    def transpose(ct, x, *, by):
        calls.append(("transpose", type(x)))
        return [scaled_p.bind(ct, by=by)]

    def batch(operands, axes, *, by):
        calls.append(("batch", axes))
        return scaled_p.bind(*operands, by=by), axes[0]

    primitives.primitive_jvps[scaled_p] = jvp
    primitives.primitive_transposes[scaled_p] = transpose
    primitives.primitive_batchers[scaled_p] = batch
    register_lowering(scaled_p, lower_fun(lambda x, *, by: by * x, multiple_results=False))
    yield scaled_p, calls
    for table in (
        primitives.primitive_jvps,
        primitives.primitive_transposes,
        primitives.primitive_batchers,
        primitives.lowerings,
    ):
        del table[scaled_p]


def test_rules_of_primitives_are_called(scaled):
    scaled_p, calls = scaled
    f = lambda x: scaled_p.bind(x, by=3.0)
    assert float(f(2.0)) == 6.0 and float(tfn.jit(f)(2.0)) == 6.0 and not calls
    assert float(tfn.jvp(f, (2.0,), (1.0,))[1]) == 3.0
    assert [name for name, _ in calls] == ["jvp"]
    assert float(tfn.jit(tfn.grad(f))(2.0)) == 3.0
    assert ("transpose", UndefinedPrimal) in calls
    xs = tnp.arange(6.0).reshape(2, 3)
    ys = tfn.jit(tfn.vmap(f, in_axes=1, out_axes=1))(xs)
    np.testing.assert_array_equal(ys, 3 * np.asarray(xs))
    assert ("batch", (0,)) in calls
    np.testing.assert_array_equal(tfn.vmap(tfn.grad(f))(tnp.ones(3)), [3.0, 3.0, 3.0])


def test_batching_rules_may_return_what_is_the_same_in_all_lanes():
    any_p = Primitive("any_lane")
    any_p.def_impl(lambda x: x)
    any_p.def_abstract_eval(lambda x: x)
    primitives.primitive_batchers[any_p] = lambda xs, axes: (xs[0].any(axes[0]), None)
    try:
        xs = tnp.asarray([False, True])
        assert tfn.vmap(any_p.bind, out_axes=None)(xs).item() is True
        loop = tfn.vmap(
            lambda n: tfn.lax.while_loop(lambda i: any_p.bind(i < n), lambda i: i + 1, 0)
        )
        assert loop(tnp.asarray([1, 4])).tolist() == [4, 4]
    finally:
        del primitives.primitive_batchers[any_p]


def test_axis_batchers_get_the_size():
    sized_p, sizes = Primitive("sized"), []
    sized_p.def_impl(lambda x: x)

    def batch(size, name, trace_type, operands, axes):
        sizes.append(size)
        return operands[0], axes[0]

    primitives.axis_primitive_batchers[sized_p] = batch
    try:
        assert tfn.vmap(sized_p.bind)(tnp.arange(3)).tolist() == [0, 1, 2] and sizes == [3]
    finally:
        del primitives.axis_primitive_batchers[sized_p]


def test_primitives_have_several_results():
    both_p = Primitive("both")
    both_p.multiple_results = True
    both_p.def_impl(lambda x, y: [x + y, x * y])
    assert [float(x) for x in tfn.jit(lambda x: both_p.bind(x, 3.0))(2.0)] == [5.0, 6.0]
    # Without rules the implementation is batched, as any function is.
    total, product = tfn.vmap(both_p.bind)(tnp.arange(2.0), tnp.ones(2))
    assert total.tolist() == [1.0, 2.0] and product.tolist() == [0.0, 1.0]


def test_primitives_run_on_the_host_if_they_cannot_be_traced():
    host_p = Primitive("host")
    host_p.def_impl(lambda x: tnp.asarray(np.sort(np.asarray(x))))
    host_p.def_abstract_eval(lambda x: ShapedArray(x.shape, x.dtype))
    register_lowering(host_p, lambda context, x: None)
    try:
        assert tfn.jit(host_p.bind)(tnp.asarray([2.0, 1.0])).tolist() == [1.0, 2.0]
    finally:
        del primitives.lowerings[host_p]


def test_missing_rules_are_named():
    bare_p = Primitive("bare")
    with pytest.raises(MissingRuleError, match="bare has no implementation"):
        bare_p.bind(1.0)
    bare_p.def_impl(lambda x: x)
    with pytest.raises(NotImplementedError, match="bare has no derivative"):
        tfn.grad(bare_p.bind)(1.0)


def test_abstract_evaluation_is_held():
    wrong_p = Primitive("wrong")
    wrong_p.def_impl(lambda x: x)
    wrong_p.def_abstract_eval(lambda x: ShapedArray((2,), x.dtype))
    with pytest.raises(ArgumentError, match="wrong does not give what its abstract_eval says"):
        tfn.jit(wrong_p.bind)(1.0)


@pytest.mark.parametrize("wrap", [lambda f: f, tfn.checkpoint, tfn.jit])
def test_arrays_that_a_batching_rule_captures_reach_the_body_of_a_loop(wrap):
    factor = tnp.asarray(3.0)
    p = Primitive("triple")
    p.def_impl(lambda x: x * 3)
    primitives.primitive_jvps[p] = lambda xs, dxs: (p.bind(*xs), p.bind(*dxs))
    primitives.primitive_batchers[p] = lambda xs, axes: (xs[0] * factor, axes[0])

    def run(x):
        step = wrap(lambda y: tnp.sin(p.bind(y)))
        return tfn.lax.scan(lambda y, _: (step(y), None), x, length=2)[0]

    xs = tnp.asarray([0.1, 0.2])
    for f in (run, tfn.grad(run)):
        together = tfn.jit(tfn.vmap(f))(xs)
        assert tnp.allclose(together, tnp.stack([f(x) for x in xs]), rtol=1e-5)
    twice = tfn.jit(tfn.vmap(tfn.vmap(run)))(tnp.stack([xs, xs]))
    assert tnp.allclose(twice[1], tnp.stack([run(x) for x in xs]))
