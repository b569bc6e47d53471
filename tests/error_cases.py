"""Mistakes that users make, one function each: golden files keep what they are told."""

# ruff: noqa: F722  (names of axes are no Python)

import dataclasses

import numpy as np
from jaxtyping import Float

import tfn
import tfn.numpy as tnp
from tfn import Array, lax, random
from tfn.config import config

X = tnp.arange(6.0).reshape(2, 3)


def concretization():
    return tfn.jit(lambda x, scale: x * float(scale))(X, 2.0)


def tracer_bool():
    @tfn.jit
    def positive(x, limit):
        if x.sum() > limit:
            return x
        return -x

    return positive(X, 1.0)


def tracer_integer():
    @tfn.jit
    def repeat(x, times):
        for _ in range(times):
            x = 2 * x
        return x

    return repeat(X, 3)


def tracer_array():
    return tfn.jit(lambda x: np.sin(x))(X)


def non_concrete_boolean_index():
    return tfn.jit(lambda x: x[x > 1])(X)


def unexpected_tracer():
    kept = []

    @tfn.jit
    def leaky(x):
        kept.append(x * 2)
        return x

    leaky(X)
    return kept[0] + 1


def key_reuse():
    config.key_reuse = False
    try:
        key = random.key(0)
        return random.normal(key, (2,)) + random.uniform(key, (2,))
    finally:
        config.key_reuse = True


def scan_carry():
    def count(carry, x):
        return {"sum": carry["sum"] + x, "n": carry["n"] + 0.5}, x

    return lax.scan(count, {"sum": 0.0, "n": tnp.int32(0)}, X[0])


def while_carry():
    return lax.while_loop(lambda c: c.sum() < 9, lambda c: tnp.concatenate([c, c]), X[0])


def cond_branches():
    return tfn.jit(lambda p: lax.cond(p, lambda: X, lambda: X.astype(int)))(True)


def scan_carry_structure():
    body = lambda carry, x: ({"h": carry["h"] + x}, None)
    return lax.scan(body, {"h": tnp.zeros(3), "n": 0}, X)


def cond_predicate():
    return tfn.jit(lambda x: lax.cond(x > 1, lambda: x, lambda: -x))(X)


def cond_structures():
    return tfn.jit(lambda x: lax.cond(x.sum() > 1, lambda: {"y": x}, lambda: x))(X)


def while_condition():
    return lax.while_loop(lambda x: x < 9, lambda x: 2 * x, X)


def scan_checkpoints():
    return lax.scan(lambda c, x: (c + x, None), tnp.zeros(3), X, checkpoint_every="log")


def rule_missing():
    @tfn.custom_vjp
    def normalize(x):
        return x / tnp.linalg.norm(x)

    return tfn.grad(lambda x: normalize(x).sum())(X[1])


def rule_without_pair():
    @tfn.custom_jvp
    def double(x):
        return 2 * x

    double.defjvp(lambda primals, tangents: 2 * tangents[0])
    return tfn.grad(double)(1.0)


def cotangents_without_tuple():
    @tfn.custom_vjp
    def double(x):
        return 2 * x

    double.defvjp(lambda x: (2 * x, None), lambda _, ct: 2 * ct)
    return tfn.grad(lambda x: double(x).sum())(X)


def cotangent_of_another_shape():
    @tfn.custom_vjp
    def scale(params, x):
        return params["w"] * x

    def backward(kept, ct):
        params, x = kept
        return {"w": (ct * x).sum(0)}, ct * params["w"]

    scale.defvjp(lambda params, x: (params["w"] * x, (params, x)), backward)
    return tfn.grad(lambda params: scale(params, X).sum())({"w": tnp.array(2.0)})


def forward_mode_of_clipping():
    @tfn.custom_vjp
    def clip_gradient(x):
        return x

    clip_gradient.defvjp(lambda x: (x, None), lambda _, ct: (tnp.clip(ct, -1, 1),))
    return tfn.jvp(clip_gradient, (X,), (X,))


def rule_and_captured_value():
    def loss(w):
        @tfn.custom_vjp
        def layer(x):
            return w * x

        layer.defvjp(lambda x: (layer(x), None), lambda _, ct: (ct,))
        return layer(2.0 * w)

    return tfn.grad(loss)(3.0)


def traced_nondiff_argument():
    power = tfn.custom_vjp(lambda x, n: x**n, nondiff_argnums=1)
    return tfn.jit(power)(2.0, 3)


def solve_without_transpose():
    def f(b):
        return lax.custom_linear_solve(lambda x: 2 * x, b, lambda matvec, b: b / 2)

    return tfn.grad(f)(1.0)


def tree_mismatch():
    left = {"layers": [{"w": X, "b": X[0]}, {"w": X}]}
    right = {"layers": [{"w": X, "b": X[0]}, {"v": X}]}
    return tfn.tree.map(lambda x, y: x + y, left, right)


def tree_prefix():
    return tfn.vmap(lambda x, y: x, in_axes=(0, {"a": 0}))(X, {"a": X, "b": X})


def broadcasting():
    return tnp.ones((2, 3)) + tnp.ones((2, 4))


def contraction():
    return tnp.ones((2, 3)) @ tnp.ones((2, 3))


def promotion():
    return lax.add(tnp.ones(3), tnp.arange(3))


def immutable():
    x = tnp.zeros(3)
    x[1] = 5.0
    return x


def shape_in_place():
    x = tnp.zeros(6)
    x.shape = (2, 3)
    return x


def deleted():
    x = tnp.ones(3)
    tfn.jit(lambda x: x + 1, donate_argnums=0)(x)
    return x + 1


def vmap_sizes():
    batch = {"x": tnp.ones((5, 3)), "mask": tnp.ones(5), "weight": tnp.ones((4, 2))}
    return tfn.vmap(lambda w, b: b["x"] @ w, in_axes=(None, 0))(tnp.ones(3), batch)


def static_not_hashable():
    return tfn.jit(lambda x, shape: tnp.reshape(x, shape), static_argnums=1)(X, [3, 2])


def not_an_array():
    return tfn.jit(lambda params: params["w"])({"w": X, "name": ["dense"]})


def list_for_array():
    return tnp.sum([1, 2, 3])


def grad_of_vector():
    return tfn.grad(lambda x: x * 2)(X)


def grad_by_integer():
    return tfn.grad(lambda n: n * 2.0)(3)


def reverse_through_while():
    return tfn.grad(lambda x: lax.while_loop(lambda v: v < 9, lambda v: v * 2, x))(1.0)


def out_of_bounds():
    return X[0, 7]


def axis():
    return X.sum(2)


def dtype():
    return tnp.zeros(3, "int4096")


def annotation():
    @tfn.jit
    def loss(w: Float[Array, "d k"], x: Float[Array, "batch d"]):
        return (x @ w).sum()

    return loss(tnp.ones((4, 2)), tnp.ones((5, 3)))


def annotated_names():
    @tfn.jit
    def loss(w: Float[Array, "d k"], x: Float[Array, "batch d"]):
        return (w @ x).sum()

    return loss(tnp.ones((3, 2)), tnp.ones((5, 3)))


def over_lanes(f, rows=4):
    return tfn.vmap(f, axis_name="lanes")(tnp.ones((rows, 6)))


def collective_outside():
    return lax.psum(X, "data")


def axis_name_unknown():
    return over_lanes(lambda x: lax.all_gather(x, "lane"))


def axis_name_twice():
    return over_lanes(lambda x: lax.pmean(x, ("lanes", "lanes")))


def axis_name_leaked():
    kept = []
    over_lanes(lambda x: kept.append(lax.axis_index("lanes")) or x)
    return kept[0] + 1


def axis_groups_that_do_not_cover():
    return over_lanes(lambda x: lax.psum(x, "lanes", axis_index_groups=[[0, 1], [2]]))


def axis_groups_of_several_sizes():
    return over_lanes(lambda x: lax.all_gather(x, "lanes", axis_index_groups=[[0, 1, 2], [3]]))


def axis_groups_over_two_axes():
    f = lambda x: lax.psum(x, ("lanes", "inner"), axis_index_groups=[[0, 1], [2, 3]])
    return over_lanes(tfn.vmap(f, axis_name="inner"))


def permutation_with_one_destination():
    return over_lanes(lambda x: lax.ppermute(x, "lanes", [(0, 1), (2, 1)]))


def permutation_with_one_source():
    return over_lanes(lambda x: lax.ppermute(x, "lanes", [(3, i) for i in range(4)]))


def permutation_out_of_range():
    return over_lanes(lambda x: lax.ppermute(x, "lanes", [(i, i + 1) for i in range(4)]))


def permutation_of_no_pairs():
    return over_lanes(lambda x: lax.ppermute(x, "lanes", [1, 2, 3, 0]))


def shuffle_of_too_few():
    return over_lanes(lambda x: lax.pshuffle(x, "lanes", [1, 2, 0]))


def scatter_that_does_not_fit():
    return over_lanes(lambda x: lax.psum_scatter(x, "lanes"), 3)


def scatter_that_does_not_divide():
    return over_lanes(lambda x: lax.psum_scatter(x, "lanes", tiled=True))


def split_that_does_not_fit():
    return over_lanes(lambda x: lax.all_to_all(x, "lanes", 0, 0))


def source_out_of_range():
    return over_lanes(lambda x: lax.pbroadcast(x, "lanes", source=4))


def largest_complex_number():
    return over_lanes(lambda x: lax.pmax(x + 1j, "lanes"))


def cast_to_another_type():
    return over_lanes(lambda x: lax.pcast(x, "lanes", to="unreduced"))


def mesh():
    devices = [tfn.Device("cpu", i) for i in range(8)]
    return tfn.sharding.Mesh(np.array(devices, object).reshape(2, 4), ("x", "y"))


def over(*spec):
    return tfn.NamedSharding(mesh(), tfn.P(*spec))


def mesh_axis_unknown():
    return over("z")


def mesh_axis_twice():
    return over("x", ("y", "x"))


def mesh_of_too_many_devices():
    return tfn.make_mesh((4, 2), ("x", "y"))


def mesh_of_too_few_names():
    return tfn.make_mesh((1, 1), ("x",))


def mesh_of_too_few_axis_types():
    return tfn.sharding.Mesh(mesh().devices, ("x", "y"), (tfn.sharding.AxisType.Auto,))


def sharding_of_something_that_is_no_device():
    return tfn.sharding.SingleDeviceSharding("python:0")


def sharding_whose_device_is_replaced_by_none():
    one = tfn.sharding.SingleDeviceSharding(tfn.devices("python")[0])
    return dataclasses.replace(one, device=None)


def sharding_longer_than_the_shape():
    return over("x", "y").shard_shape((4,))


def sharding_that_does_not_divide():
    return over("x", "y").shard_shape((4, 6))


def sharding_of_a_missing_device():
    return tfn.device_put(X, tfn.NamedSharding(mesh().update(mesh().devices[1:]), tfn.P()))


def spec_without_a_mesh():
    return tfn.device_put(X, tfn.P("x"))


def arguments_on_different_devices():
    @tfn.jit
    def scaled(x, scale):
        return x * scale

    python, null = tfn.devices("python")[0], tfn.devices("null")[0]
    return scaled(tfn.device_put(X, python), tfn.device_put(2.0, null))


def operands_on_different_devices():
    python, null = tfn.devices("python")[0], tfn.devices("null")[0]
    return tfn.device_put(X, python) * tfn.device_put(2.0, null)


def argument_under_another_sharding():
    def scaled(x):
        return x * 2

    one = tfn.sharding.SingleDeviceSharding(tfn.devices("null")[0])
    return tfn.jit(scaled, in_shardings=one)(tfn.device_put(X, tfn.devices("python")[0]))


def shardings_of_too_many_arguments():
    def scaled(x):
        return x * 2

    one = tfn.sharding.SingleDeviceSharding(tfn.devices("python")[0])
    return tfn.jit(scaled, in_shardings=(one, one))(X)


def shard_mapped(f, *args, **options):
    """On one device: errors about specs are the same for a mesh of any size."""
    options = {"in_specs": tfn.P("x"), "out_specs": tfn.P("x")} | options
    return tfn.shard_map(f, mesh=tfn.make_mesh((1, 1), ("x", "y")), **options)(*args)


def shard_map_without_a_mesh():
    return tfn.shard_map(tnp.tanh, in_specs=tfn.P("x"), out_specs=tfn.P("x"))(X)


def shard_map_over_an_axis_the_mesh_lacks():
    return shard_mapped(tnp.tanh, X, in_specs=tfn.P("rows"))


def shard_map_with_the_same_axis_twice():
    return shard_mapped(tnp.tanh, X, in_specs=tfn.P("x", "x"))


def shard_map_spec_longer_than_the_shape():
    return shard_mapped(lambda scale: scale * 2, 3.0, in_specs=tfn.P("x"))


def shard_map_spec_of_a_scalar_result():
    return shard_mapped(lambda x: lax.psum(x.sum(), "x"), X)


def shard_map_result_that_is_not_reduced():
    return shard_mapped(lambda x: x.sum(), X, out_specs=tfn.P())


def shard_map_result_over_another_axis():
    return shard_mapped(lambda x: lax.psum(x, "x"), X, in_specs=tfn.P("x", "y"), out_specs=tfn.P())


def shard_map_specs_of_too_many_arguments():
    return shard_mapped(lambda x: x, X, in_specs=(tfn.P("x"), tfn.P()))


def shard_map_specs_of_other_results():
    return shard_mapped(lambda x: (x, x), X, out_specs=(tfn.P("x"),))


def shard_map_spec_over_an_axis_that_is_not_manual():
    return shard_mapped(tnp.tanh, X, in_specs=tfn.P("y"), axis_names={"x"})


def shard_map_manual_over_an_axis_the_mesh_lacks():
    return shard_mapped(tnp.tanh, X, axis_names={"rows"})


def shard_map_spec_that_is_text():
    return shard_mapped(tnp.tanh, X, in_specs="x")


def shard_map_exchange_over_an_axis_that_is_not_manual():
    return shard_mapped(lambda x: lax.psum(x, "y"), X, axis_names={"x"})


EXPLICIT = tfn.sharding.AbstractMesh((4, 2), ("x", "y"), tfn.sharding.AxisType.Explicit)


def traced_over_explicit_axes(f, *specs):
    """Trace a function of arrays f32[8,8] that are divided over explicit axes."""
    shardings = [tfn.NamedSharding(EXPLICIT, spec) for spec in specs]
    return tfn.eval_shape(
        f, *(tfn.ShapeDtypeStruct((8, 8), "float32", sharding=s) for s in shardings)
    )


ROWS, COLUMNS, OTHER_ROWS = tfn.P("x"), tfn.P(None, "y"), tfn.P("y")


def explicit_sum_of_arrays_divided_otherwise():
    return traced_over_explicit_axes(lambda a, b: a + b, ROWS, OTHER_ROWS)


def explicit_product_over_a_divided_axis():
    return traced_over_explicit_axes(lambda a, b: a @ b, COLUMNS, OTHER_ROWS)


def explicit_product_with_an_axis_twice():
    return traced_over_explicit_axes(lambda a, b: a @ b, OTHER_ROWS, COLUMNS)


def explicit_reshape_of_a_minor_axis():
    return traced_over_explicit_axes(lambda a: a.reshape(64), COLUMNS)


def explicit_reshape_that_does_not_divide():
    return traced_over_explicit_axes(lambda a: a.reshape(2, 4, 8), ROWS)


def explicit_sort_along_a_divided_axis():
    return traced_over_explicit_axes(lambda a: tnp.sort(a, 0), ROWS)


def explicit_lookup_in_a_divided_axis():
    return traced_over_explicit_axes(lambda a: a[np.array([1, 2])], ROWS)


def explicit_update_of_a_divided_axis():
    return traced_over_explicit_axes(lambda a: a.at[1].set(0.0), ROWS)


def explicit_lookup_of_divided_rows_by_divided_indices():
    rows = lambda a, b: a[b.astype(int)[:, 0]]
    return traced_over_explicit_axes(rows, COLUMNS, ROWS)


def explicit_scan_over_a_divided_axis():
    return traced_over_explicit_axes(lambda a: lax.scan(lambda c, x: (c, x), 0.0, a), ROWS)


def explicit_carry_divided_otherwise():
    def total(a):
        return lax.scan(lambda c, x: (c + x, None), tnp.zeros(8), a)

    return traced_over_explicit_axes(total, COLUMNS)


def explicit_branches_divided_otherwise():
    def either(a, b):
        return lax.cond(a.sum() > 0, lambda: a, lambda: b)

    return traced_over_explicit_axes(either, ROWS, COLUMNS)


def explicit_lanes_divided_otherwise():
    return traced_over_explicit_axes(tfn.vmap(tnp.add), ROWS, OTHER_ROWS)


def explicit_constraint_that_does_not_hold():
    columns = tfn.NamedSharding(EXPLICIT, COLUMNS)
    return traced_over_explicit_axes(lambda a: lax.with_sharding_constraint(a, columns), ROWS)


def explicit_function_of_unreduced_parts():
    return traced_over_explicit_axes(tnp.exp, tfn.P("x", unreduced={"y"}))


def explicit_sum_of_reduced_and_not():
    return traced_over_explicit_axes(tnp.add, tfn.P("x", reduced={"y"}), ROWS)


def spec_with_an_axis_in_two_roles():
    return tfn.P("x", unreduced={"x"})


def spec_with_a_name_for_a_set():
    return tfn.P(None, reduced="x")


def auto_axes_without_the_sharding_of_the_result():
    return traced_over_explicit_axes(tfn.sharding.auto_axes(tnp.exp), ROWS)


def auto_axes_over_an_axis_that_the_mesh_lacks():
    exp = tfn.sharding.auto_axes(tnp.exp, axes="rows", out_sharding=over("x"))
    return traced_over_explicit_axes(exp, ROWS)


def explicit_axes_without_shardings():
    return tfn.sharding.explicit_axes(tnp.exp)(X)


CASES = [
    f
    for name, f in list(globals().items())
    if getattr(f, "__module__", "") == __name__
    and name not in ("over_lanes", "over", "mesh", "shard_mapped", "traced_over_explicit_axes")
]
