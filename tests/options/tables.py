"""The tables of functions, with the modules that they are compared with."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from tests.options import odd_lax, odd_nn, odd_numpy, odd_optim, odd_random, odd_scipy
from tests.options.calls import Call, Odd, find


@dataclass(frozen=True)
class Table:
    """Functions of a module.

    Attributes:
        ours: the module of tfn.
        rows: a row for each function with keywords.
        recorded: the module of JAX, whose answers are recorded.
        live: the module of NumPy or SciPy that is asked in the test, if there is one.
        left: functions without a row, with the reason.
    """

    ours: str
    rows: Mapping[str, Odd]
    recorded: str
    live: str | None = None
    left: Mapping[str, str] = field(default_factory=dict)

    def reference(self, call: Call) -> Callable[..., Any] | None:
        """The function that is asked in the test; None where the answer is recorded."""
        name = call.key.split("(")[0]
        if call.row.want is None and (self.live is None or name in JAX_HAS_OTHERS):
            return None
        try:
            function = call.row.want or find(import_module(str(self.live)), name)
            names = inspect.signature(function).parameters
        except (AttributeError, ValueError):
            return None
        further = any(p.kind == p.VAR_KEYWORD for p in names.values()) and name not in NO_OTHERS
        return function if further or set(call.drawn.kwargs) <= set(names) else None


NO_OTHERS = frozenset({"einsum"})
"""Functions of NumPy that take any keyword, and refuse it then."""
JAX_HAS_OTHERS = frozenset({"take", "modf", "mask_indices"})
"""Functions that differ from NumPy's as JAX's do."""
TABLES = (
    Table("tfn.numpy", odd_numpy.rows(), "jax.numpy", "numpy", odd_numpy.LEFT),
    Table("tfn.lax", odd_lax.LAX, "jax.lax", None, odd_lax.LEFT["lax"]),
    Table("tfn.lax.linalg", odd_lax.LINALG, "jax.lax.linalg", None, odd_lax.LEFT["linalg"]),
    Table("tfn.random", odd_random.RANDOM, "jax.random", None, odd_random.LEFT),
    Table("tfn.nn.optim", odd_optim.OPTIM, "optax", None, odd_optim.LEFT),
    Table("tfn.nn.functions", odd_nn.NN, "jax.nn"),
    Table("tfn.nn.initializers", odd_nn.INITIALIZERS, "jax.nn.initializers", None, odd_nn.LEFT),
    Table("tfn.nn.losses", odd_nn.LOSSES, "optax"),
    *(
        Table(f"tfn.scipy.{name}", rows, f"jax.scipy.{name}", f"scipy.{name}", odd_scipy.LEFT[name])
        for name, rows in odd_scipy.SCIPY.items()
    ),
)
