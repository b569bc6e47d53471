"""The page of every public name of JAX: there, different on purpose, or absent with the reason.

    python docs/jax_names.py     writes docs/jax_names.md

The names are those of JAX 0.10.2, in ``tests/data/jax_names.json``; what tfn has of them is asked
of the table of `tfn.compat`.  A test makes the page again and compares.
"""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

from tfn.compat.names import COMPOSED, MODULES

ROOT = Path(__file__).parents[1]
NAMES, PAGE = ROOT / "tests" / "data" / "jax_names.json", ROOT / "docs" / "jax_names.md"

# fmt: off
DIFFERENT = {
    "jax.numpy.asarray": "copies arrays of NumPy",
    "jax.numpy.array": "copies arrays of NumPy",
    "jax.random.key": "a key is used once, unless key_reuse is set",
    "jax.lax.cond": "a known predicate runs one branch",
    "jax.lax.approx_max_k": "misses none",
    "jax.lax.approx_min_k": "misses none",
    "jax.make_jaxpr": "the equations are tfn's operations",
    "jax.profiler": "writes traces of tfn",
}
"""Names whose meaning is another one on purpose, with the difference."""

REASONS: tuple[tuple[str, str], ...] = (
    (r"\.[a-z0-9_]+_p$", "a primitive of JAX's own that tfn computes by other operations"),
    (r"^jax\.interpreters\.mlir\.", "tfn makes no MLIR"),
    (r"^jax\.interpreters\.xla\.|^jax\.extend\.(backend|ffi)|^jax\.ffi", "tfn has no XLA"),
    (r"^jax\.interpreters\.", "internal to JAX's tracers"),
    (r"^jax\.extend\.|^jax\.core\.|^jax\.api_util\.", "internal to JAX's tracers"),
    (r"^jax\.experimental\.pallas\.", "of several cores or MLIR: a grid is a loop here"),
    (r"^jax\.experimental\.sparse\.", "internal to JAX's tracers"),
    (r"^jax\.experimental\.(jet|ode)\.", "a module that JAX's file imports, or internal to it"),
    (r"^jax\.experimental\.rnn\.", "bound to cuDNN"),
    (r"^jax\.example_libraries\.", "a type of annotations"),
    (r"^jax\.experimental\.(hijax|custom_partitioning|layout)\.",
     "arrays have types and layouts of tfn alone"),
    (r"^jax\.experimental\.", "bound to XLA's runtime, or experimental in JAX itself"),
    (r"^jax\.profiler\.", "bound to XLA's profiler; tfn.profiler has its own"),
    (r"\.(float6_\w+|int1|uint1)$", "a type that processors and NumPy lack"),
    (r"^jax\.lax\.(after_all|create_token|psend|precv|ragged_all_to_all)$",
     "effects have an order of their own"),
    (r"^jax\.lax\.rng_uniform$", "keeps a hidden state"),
    (r"^jax\.\w+\.", "not written"),
    (r"^jax\.[A-Za-z0-9_]+$", "a setting or helper of XLA's runtime, or not written"),
)
"""Reasons of absent names, the first pattern that fits."""
# fmt: on


def there(module: str, name: str) -> bool:
    """Whether ``import module`` finds a name under `tfn.compat`, and can use it."""
    names = MODULES.get(module)
    if names is None:
        return False
    for place in (names.elsewhere.get(name), f"{names.source}:{name}" if names.source else None):
        if place is not None:
            source, _, attribute = place.partition(":")
            try:
                found = importlib.import_module(source)
            except ImportError:
                continue
            if not attribute or hasattr(found, attribute):
                return True
    return f"{module}.{name}" in MODULES


def difference(module: str, name: str) -> str:
    """How the meaning of a name differs on purpose; nothing if it does not."""
    names = MODULES.get(module)
    place = names.elsewhere.get(name, "") if names is not None else ""
    if place.startswith(f"{COMPOSED}:"):
        return "bound as in JAX, and recorded as other operations"
    return DIFFERENT.get(f"{module}.{name}", "")


def reason(title: str) -> str:
    """The reason why a name is absent; an error if no row has it."""
    for pattern, words in REASONS:
        if re.search(pattern, title):
            return words
    raise KeyError(f"{title} is absent: give the reason in REASONS, or write it")


def page() -> str:
    """The page."""
    names: dict[str, list[str]] = json.loads(NAMES.read_text())
    total = sum(map(len, names.values()))
    lines: list[str] = []
    count = 0
    for module in sorted(names):
        absent: dict[str, list[str]] = {}
        others: dict[str, list[str]] = {}
        for name in names[module]:
            title = f"{module}.{name}"
            words = difference(module, name)
            if not there(module, name) and not words:
                absent.setdefault(reason(title), []).append(name)
                continue
            count += 1
            if words:
                others.setdefault(words, []).append(name)
        missing = sum(map(len, absent.values()))
        lines += [f"## {module}", "", f"{len(names[module]) - missing} of {len(names[module])}."]
        lines += [
            f"- differs, {words}: " + ", ".join(f"`{name}`" for name in group)
            for words, group in others.items()
        ]
        lines += [
            f"- absent, {words}: " + ", ".join(f"`{name}`" for name in group)
            for words, group in absent.items()
        ]
        lines.append("")
    head = [
        "# Every public name of JAX",
        "",
        "Made by `python docs/jax_names.py` from the names of JAX 0.10.2.  A name that is not",
        "listed under its module is there; others differ on purpose, or are absent for a reason.",
        "",
        f"Of {total} names {count} are there.",
        "",
    ]
    return "\n".join([*head, *lines]).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
