"""Function transforms: derivatives, batching, compilation.

Files, in reading order:

- ``shapes``: `ShapeDtypeStruct`, the type of an array
- ``annotations``: checks of jaxtyping annotations, once for each trace
- ``arguments``: the arguments of a user's function, and their names in messages
- ``tracing``: a user's function run once on fresh leaves
- ``body``: bodies of loops and branches, opened and closed again; residuals
- ``deferred_sums``: deferred accumulation: sums over the steps of a loop, computed after it
- ``region_rules``: the rows of loops, branches and calls in `JVP`, `TRANSPOSE` and `BATCH`
- ``scan_rules``: the rows of SCAN
- ``while_rules``: the rows of WHILE
- ``cond_rules``: the rows of COND and CALL
- ``callback_rules``: the rows of HOST
- ``kernel_rules``: the rows of KERNEL, a custom kernel
- ``custom_rules``: the rows of CUSTOM and LINEAR
- ``jvp``: the forward pass of differentiation: the table `JVP`
- ``cotangents``: accumulation of the cotangents of one value
- ``transpose``: the backward pass: the table `TRANSPOSE`
- ``gather_rules``: helpers for the rules of gather and scatter
- ``tangents``: trees of tangents and cotangents, checked
- ``custom``: a call of a function that has rules of its own
- ``custom_jvp``: `custom_jvp`
- ``custom_vmap``: `custom_vmap`
- ``custom_vjp``: `custom_vjp`
- ``closure``: `closure_convert`, `custom_gradient`
- ``checkpoint_policies``: the values that a checkpointed function stores
- ``checkpoint``: rematerialisation: `checkpoint`, `checkpoint_name`
- ``grad``: `grad`, `value_and_grad`, `stop_gradient`
- ``linearize``: `jvp`, `linearize`, `vjp`, `linear_transpose`
- ``batch``: batching rules: the table `BATCH`
- ``jacobian``: `jacfwd`, `jacrev`, `hessian`
- ``vmap``: `vmap`
- ``runtime_checks``: run-time checks as one more result: the table `CHECKS`
- ``callback``: `pure_callback`, `io_callback`
- ``static_args``: selections of arguments: static ones, donated ones
- ``aot``: ahead-of-time compilation: traced, lowered, compiled
- ``jit``: just-in-time compilation: `jit`
- ``disable``: `disable_jit`
- ``shard``: many devices: named axes, `shard_map`, `pmap`, the partitioner
- ``call``: `call`: a function that stays one operation
- ``specialize``: functions for values that are known: constants, parameters that go
- ``make_jaxpr``: `make_jaxpr`, `eval_shape`
"""

from tfn._support.lazy import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.transforms import runtime_checks as runtime_checks
    from tfn.transforms import specialize as specialize
