"""The names, order and kinds of parameters are those of JAX's functions, as recorded."""

import importlib
import inspect
import json
from pathlib import Path

import pytest

import tfn
import tfn.numpy as tnp
from tfn.compat import omitted
from tfn.compat.names import MODULES

RECORD = Path(__file__).parent / "data" / "jax_signatures.json"
SIGNATURES = {name: rows for name, rows in json.loads(RECORD.read_text()).items() if rows}

ANY = "JAX passes any arguments on to NumPy's function, whose names these are"
SCIPY = "SciPy's function has a location and a scale"
OTHERS = {
    "jax.debug.breakpoint": "frames are shown as the debugger of Python does",
    "jax.debug.visualize_sharding": "its options are colours, and change nothing",
    "jax.experimental.sparse.bcoo_conv_general_dilated": "sparse arrays are not divided",
    "jax.dtypes.issubdtype": "the function of tfn.numpy, with NumPy's names",
    "jax.lax.random_gamma_grad": "JAX gives no names",
    "jax.nn.tanh": "the function of one argument of tfn.lax",
    "jax.numpy.concat": "another name of concatenate",
    "jax.numpy.permute_dims": "another name of transpose",
    "jax.numpy.unravel_index": "NumPy's order, which is positional there",
    "jax.numpy.fromfile": ANY,
    "jax.numpy.fromiter": ANY,
    "jax.numpy.set_printoptions": ANY,
    "jax.numpy.linalg.matmul": "the function of tfn.numpy, with its names",
    "jax.numpy.linalg.tensordot": "the function of tfn.numpy, with its names",
    "jax.scipy.stats.bernoulli.cdf": SCIPY,
    "jax.scipy.stats.bernoulli.ppf": SCIPY,
    **{f"jax.scipy.stats.gennorm.{name}": SCIPY for name in ("cdf", "logpdf", "pdf")},
    **{
        f"jax.scipy.stats.{law}.{name}": SCIPY
        for law in ("vonmises", "wrapcauchy")
        for name in ("logpdf", "pdf")
    },
}
"""Functions with other parameters than JAX's, each with the reason."""

MISSING = {
    "axis_env": "axes of a mesh are named by shard_map and vmap",
    "backend": "the device says it",
    "compiler_options": "XLA's",
    "keep_unused": "arguments that are not used cost nothing",
    "inline": "programs are always inlined",
    "sum_match": "private",
    "debug_info": "private",
    "reduction_input_size_override": "a hint for TPUs",
    "aggregate_to_topk": "a hint for TPUs",
    "dynamic_shape": "shapes are static",
    "sort_eig_vals": "values are in LAPACK's order",
    "select_callable": "values are in LAPACK's order",
    "is_leaf": "leaves of an iterable are told by their types",
    "drop_fields": "a field that is dropped is a field with a default",
    "_use_logging": "private",
    "_dot_general": "private",
}
"""Parameters of JAX that tfn has not, whatever the function, each with the reason."""


def parameters(module: str, name: str) -> tuple[list[inspect.Parameter], list[inspect.Parameter]]:
    """Those of JAX's function, and those of tfn's; none where tfn has no such function."""
    place = MODULES[module].source if module in MODULES else None
    own = getattr(importlib.import_module(place), name, None) if place else None
    if not callable(own) or isinstance(own, type):
        return [], []
    theirs = eval(f"lambda {SIGNATURES[module][name]}: None")
    return [list(inspect.signature(f).parameters.values()) for f in (theirs, own)]


def differences(module: str, name: str) -> list[str]:
    """What is other than in JAX: a parameter that is missing, or has another place or kind."""
    theirs, own = parameters(module, name)
    kinds = {p.name: p.kind for p in own}
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    advice = omitted.omitted(module, name)
    found, gap, at = [], False, 0
    for p in theirs if own else ():
        if p.name not in kinds:
            is_rest = p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
            if p.name not in MISSING and p.name not in advice and not is_rest:
                found.append(f"no {p.name}")
            gap = True
        elif gap and p.kind in positional and kinds[p.name] == p.KEYWORD_ONLY:
            continue
        elif kinds[p.name] != p.kind:
            found.append(f"{p.name} is {kinds[p.name].description}")
        elif p.kind in positional and own[at].name != p.name:
            found.append(f"{own[at].name} is before {p.name}")
        at += p.name in kinds
    others = kinds.keys() - {p.name for p in theirs}
    found += [f"{key} is positional" for key in others if own and kinds[key] in positional]
    return found


@pytest.mark.parametrize("module", SIGNATURES)
def test_parameters_are_those_of_jax(module):
    for name in SIGNATURES[module]:
        found = differences(module, name)
        assert bool(found) == (f"{module}.{name}" in OTHERS), (module, name, found)


def test_functions_take_the_names_of_jax():
    x = tnp.arange(6.0).reshape(2, 3)
    assert tnp.sum(a=x, axis=1).tolist() == [3.0, 12.0]
    assert tfn.grad(fun=lambda x: x * x)(3.0).item() == 6.0
    assert tfn.lax.reshape(operand=x, new_sizes=(6,)).shape == (6,)
    assert tnp.sum(x, 1, None, None, True).shape == (2, 1)
