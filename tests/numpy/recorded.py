"""Records the result dtypes of the functions of jax.numpy; run where jax is installed:

    python tests/numpy/recorded.py > tests/data/result_types.json

One entry for each function: for each dtype, or pair of dtypes, in the order of KINDS, the name of
the dtype of the result, with a star where it is weak, and "-" where JAX refuses.  64-bit types
count as with x64 on, everything else as by default.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

# fmt: off
KINDS = (  # noqa: SIM905
    "bool uint8 uint16 uint32 uint64 int8 int16 int32 int64 "
    "bfloat16 float16 float32 float64 complex64 complex128 int float complex"
).split()

UNARY = """
    abs negative positive sign square reciprocal floor ceil trunc rint round conj real imag angle
    exp exp2 expm1 log log2 log10 log1p sqrt cbrt sin cos tan arcsin arccos arctan sinh cosh tanh
    arcsinh arccosh arctanh deg2rad rad2deg sinc i0 isnan isinf isfinite signbit logical_not invert
    bitwise_count nan_to_num sum prod mean max min any all argmax argmin var std ptp count_nonzero
    median nansum nanprod nanmean nanmax nanmin nanvar nanstd nanargmax nanmedian cumsum cumprod
    diff sort argsort average trapezoid spacing cov corrcoef ediff1d gradient
    zeros_like ones_like flip trace diag tril unwrap
""".split()  # noqa: SIM905

BINARY = """
    add subtract multiply divide floor_divide remainder fmod power float_power maximum minimum fmax
    fmin arctan2 hypot logaddexp logaddexp2 copysign heaviside nextafter equal less logical_and
    bitwise_and left_shift right_shift gcd lcm dot matmul vdot inner outer tensordot kron convolve
    correlate isclose polyadd polymul polyval append where
""".split()  # noqa: SIM905
# fmt: on


def value(kind: str, make: Callable[[Any, str], Any]) -> Any:
    """A small square matrix of a dtype, or a Python number."""
    plain: dict[str, Any] = {"int": 1, "float": 1.0, "complex": 1j}
    return plain[kind] if kind in plain else make([[1, 0], [1, 1]], kind)


def called(module: Any, name: str, *operands: Any) -> Any:
    """The result, or the first of several."""
    if name == "where":
        operands = (module.asarray(True), *operands)
    if name in ("convolve", "correlate", "polyadd", "polymul", "polyval"):
        operands = tuple(x[0] if hasattr(x, "shape") else x for x in operands)
    result = getattr(module, name)(*operands)
    return result[0] if isinstance(result, (tuple, list)) else result


def short(result: Any) -> str:
    return np.dtype(result.dtype).name + "*" * bool(result.weak_type)


def rows() -> Iterator[tuple[str, tuple[str, ...]]]:
    """All functions with all operands."""
    for name in UNARY:
        yield from ((name, (kind,)) for kind in KINDS)
    for name in BINARY:
        yield from ((name, (first, second)) for first in KINDS for second in KINDS)


def main() -> None:
    import jax
    import jax.numpy as jnp

    warnings.simplefilter("ignore")
    record: dict[str, list[str]] = {}
    for name, kinds in rows():
        wide = any(kind in ("uint64", "int64", "float64", "complex128") for kind in kinds)
        mixed = "uint32" in kinds and any(kind in ("int8", "int16", "int32") for kind in kinds)
        with jax.enable_x64(wide or mixed):
            try:
                shaped = jax.eval_shape(
                    lambda *xs: called(jnp, name, *xs),  # noqa: B023
                    *[value(kind, jnp.array) for kind in kinds],
                )
                found = short(shaped)
            except (TypeError, ValueError, IndexError, NotImplementedError):
                found = "-"
        record.setdefault(name, []).append(found)
    rest = ",\n".join(f'"{name}": {json.dumps(" ".join(found))}' for name, found in record.items())
    print("{" + rest + "}")


if __name__ == "__main__":
    main()
