"""Recorded results of JAX for the calls of the tables that NumPy and SciPy do not have.

Run with JAX, from the root of the repository; a change of a table or a signature needs it:

    python -m tests.options.recorded

It writes tests/data/odd_options.json.  Answers that are there stay; `--again` asks for all.

A result is a list of arrays: dtype, shape, and the elements, complex ones as pairs.  A call that
JAX refuses is recorded as the name of its error.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from tests.numpy.rows import leaves
from tests.options.calls import Call, calls, find
from tests.options.tables import TABLES
from tfn import dtypes

RECORD = Path(__file__).parents[1] / "data" / "odd_options.json"


def written(results: Sequence[np.ndarray]) -> list[Any]:
    """The arrays of a result as JSON."""
    return [
        [x.dtype.name, list(x.shape), [_number(v, x.dtype) for v in x.ravel().tolist()]]
        for x in results
    ]


def _number(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, complex):
        return [_number(value.real, dtype), _number(value.imag, dtype)]
    if not isinstance(value, float) or not np.isfinite(value):
        return value if isinstance(value, (bool, int)) else repr(value)
    return value if dtype.name in ("float64", "complex128") else float(f"{value:.9g}")


def read(record: list[Any]) -> list[np.ndarray]:
    """The arrays that were written."""
    results = []
    for name, shape, numbers in record:
        dtype = dtypes.canonical(name)
        if dtype.kind == "c":
            numbers = [complex(float(a), float(b)) for a, b in numbers]
        elif dtype.kind != "b":
            numbers = [float(v) if isinstance(v, str) else v for v in numbers]
        results.append(np.asarray(numbers, dtype).reshape(shape))
    return results


def has_wide(call: Call) -> bool:
    """Whether a call has 64-bit arguments or asks for a 64-bit result."""
    given = [*call.drawn.operands, *call.drawn.args, *call.drawn.kwargs.values()]
    names = [str(x if isinstance(x, str) else getattr(x, "dtype", "")) for x in given]
    return bool({"float64", "int64", "uint64", "complex128"} & set(names))


def answer(call: Call, function: Callable[..., Any]) -> Any:
    """The result of JAX, or the name of its error."""
    import jax

    with jax.enable_x64(has_wide(call)):
        try:
            operands = [jax.numpy.asarray(x) for x in call.drawn.operands]
            return written(leaves(call(function, *operands)))
        except Exception as error:  # of any layer of JAX
            return type(error).__name__


def save(record: dict[str, Any]) -> None:
    """Write a record, one answer in a line."""
    lines = ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in record.items())
    RECORD.write_text("{" + lines + "}\n")


def main() -> None:
    """Record the answers that are missing, or all of them."""
    warnings.simplefilter("ignore")
    known = {} if "--again" in sys.argv else json.loads(RECORD.read_text())
    record: dict[str, Any] = {}
    for table in TABLES:
        ours, theirs = import_module(table.ours), import_module(table.recorded)
        for name, odd in table.rows.items():
            for call in calls(name, find(ours, name), odd):
                if table.reference(call) is None and call.key not in record:
                    new = None if call.key in known else answer(call, find(theirs, name))
                    record[call.key] = known.get(call.key, new)
        save(known | record)
        print(table.ours, len(record), file=sys.stderr)
    save(record)


if __name__ == "__main__":
    main()
