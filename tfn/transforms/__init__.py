"""Functions turned into functions: derivatives, batching, compilation.

Files, in reading order:

- ``shapes``: `ShapeDtypeStruct`, the type of an array
- ``annotations``: what jaxtyping says of arguments, held once for each trace
- ``arguments``: what a user's function was given, and how messages name it
- ``tracing``: a user's function run once on fresh leaves
- ``body``: the functions inside loops and branches, opened and closed again
- ``deferred_sums``: sums over the steps of a loop that are better taken after it
- ``scan_rules``: the rows of SCAN in the three tables that follow
- ``while_rules``: the rows of WHILE
- ``cond_rules``: the rows of COND and CALL
- ``callback_rules``: the rows of HOST
- ``kernel_rules``: the rows of KERNEL
- ``custom_rules``: the rows of CUSTOM and LINEAR
- ``jvp``: forward mode: the table `JVP`
- ``cotangents``: the sum of all cotangents of one value
- ``transpose``: reverse mode: the table `TRANSPOSE`
- ``gather_rules``: what the rules of gather and scatter share
- ``tangents``: trees of tangents and cotangents, checked
- ``custom``: a call of a function that has rules of its own
- ``custom_jvp``: `custom_jvp`
- ``custom_vjp``: `custom_vjp`
- ``closure``: `closure_convert`, `custom_gradient`
- ``checkpoint_policies``: what a checkpointed function keeps
- ``checkpoint``: `checkpoint`, `checkpoint_name`
- ``grad``: `grad`, `value_and_grad`, `stop_gradient`
- ``linearize``: `jvp`, `linearize`, `vjp`, `linear_transpose`
- ``batch``: one more axis: the table `BATCH`
- ``jacobian``: `jacfwd`, `jacrev`, `hessian`
- ``vmap``: `vmap`
- ``runtime_checks``: what can go wrong, returned as one more result: the table `CHECKS`
- ``callback``: `pure_callback`, `io_callback`
- ``static_args``: which arguments of a function are static, which are donated
- ``aot``: a function before it is called: traced, lowered, compiled
- ``jit``: `jit`: compiled whole, once for each kind of arguments
- ``call``: `call`: a function that stays one operation
- ``make_jaxpr``: `make_jaxpr`, `eval_shape`
"""

from tfn._support.lazy import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.transforms import runtime_checks as runtime_checks
