"""Every keyword of the public functions at odd values: alone, and in pairs drawn at random.

Results are NumPy's or SciPy's, or those that JAX gave for the same call; a call that these refuse
is an error of `tfn.errors`.  Traced, a call gives what it gives eagerly.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import settings

import tfn
import tfn.numpy as tnp
from tests.numpy.rows import leaves, near, wide
from tests.options.calls import Call, calls, find, keywords, missing
from tests.options.recorded import RECORD, read
from tests.options.tables import TABLES, Table
from tfn.config import config
from tfn.errors import TfnError

pytestmark = pytest.mark.filterwarnings("ignore")  # NumPy's, of the reference

JAX = json.loads(RECORD.read_text())
ROWS = [(table, name) for table in TABLES for name in table.rows]
REFUSED = (TypeError, ValueError, IndexError, ZeroDivisionError, np.linalg.LinAlgError)


@pytest.fixture(autouse=True)
def oracle() -> Iterator[None]:
    """NumPy evaluates each operation: what is tested is what is traced, not how it is compiled."""
    before, config.device = config.device, "python"
    yield
    config.device = before


def wanted(table: Table, call: Call) -> list[np.ndarray] | str:
    """The results of the reference, or the name of its error."""
    reference = table.reference(call)
    if reference is None:
        answer = JAX.get(call.key, "recorded nowhere: see tests/options/recorded.py")
        return answer if isinstance(answer, str) else read(answer)
    operands = call.drawn.operands
    try:
        return leaves(call(reference, *(operands if call.row.exact else map(wide, operands))))
    except REFUSED as error:
        return type(error).__name__


def compare(table: Table, call: Call, traced: bool) -> None:
    """Assert that a call gives what its reference gives, or is refused as there."""
    function = find(import_module(table.ours), call.key.split("(")[0])
    want = wanted(table, call)
    if isinstance(want, str):
        with pytest.raises(TfnError):
            call(function, *call.drawn.operands)
        return
    got = call(function, *call.drawn.operands)
    near(call.row, got, want, call.drawn.operands)
    if call.drawn.kwargs.get("dtype") is not None and "dtype" in keywords(function):
        assert leaves(got)[0].dtype == np.dtype(call.drawn.kwargs["dtype"])
    if traced and call.row.jit:
        compiled = tfn.jit(lambda *xs: call(function, *xs))
        result = compiled(*map(tnp.asarray, call.drawn.operands))
        near(call.row, result, got, call.drawn.operands)


@pytest.mark.parametrize(("table", "name"), ROWS, ids=[f"{t.ours}.{n}" for t, n in ROWS])
def test_options_mean_what_the_reference_says(table: Table, name: str) -> None:
    odd = table.rows[name]
    function = find(import_module(table.ours), name)
    search = settings().max_examples > 20 and table.live is not None
    failures: list[str] = []
    traced: set[frozenset[str]] = set()
    for call in calls(name, function, odd, pairs=20 if search else 1):
        given = frozenset(call.drawn.kwargs)
        try:
            compare(table, call, given not in traced)
        except (Exception, pytest.fail.Exception) as error:
            told = " ".join(str(error).split())[:300]
            failures.append(f"{call.key}: {type(error).__name__}: {told}")
        traced.add(given)
    assert not failures, "\n".join(failures)


def functions(module: ModuleType, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The public functions of a module that have keywords."""
    for name in dir(module):
        value = getattr(module, name)
        own = inspect.isfunction(value) and value.__module__.startswith(module.__name__)
        if own and not name.startswith("_") and keywords(value):
            yield prefix + name, value


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.ours)
def test_every_keyword_has_a_row(table: Table) -> None:
    module = import_module(table.ours)
    inner = sorted({name.split(".")[0] for name in table.rows if "." in name})
    found = dict(functions(module))
    for part in inner:
        found |= dict(functions(getattr(module, part), f"{part}."))
    known = {id(find(module, name)) for name in (*table.rows, *table.left)}
    without = [
        f"{table.ours}.{name}({keyword}=)"
        for name, function in found.items()
        for keyword in (
            missing(function, table.rows[name])
            if name in table.rows
            else keywords(function) * (id(function) not in known)
        )
    ]
    assert not without, f"no row in tests/options for {without}"
