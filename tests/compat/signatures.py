"""Records the signatures of JAX's public functions, without defaults; run where jax is installed:

    python tests/compat/signatures.py > tests/data/jax_signatures.json

A signature is text as a lambda has it: ``a, axis, /, *, keepdims``.
"""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path
from typing import Any

NAMES = Path(__file__).parents[1] / "data" / "jax_names.json"
PACKAGES = (
    "jax.numpy", "jax.lax", "jax.scipy", "jax.nn", "jax.random", "jax.ops", "jax.image", "jax.tree",
    "jax.tree_util", "jax.flatten_util", "jax.dtypes", "jax.debug", "jax.custom_derivatives",
    "jax.custom_batching", "jax.experimental.checkify", "jax.experimental.jet",
    "jax.experimental.ode", "jax.experimental.sparse", "jax.sharding",
)  # fmt: skip


def described(function: Any) -> str | None:
    """The parameters of a function as a text; None for what has none, and for types."""
    if not callable(function) or isinstance(function, type):
        return None
    function = getattr(function, "_func", function)  # of a ufunc
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    empty = inspect.Parameter.empty
    bare = [p.replace(default=empty, annotation=empty) for p in signature.parameters.values()]
    return str(inspect.Signature(bare)).removeprefix("(").removesuffix(")")


def main() -> None:
    """Prints the record."""
    record: dict[str, dict[str, str]] = {}
    for module, names in json.loads(NAMES.read_text()).items():
        if module == "jax" or module.startswith(PACKAGES):
            source = importlib.import_module(module)
            found = {name: described(getattr(source, name, None)) for name in names}
            record[module] = {name: text for name, text in found.items() if text is not None}
    print(json.dumps(record, indent=0, sort_keys=True))


if __name__ == "__main__":
    main()
