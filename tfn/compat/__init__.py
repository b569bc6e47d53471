"""Libraries written on JAX's public names, run on tfn unmodified.

Files in reading order:
    avals          types of values: `ShapedArray`, `typeof`, `Tracer`
    zeros          symbolic zeros, and unknown operands of transposes
    primitives     `Primitive`: primitives of the user, and the tables of their rules
    mlir           lowering rules of primitives: `register_lowering`, `lower_fun`
    linear_util    functions with parameters given: `wrap_init`
    jaxprs         jaxprs as equations: `make_jaxpr`, `eval_jaxpr`
    op_primitives  the operations of tfn under the names of JAX's primitives
    composed_primitives  JAX's primitives that tfn computes by several operations
    functions      functions over flat lists of leaves, and partial evaluation
    settings       ``jax.config``, and blocks in which a setting is changed
    transforms     `jit`, callbacks and `device_get` as JAX has them
    control_flow   `cond` and `fori_loop` in their other forms
    contraction    `einsum` by a product of the user's own
    test_util      derivatives checked against finite differences
    mesh_utils     devices arranged for a mesh, by hosts
    multihost_utils  agreement of processes, of which there is one
    monitoring     events and their listeners
    ref            functions of references, and their type
    hijax          bases of types and primitives that a library defines
    private        private parts of JAX that libraries import
    key_arrays     functions that move elements, of random keys
    ufuncs         methods of functions of two arrays: `reduce`, `accumulate`, `outer`, `at`
    omitted        arguments of JAX that tfn has not, which `import jax` accepts
    lax            hints for products, and functions for XLA's sake
    hlo            operations of StableHLO, for rules that build them
    interpreters   rules of whole kinds of primitives: defjvp, deflinear, defvectorized
    core           small parts of JAX's core: jaxprs, traces, trees, dtypes
    treedefs       structures of trees, taken apart and made: `PyTreeDef`
    export         functions as bytes: `export`, `Exported`
    optimizers     optimisers as triples of functions
    stax           layers as pairs of functions
    backend        platforms, as clients of XLA are asked for theirs
    attributes     attributes of arrays that only JAX's have
    names          the table: each module of JAX, and the modules of tfn that have its names
    install        `install_as_jax`: modules made from the table, which ``import jax`` returns
    __main__       ``python -m tfn.compat train.py``
"""

from tfn.compat.install import install_as_jax as install_as_jax
