"""Records the parameters of JAX's public functions of arrays; run where jax is installed:

    python tests/compat/signatures.py > tests/data/jax_signatures.json

For each function its positional parameters in order, then a bar and those by keyword alone.
"""

from __future__ import annotations

import importlib
import inspect
import json
from pathlib import Path
from typing import Any

NAMES = Path(__file__).parents[1] / "data" / "jax_names.json"
PACKAGES = ("jax.numpy", "jax.lax", "jax.scipy", "jax.nn", "jax.random", "jax.ops", "jax.image")


def described(function: Any) -> str | None:
    """The parameters of a function as a text; None for what has none, and for types."""
    if not callable(function) or isinstance(function, type):
        return None
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    kinds = inspect.Parameter
    positional = [p.name for p in parameters if p.kind == kinds.POSITIONAL_OR_KEYWORD]
    first = [f"{p.name}/" for p in parameters if p.kind == kinds.POSITIONAL_ONLY]
    keyword = [p.name for p in parameters if p.kind == kinds.KEYWORD_ONLY]
    return f"{' '.join([*first, *positional])} | {' '.join(keyword)}".strip()


def main() -> None:
    """Prints the record."""
    record: dict[str, dict[str, str]] = {}
    for module, names in json.loads(NAMES.read_text()).items():
        if module.startswith(PACKAGES):
            source = importlib.import_module(module)
            found = {name: described(getattr(source, name, None)) for name in names}
            record[module] = {name: text for name, text in found.items() if text}
    print(json.dumps(record, indent=0, sort_keys=True))


if __name__ == "__main__":
    main()
