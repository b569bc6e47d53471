"""NaN localisation for `config.debug_nans`: the operation that produced the first NaN.

A program whose result has a NaN is run once more, with a check after each operation that can
produce one; the error names the first that fails, and the user's line that called it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tfn import transforms
from tfn.dtypes import INEXACT
from tfn.errors import NanError, user_line
from tfn.trace.jaxpr import Jaxpr, function

Run = Callable[[Jaxpr, Sequence[Any]], list[Any]]


def any_nan(values: Sequence[Any]) -> bool:
    """Whether one of the arrays contains a NaN."""
    return any(x.dtype in INEXACT and bool(np.isnan(_wide(np.asarray(x))).any()) for x in values)


def _wide(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x if x.dtype.kind in "fc" else x.astype(np.float32)


def blame(jaxpr: Jaxpr, operands: Sequence[object], run: Run) -> NanError:
    """The error that names the origin of a NaN in a function's results; `run` runs a function."""
    _, checked, sites = transforms.runtime_checks.checked(jaxpr.outputs, frozenset({"nan"}))
    code_and_payload = function(checked.flat(range(1, len(sites) + 1)), jaxpr.params)
    code, *payload = run(Jaxpr(code_and_payload), operands)
    number = int(np.asarray(code))
    message = transforms.runtime_checks.text(sites, number, payload)
    message = message or "a NaN came in with an argument or a constant"
    known = number > 0 and bool(sites[number - 1].where)
    return NanError(message, where="" if known else user_line(), hint="config.debug_nans is on")
