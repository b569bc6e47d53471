"""The table of JAX's public modules, and the modules of tfn that have their names.

A row is a module of JAX, the module of tfn that has its names under the same names, if there is
one, and those that are elsewhere: ``"module:name"``, or ``"module"`` for a module itself.  Names
are looked up when they are first used, so a row may name what few libraries need.
"""

from __future__ import annotations

from dataclasses import field

from tfn.extend import frozen

VERSION = "0.10.2"
"""The version of JAX whose public names these are: some libraries ask."""

AVALS, FUNCTIONS, JAXPRS = "tfn.compat.avals", "tfn.compat.functions", "tfn.compat.jaxprs"
MLIR, PRIMITIVES, SETTINGS = "tfn.compat.mlir", "tfn.compat.primitives", "tfn.compat.settings"
HIJAX, OPS = "tfn.compat.hijax", "tfn.compat.op_primitives"
PRIVATE = "tfn.compat.private"
TRANSFORMS, ZEROS = "tfn.compat.transforms", "tfn.compat.zeros"
DTYPES, ERRORS, TREE = "tfn.dtypes", "tfn.errors", "tfn.tree_util"
COMPOSED = "tfn.compat.composed_primitives"
LAX, SPARSE = "tfn.compat.lax", "tfn.experimental.sparse"
PARTS, INTERPRETERS, HLO = "tfn.compat.core", "tfn.compat.interpreters", "tfn.compat.hlo"


@frozen
class Names:
    """The names of a module of JAX: those of the module `source`, and the rows of `elsewhere`.

    Names in `absent` can be imported, because libraries import what few of their functions use;
    their use raises an error with the reason.  They are looked for in `source` first.
    """

    source: str | None = None
    elsewhere: dict[str, str] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)


def _from(module: str, *names: str) -> dict[str, str]:
    """Rows for names that a module has under the same names."""
    return {name: f"{module}:{name}" for name in names}


# fmt: off
LAWS = (
    "bernoulli", "beta", "betabinom", "binom", "cauchy", "chi2", "dirichlet", "expon", "gamma",
    "gennorm", "geom", "gumbel_l", "gumbel_r", "laplace", "logistic", "multinomial",
    "multivariate_normal", "nbinom", "norm", "pareto", "poisson", "t", "truncnorm", "uniform",
    "vonmises", "wrapcauchy",
)
"""The modules of jax.scipy.stats, each of one distribution."""

OP_NAMES = (
    "abs", "acos", "acosh", "add", "and", "asin", "asinh", "atan", "atan2", "atanh",
    "broadcast_in_dim", "cbrt", "ceil", "complex", "concatenate", "cond", "conj",
    "conv_general_dilated", "convert_element_type", "cos", "cosh", "digamma", "div",
    "dot_general", "eq", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "floor", "gather",
    "imag", "integer_pow", "iota", "le", "lgamma", "log", "log1p", "logistic", "lt", "max",
    "min", "mul", "ne", "neg", "not", "or", "pad", "pow", "real", "rem", "reshape", "rev",
    "round", "rsqrt", "scan", "scatter", "select_n", "sign", "sin", "sinh", "slice", "sort",
    "sqrt", "square", "stop_gradient", "sub", "tan", "tanh", "transpose", "while", "xor",
    "bitcast_convert_type", "fft", "optimization_barrier", "shift_left",
    "shift_right_arithmetic",
)
"""The primitives of `tfn.compat.op_primitives` that jax.lax has."""

COMPOSED_NAMES = (
    "argmax", "argmin", "axis_index", "bessel_i0e", "bessel_i1e", "clamp", "clz", "copy",
    "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum", "dynamic_slice",
    "dynamic_update_slice", "ge", "gt", "igamma", "igamma_grad_a", "igammac",
    "is_finite", "nextafter", "pmax", "pmin", "polygamma", "population_count", "ppermute", "psum",
    "random_gamma_grad", "reduce_and", "reduce_max", "reduce_min", "reduce_or",
    "reduce_precision", "reduce_prod", "reduce_sum", "reduce_window_max", "reduce_window_min",
    "reduce_window_sum", "reduce_xor", "regularized_incomplete_beta", "scatter_add",
    "scatter_max", "scatter_min", "scatter_mul", "scatter_sub", "shift_right_logical", "split",
    "squeeze", "tile", "top_k", "zeta",
)
LINALG_NAMES = (
    "cholesky", "eigh", "householder_product", "lu", "lu_pivots_to_permutation", "qr", "svd",
    "triangular_solve", "tridiagonal_solve",
)
"""The primitives of `tfn.compat.composed_primitives` that jax.lax and jax.lax.linalg have."""

TYPES = _from(
    AVALS, "ShapedArray", "Tracer", "AbstractValue", "mapped_aval", "unmapped_aval",
) | {"get_aval": f"{AVALS}:typeof", "raise_to_shaped": f"{AVALS}:typeof",
     "valid_jaxtype": f"{AVALS}:is_array_type"}
FUNCTIONS_OF_JAXPRS = _from(
    JAXPRS, "Jaxpr", "ClosedJaxpr", "JaxprEqn", "Var", "Literal", "Atom", "eval_jaxpr",
    "jaxpr_as_fun", "subjaxprs", "jaxprs_in_params",
)
TRACES = _from(FUNCTIONS, "find_top_trace", "get_opaque_trace_state", "trace_state_clean")
CORE = {
    "Effect": f"{HIJAX}:Effect", "Trace": f"{HIJAX}:Trace", "Primitive": f"{PRIMITIVES}:Primitive",
    "pytype_aval_mappings": f"{PRIVATE}:TYPES_OF",
    **TYPES, **FUNCTIONS_OF_JAXPRS, **TRACES,
}
BLOCKS = _from(
    SETTINGS, "config", "enable_x64", "disable_jit", "debug_nans", "debug_infs",
    "debug_key_reuse", "numpy_dtype_promotion", "numpy_rank_promotion",
    "default_matmul_precision", "default_prng_impl", "enable_checks",
    "enable_custom_prng", "check_tracer_leaks", "checking_leaks", "log_compiles",
    "threefry_partitionable", "transfer_guard", "ensure_compile_time_eval", "named_scope",
    "named_call", "allow_f16_reductions", "array_garbage_collection_guard", "auto_pcast",
    "explain_cache_misses", "jax2tf_associative_scan_reductions", "legacy_prng_key",
    "no_execution", "no_tracing", "remove_size_one_mesh_axis_from_type", "softmax_custom_jvp",
    "thread_guard", "transfer_guard_device_to_device", "transfer_guard_device_to_host",
    "transfer_guard_host_to_device")

DEFAULT_WIDTHS = {"float": 64, "int": 64, "complex": 128}
"""The bits of `jnp.float_` and others; arrays of them have 32 or 64 unless 64 bits are enabled."""

MODULES: dict[str, Names] = {
    "jax": Names("tfn", {
        **_from(SETTINGS, "__version__", "__version_info__"),
        "Device": "tfn.trace.mesh:Device",
        **BLOCKS,
        **_from(
            TRANSFORMS, "jit", "pure_callback", "device_get", "grad", "jvp", "value_and_grad", "vjp"
        ),
        "remat": "tfn:checkpoint",
        "jacobian": "tfn:jacrev",
        "typeof": f"{AVALS}:typeof",
        "make_jaxpr": f"{JAXPRS}:make_jaxpr",
        "float0": f"{AVALS}:float0",
        **_from("tfn.compat.ref", "empty_ref", "free_ref"),
        "ds": "tfn.experimental.pallas:ds",
        **_from(
            PARTS, "copy_to_host_async", "fwd_and_bwd", "host_count",
            "host_id", "host_ids", "print_environment_info",
        ),
    }),
    "jax.numpy": Names("tfn.numpy", {
        "einsum": "tfn.compat.contraction:einsum",
        "ComplexWarning": "numpy.exceptions:ComplexWarning",
        "finfo": "tfn.dtypes:finfo",  # whose limits are scalars of the dtype
        **_from("numpy", "ndim", "shape", "size"),
        **{f"{name}_": f"tfn.numpy:{name}{bits}" for name, bits in DEFAULT_WIDTHS.items()},
        "uint": "tfn.numpy:uint64",
    }),
    "jax.numpy.linalg": Names("tfn.numpy.linalg"),
    "jax.numpy.fft": Names("tfn.numpy.fft"),
    "jax.lax": Names("tfn.lax", {
        "dtype": f"{AVALS}:dtype_of",
        **_from("tfn.compat.control_flow", "cond", "fori_loop"),
        **_from(
            LAX, "AccuracyMode", "DotAlgorithm", "DotAlgorithmPreset", "DotDimensionNumbers",
            "Tolerance", "dce_sink", "index_take", "scaled_dot",
            "scatter_apply",
        ),
        **{f"{name}_p": f"{OPS}:{name}_p" for name in OP_NAMES},
        **{f"{name}_p": f"{COMPOSED}:{name}_p" for name in COMPOSED_NAMES},
    }),
    "jax.lax.linalg": Names("tfn.lax.linalg", {
        f"{name}_p": f"{COMPOSED}:{name}_p" for name in LINALG_NAMES}),
    "jax.random": Names("tfn.random", _from(PARTS, "key_dtype")),
    "jax.tree": Names("tfn.tree", _from(PARTS, "static")),
    "jax.tree_util": Names(TREE, {
        "default_registry": f"{PRIVATE}:REGISTRY",
        "PyTreeDef": "tfn.compat.treedefs:PyTreeDef",
        **_from(PARTS, "flatten_one_level", "is_tree_node"),
    }),
    "jax.flatten_util": Names("tfn.flatten_util"),
    "jax.nn": Names("tfn.nn"),
    "jax.nn.initializers": Names("tfn.nn.initializers"),
    "jax.image": Names("tfn.image"),
    "jax.scipy": Names("tfn.scipy"),
    "jax.scipy.fft": Names("tfn.scipy.fft"),
    "jax.scipy.cluster": Names("tfn.scipy.cluster"),
    "jax.scipy.cluster.vq": Names("tfn.scipy.cluster.vq"),
    "jax.scipy.integrate": Names("tfn.scipy.integrate"),
    "jax.scipy.interpolate": Names("tfn.scipy.interpolate"),
    "jax.scipy.optimize": Names("tfn.scipy.optimize"),
    "jax.scipy.spatial": Names("tfn.scipy.spatial"),
    "jax.scipy.spatial.transform": Names("tfn.scipy.spatial.transform"),
    "jax.scipy.special": Names("tfn.scipy.special"),
    "jax.scipy.linalg": Names("tfn.scipy.linalg"),
    "jax.scipy.signal": Names("tfn.scipy.signal"),
    "jax.scipy.ndimage": Names("tfn.scipy.ndimage"),
    "jax.scipy.sparse": Names("tfn.scipy.sparse"),
    "jax.scipy.sparse.linalg": Names("tfn.scipy.sparse.linalg"),
    "jax.scipy.stats": Names("tfn.scipy.stats"),
    **{f"jax.scipy.stats.{name}": Names(f"tfn.scipy.stats.{name}") for name in LAWS},
    "jax.errors": Names(ERRORS, {
        "JaxRuntimeError": f"{ERRORS}:TfnError", "JAXTypeError": f"{ERRORS}:DTypeError",
        "JAXIndexError": f"{ERRORS}:OutOfBoundsError",
        "InconclusiveDimensionOperation": f"{ERRORS}:ExportError",
        "JaxprTypeError": f"{ERRORS}:DTypeError",
    }),
    "jax.dtypes": Names(DTYPES, {
        "bfloat16": "ml_dtypes:bfloat16",
        "TypePromotionError": f"{ERRORS}:DTypeError",
        "float0": f"{AVALS}:float0",
        "canonicalize_dtype": f"{DTYPES}:canonical",
        "result_type": "tfn.numpy:result_type",
        **_from(PARTS, "itemsize_bits", "scalar_type_of"),
    }),
    "jax.dlpack": Names(None, {
        "from_dlpack": "tfn.numpy:from_dlpack", **_from(PARTS, "is_supported_dtype"),
    }),
    "jax.distributed": Names("tfn.distributed"),
    "jax.export": Names("tfn.compat.export"),
    "jax.typing": Names(None, {
        "ArrayLike": "tfn.array:ArrayLike", "DTypeLike": f"{DTYPES}:DTypeLike",
    }),
    "jax.core": Names(None, CORE | _from(
        PARTS, "ParamDict", "eval_context", "max_dim", "min_dim") | _from(
        SETTINGS, "ensure_compile_time_eval")),
    "jax.test_util": Names("tfn.compat.test_util"),
    "jax.version": Names(None, _from(SETTINGS, "__version__", "__version_info__")),
    "jax.api_util": Names(None, _from(
        FUNCTIONS, "debug_info", "flatten_fun", "flatten_fun_nokwargs", "safe_map",
        "shaped_abstractify") | _from(
        PARTS, "argnums_partial", "donation_vector", "flatten_axes", "rebase_donate_argnums")),
    "jax.extend": Names(),
    "jax.extend.backend": Names("tfn.compat.backend"),
    "jax.extend.ifrt_programs": Names(None, {}, {
        "ifrt_programs": "tfn compiles its own programs"}),
    "jax.extend.core": Names(None, CORE | _from(
        PARTS, "AbstractToken", "DebugInfo", "DropVar", "Effects", "Token", "TraceTag",
        "array_types", "call_impl", "check_jaxpr", "concrete_or_error", "gensym",
        "new_jaxpr_eqn", "no_effects", "nonempty_axis_env_DO_NOT_USE",
        "primal_dtype_to_tangent_dtype", "unsafe_am_i_under_a_jit_DO_NOT_USE",
        "unsafe_am_i_under_a_vmap_DO_NOT_USE", "unsafe_get_axis_names_DO_NOT_USE",
    ) | {
        "InconclusiveDimensionOperation": f"{ERRORS}:ExportError",
        "JaxprTypeError": f"{ERRORS}:DTypeError",
    }, dict.fromkeys((
        "take_current_trace", "set_current_trace",
    ), "a trace cannot be put aside: the values of each know theirs")),
    "jax.extend.core.primitives": Names("tfn.compat.op_primitives", {
        f"{name}_p": f"{COMPOSED}:{name}_p"
        for name in (*COMPOSED_NAMES, *LINALG_NAMES, "add_jaxvals", "name")
    }),
    "jax.extend.linear_util": Names(None, _from(
        "tfn.compat.linear_util", "WrappedFun", "transformation", "wrap_init")),
    "jax.extend.source_info_util": Names(PRIVATE),
    "jax.interpreters": Names(),
    "jax.interpreters.ad": Names(None, _from(
        ZEROS, "Zero", "UndefinedPrimal", "is_undefined_primal", "instantiate_zeros",
        "zeros_like_aval", "add_tangents") | {
        "JVPTracer": f"{AVALS}:JVPTracer", "add_jaxvals_p": f"{COMPOSED}:add_jaxvals_p",
        "add_jaxvals": f"{ZEROS}:add_tangents",
    } | _from(
        PRIMITIVES, "primitive_jvps", "primitive_transposes") | _from(
        INTERPRETERS, "defbilinear", "defjvp", "defjvp2", "deflinear", "deflinear2",
        "get_primitive_transpose")),
    "jax.interpreters.batching": Names(None, _from(
        PRIMITIVES, "primitive_batchers", "fancy_primitive_batchers",
        "axis_primitive_batchers") | _from(
        INTERPRETERS, "bdim_at_front", "broadcast", "defbroadcasting", "defreducer",
        "defvectorized")),
    "jax.interpreters.mlir": Names(MLIR),
    "jax.interpreters.partial_eval": Names(None, _from(
        FUNCTIONS, "PartialVal", "trace_to_jaxpr_nounits", "trace_to_jaxpr_dynamic") | {
        "JaxprTracer": f"{AVALS}:Tracer", "DynamicJaxprTracer": f"{AVALS}:Tracer"}),
    "jax.interpreters.pxla": Names(),
    "jax.interpreters.xla": Names(None, {
        "apply_primitive": f"{INTERPRETERS}:apply_primitive",
        "canonicalize_dtype_handlers": f"{PRIVATE}:CANONICAL",
        "pytype_aval_mappings": f"{PRIVATE}:TYPES_OF",
    }),
    "jaxlib": Names(None, _from(SETTINGS, "__version__")),
    "jaxlib.version": Names(None, _from(SETTINGS, "__version__")),
    "jaxlib.mlir": Names(),
    "jaxlib.mlir.dialects": Names(None, {"hlo": HLO}),
    "jaxlib.mlir.dialects.hlo": Names(HLO),
    "jax.lib": Names(None, _from(SETTINGS, "__version__")),
    "jax.lib.xla_bridge": Names("tfn.compat.backend"),
    "jax._src": Names(),
    "jax._src.ad_util": Names(None, {"stop_gradient_p": f"{OPS}:stop_gradient_p"}),
    "jax._src.api": Names("tfn"),
    "jax._src.basearray": Names(None, _from("tfn.array", "Array", "ArrayLike")),
    "jax._src.compiler": Names(),
    "jax._src.xla_bridge": Names(None, {"_backends": f"{PRIVATE}:BACKENDS"}),
    "jax._src.core": Names(None, CORE),
    "jax._src.dispatch": Names(None, _from(INTERPRETERS, "apply_primitive")),
    "jax._src.dtypes": Names(DTYPES, {
        "TypePromotionError": f"{ERRORS}:DTypeError",
        "ExtendedDType": f"{AVALS}:ExtendedDType",
    }),
    "jax._src.flatten_util": Names("tfn.flatten_util"),
    "jax._src.traceback_util": Names(PRIVATE),
    "jax._src.tree_util": Names(TREE, {
        "_registry": f"{PRIVATE}:REGISTRY",
        "prefix_errors": f"{PRIVATE}:prefix_errors",
        "PyTreeDef": "tfn.compat.treedefs:PyTreeDef",
    }),
    "jax._src.checkify": Names("tfn.checkify"),
    "jax._src.interpreters": Names(),
    "jax._src.interpreters.ad": Names(None, {"CustomVJPException": f"{ERRORS}:GradientError"}),
    "jax._src.state": Names(),
    "jax._src.state.types": Names(None, _from(AVALS, "AbstractRef")),
    "jax.ref": Names("tfn.compat.ref"),
    "jax.sharding": Names("tfn.sharding"),
    "jax.debug": Names("tfn.debug"),
    "jax.custom_derivatives": Names("tfn.custom_derivatives", {
        "stop_gradient": "tfn.lax:stop_gradient",
        "SymbolicZero": f"{TRANSFORMS}:SymbolicZero",
        "zero_from_primal": f"{TRANSFORMS}:zero_from_primal",
        **_from(OPS, "custom_jvp_call_p", "custom_vjp_call_p"),
    }),
    "jax.custom_batching": Names("tfn.custom_batching"),
    "jax.ad_checkpoint": Names("tfn", {
        "remat": "tfn:checkpoint",
        **_from("tfn.inspect.residuals", "print_saved_residuals", "saved_residuals"),
    }),
    "jax.ops": Names("tfn.ops"),
    "jax.example_libraries": Names(),
    "jax.example_libraries.optimizers": Names("tfn.compat.optimizers"),
    "jax.example_libraries.stax": Names("tfn.compat.stax"),
    "jax.experimental": Names(None, _from(TRANSFORMS, "io_callback")),
    "jax.experimental.hijax": Names("tfn.compat.hijax"),
    "jax.experimental.mesh_utils": Names("tfn.compat.mesh_utils"),
    "jax.experimental.multihost_utils": Names("tfn.compat.multihost_utils"),
    "jax.experimental.shard_map": Names(None, _from("tfn", "shard_map")),
    "jax.experimental.pjit": Names(None, {"pjit": f"{TRANSFORMS}:jit"}),
    "jax.experimental.layout": Names(None, {}, dict.fromkeys((
        "Format", "Layout", "DeviceLocalLayout",
    ), "arrays have one layout")),
    "jax.experimental.colocated_python": Names(None, {}, dict.fromkeys((
        "colocated_cpu_devices", "colocated_python", "colocated_python_class",
    ), "functions run beside their arrays on workers of a cluster")),
    "jax.experimental.colocated_python.func": Names(),
    "jax.experimental.colocated_python.serialization": Names(None, {}, dict.fromkeys((
        "DeviceList", "_reduce_device_list", "_reduce_mesh", "_reduce_single_device_sharding",
    ), "functions run beside their arrays on workers of a cluster")),
    "jax.experimental.array_serialization": Names(),
    "jax.experimental.array_serialization.serialization": Names(None, {}, dict.fromkeys((
        "get_tensorstore_spec", "GlobalAsyncCheckpointManager",
    ), "tfn.nn.checkpoint writes arrays of many processes")),
    "jax.experimental.pallas": Names("tfn.experimental.pallas"),
    "jax.experimental.pallas.tpu": Names("tfn.experimental.pallas"),
    "jax.experimental.jet": Names("tfn.experimental.jet", {"fact": "tfn.scipy.special:factorial"}),
    "jax.experimental.ode": Names("tfn.experimental.ode"),
    "jax.experimental.sparse": Names("tfn.experimental.sparse", {
        **{name: f"{SPARSE}.{file}" for name, file in (
            ("bcoo", "bcoo"), ("bcsr", "bcsr"), ("coo", "matrices"), ("csr", "matrices"),
            ("api", "creation"), ("transform", "dense_functions"), ("util", "coordinates"))},
        "SparseEfficiencyError": f"{ERRORS}:NotAvailableError",
        "SparseEfficiencyWarning": "builtins:UserWarning",
        "CuSparseEfficiencyWarning": "builtins:UserWarning",
    }),
    "jax.experimental.sparse.linalg": Names("tfn.experimental.sparse.linalg"),
    "jax.monitoring": Names("tfn.compat.monitoring"),
    "jax.stages": Names("tfn.transforms.aot", {
        "Wrapped": f"{TRANSFORMS}:PjitFunction", "CompilerOptions": "builtins:dict",
    }),
    "jax.profiler": Names("tfn.profiler"),
    "jax.experimental.checkify": Names("tfn.checkify", {
        "ErrorCategory": "builtins:str", "JaxRuntimeError": f"{ERRORS}:CheckError",
    }),
}
# fmt: on
