"""The table of JAX's public modules, and the modules of tfn that have their names.

A row is a module of JAX, the module of tfn that has its names under the same names, if there is
one, and those that are elsewhere: ``"module:name"``, or ``"module"`` for a module itself.  Names
are looked up when they are first used, so a row may name what few libraries need.
"""

from __future__ import annotations

from dataclasses import field

from tfn._support.frozen import frozen

VERSION = "0.7.1"
"""The version of JAX whose public names these are: some libraries ask."""

OWN = "tfn.compat.settings"
DTYPES, ERRORS, TREE = "tfn.dtypes", "tfn.errors", "tfn.tree_util"


@frozen
class Names:
    """The names of a module of JAX: those of the module `source`, and the rows of `elsewhere`."""

    source: str | None = None
    elsewhere: dict[str, str] = field(default_factory=dict)


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

MODULES: dict[str, Names] = {
    "jax": Names("tfn", {
        **_from(OWN, "jit", "config", "typeof", "__version__", "__version_info__", "enable_x64",
                "log_compiles", "default_matmul_precision", "named_scope", "named_call"),
        "remat": "tfn:checkpoint",
        "jacobian": "tfn:jacrev",
    }),
    "jax.numpy": Names("tfn.numpy"),
    "jax.numpy.linalg": Names("tfn.numpy.linalg"),
    "jax.numpy.fft": Names("tfn.numpy.fft"),
    "jax.lax": Names("tfn.lax"),
    "jax.lax.linalg": Names("tfn.lax.linalg"),
    "jax.random": Names("tfn.random"),
    "jax.tree": Names("tfn.tree"),
    "jax.tree_util": Names(TREE),
    "jax.flatten_util": Names("tfn.flatten_util"),
    "jax.nn": Names("tfn.nn"),
    "jax.nn.initializers": Names("tfn.nn.initializers"),
    "jax.image": Names("tfn.image"),
    "jax.scipy": Names("tfn.scipy"),
    "jax.scipy.special": Names("tfn.scipy.special"),
    "jax.scipy.linalg": Names("tfn.scipy.linalg"),
    "jax.scipy.signal": Names("tfn.scipy.signal"),
    "jax.scipy.ndimage": Names("tfn.scipy.ndimage"),
    "jax.scipy.sparse": Names("tfn.scipy.sparse"),
    "jax.scipy.sparse.linalg": Names("tfn.scipy.sparse.linalg"),
    "jax.scipy.stats": Names("tfn.scipy.stats"),
    **{f"jax.scipy.stats.{name}": Names(f"tfn.scipy.stats.{name}") for name in LAWS},
    "jax.errors": Names(ERRORS, {"JaxRuntimeError": f"{ERRORS}:TfnError"}),
    "jax.dtypes": Names(DTYPES, {
        "canonicalize_dtype": f"{DTYPES}:canonical",
        "result_type": "tfn.numpy:result_type",
    }),
    "jax.typing": Names(None, {
        "ArrayLike": "tfn.array:ArrayLike", "DTypeLike": f"{DTYPES}:DTypeLike",
    }),
    "jax.core": Names(None, _from(OWN, "Tracer", "ShapedArray")),
    "jax.sharding": Names("tfn.sharding"),
    "jax.debug": Names("tfn.debug"),
    "jax.profiler": Names("tfn.profiler"),
    "jax.custom_derivatives": Names("tfn", _from("tfn.lax", "stop_gradient")),
    "jax.custom_batching": Names("tfn"),
    "jax.ad_checkpoint": Names("tfn", {"remat": "tfn:checkpoint"}),
    "jax.ops": Names("tfn.ops"),
    "jax.experimental": Names(),
    "jax.experimental.shard_map": Names(None, _from("tfn", "shard_map")),
    "jax.experimental.pjit": Names(None, {"pjit": f"{OWN}:jit"}),
    "jax.experimental.mesh_utils": Names("tfn.compat.mesh_utils"),
    "jax.experimental.multihost_utils": Names("tfn.compat.multihost_utils"),
    "jax.experimental.checkify": Names("tfn.checkify"),
}
# fmt: on
