"""Documentation of the public functions: examples, which run as doctests, arguments and types."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from types import FunctionType, ModuleType

import jaxtyping

import tfn.image
import tfn.lax
import tfn.numpy
import tfn.scipy.cluster.vq
import tfn.scipy.integrate
import tfn.scipy.interpolate
import tfn.scipy.linalg
import tfn.scipy.ndimage
import tfn.scipy.optimize
import tfn.scipy.signal
import tfn.scipy.sparse.linalg
import tfn.scipy.special
import tfn.scipy.stats
from tests.covering import together
from tfn.numpy import contraction, einstein_summation
from tfn.numpy.linalg import factorizations, norms, products, systems
from tfn.scipy import (
    definite_integrals,
    faddeeva,
    hypergeometric,
    log_gamma,
    matrix_functions,
    spherical,
    structured_matrices,
)
from tfn.scipy.stats import kde, samples

SPECIAL = [definite_integrals, faddeeva, hypergeometric, log_gamma, spherical]
DISTRIBUTIONS = [
    module
    for module in (getattr(tfn.scipy.stats, name) for name in dir(tfn.scipy.stats))
    if inspect.ismodule(module) and {"logpdf", "logpmf"} & set(dir(module))
]
MODULES = [
    tfn.numpy,
    tfn.numpy.linalg,
    tfn.numpy.fft,
    tfn.lax,
    tfn.lax.linalg,
    tfn.image,
    tfn.scipy.cluster.vq,
    tfn.scipy.integrate,
    tfn.scipy.interpolate,
    tfn.scipy.linalg,
    matrix_functions,
    structured_matrices,
    *SPECIAL,
    samples,
    kde,
    tfn.scipy.ndimage,
    tfn.scipy.optimize,
    tfn.scipy.signal,
    tfn.scipy.sparse.linalg,
    tfn.scipy.special,
    *DISTRIBUTIONS,
]


def public(module: ModuleType) -> Iterator[FunctionType]:
    """The functions that a module defines, or a package offers, not those it only uses."""
    package = hasattr(module, "__path__")
    files = ("tfn.",) if package else (module.__name__,)
    for name in dir(module):  # vars() has only the names that were asked for before
        value = getattr(module, name)
        if (
            inspect.isfunction(value)
            and not name.startswith("_")
            and value.__module__.startswith(files)
        ):
            yield value


@together("module", MODULES, ids=lambda module: module.__name__)
def test_each_function_has_an_example(module: ModuleType) -> None:
    functions = list(public(module))
    bare = {f"{f.__module__}.{f.__name__}" for f in functions if ">>>" not in (f.__doc__ or "")}
    assert functions
    assert not bare


def described(f: FunctionType) -> list[str]:
    """The names in the section Args of a docstring."""
    _, _, rest = (inspect.getdoc(f) or "").partition("\nArgs:\n")
    return re.findall(r"^    \**(\w+): ", rest.partition("\n\n")[0], re.MULTILINE)


@together(
    "module",
    [m for m in MODULES if m.__name__.startswith(("tfn.numpy", "tfn.scipy"))],
    ids=lambda module: module.__name__,
)
def test_each_of_several_arguments_is_described(module: ModuleType) -> None:
    arguments = {f: list(inspect.signature(f).parameters) for f in public(module)}
    undescribed = {
        f"{f.__module__}.{f.__name__}: {names}"
        for f, names in arguments.items()
        if described(f) != names and (len(names) >= 3 or described(f))
    }
    assert not undescribed


@together("module", MODULES, ids=lambda module: module.__name__)
def test_each_argument_and_result_has_a_type(module: ModuleType) -> None:
    untyped = {
        f"{f.__module__}.{f.__name__}: {name}"
        for f in public(module)
        for name in [*inspect.signature(f).parameters, "return"]
        if name not in f.__annotations__
    }
    assert not untyped


def test_annotations_are_read_by_jaxtyping() -> None:
    modules = (contraction, einstein_summation, norms, products, systems, factorizations)
    shaped = 0
    for module in modules:
        for f in public(module):
            hints = [h for h in f.__annotations__.values() if "[Array" in h]
            shaped += bool(hints)
            for hint in hints:
                assert eval(hint, {**vars(jaxtyping), **vars(module)})
    assert shaped > 20
