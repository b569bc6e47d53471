"""One program, run on JAX or on tfn: `benchmarks/programs.py` starts this file for each.

    python benchmarks/program_run.py SIDE PROGRAM ROOT OUT

The program is run as `__main__`, from its own folder. Of a notebook the cells are run one after the
other, and the value of a cell's last line is printed; lines for the shell and magics are left out,
`%time x` and `%timeit x` run `x` once, and a cell may raise an error where its recorded output is
one. Arrays and numbers that the program's global names hold when it ends are written to `OUT`, with
the time that it took. The generators of NumPy, Python and PyTorch are seeded before, and keep their
state when JAX is imported, which draws from one.
"""

from __future__ import annotations

import ast
import builtins
import doctest
import json
import os
import random
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import stand_ins

MAX_LEAVES = 300
"""Arrays that are written of one name: models have hundreds, and all come from the same steps."""
MAX_ELEMENTS = 2_000_000
"""Elements of an array that is written: 8 MB of float32."""


def cells_of(path: Path, part: tuple[str, str] = ("", "")) -> list[tuple[str, bool]]:
    """The texts that are run one after the other, each with whether an error ends the program.

    An error does not where a notebook's recorded output of the cell is one too.

    Args:
        path: a program, a notebook, or a page with doctests.
        part: texts between which a page's doctests are taken.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        begin, end = (text.index(words) for words in part)
        lines = [line for line in text[begin:end].splitlines() if not line.startswith("```")]
        examples = doctest.DocTestParser().get_examples("\n".join(lines))
        return [(example.source, True) for example in examples]
    if path.suffix == ".py":
        return [(text, True)]
    cells = []
    for cell in json.loads(text)["cells"]:
        if cell["cell_type"] == "code":
            source = cell["source"]
            raised = any(output["output_type"] == "error" for output in cell.get("outputs", ()))
            source = shown("".join(source) if isinstance(source, list) else source)
            cells.append((source, not raised))
    return cells


def edited(text: str, changes: dict[str, Any]) -> str:
    """A text with its edits made, and the number of steps in the place of `STEPS`."""
    for old, new in changes.get("edits", ()):
        text = text.replace(old, re.sub(r"\bSTEPS\b", str(changes["steps"]), new))
    return text


def shown(cell: str) -> str:
    """A cell without magics, which prints the value of its last line."""
    lines = cell.splitlines()
    if lines and lines[0].lstrip().startswith("%%"):
        if lines[0].split()[0][2:] not in ("time", "timeit", "capture"):
            return ""  # a cell in another language
        lines = lines[1:]
    kept = [plain(line) for line in lines]
    try:
        body = ast.parse("\n".join(kept)).body
    except SyntaxError:
        return "\n".join(kept)
    ends_quietly = bool(kept) and kept[-1].rstrip().endswith(";")
    if body and isinstance(body[-1], ast.Expr) and not ends_quietly:
        last = body[-1]
        before, value = kept[: last.lineno - 1], kept[last.lineno - 1 :]
        head = value[0][: last.col_offset]
        value[0] = value[0][last.col_offset :]
        return "\n".join([*before, head + "__show__((", *value, "))"])
    return "\n".join(kept)


def plain(line: str) -> str:
    """A line of a notebook as Python: magics are left out, what they time is run once."""
    bare = line.lstrip()
    indent = line[: len(line) - len(bare)]
    for magic in ("%timeit", "%time"):
        if bare.startswith(magic + " "):
            words = bare[len(magic) :].split()
            while words and words[0].startswith("-"):
                words = words[2:] if len(words[0]) == 2 else words[1:]
            return indent + " ".join(words)
    if bare.startswith(("!", "%", "?")) or bare.endswith("?"):
        return indent + "pass"
    return line


def show(value: Any) -> None:
    """Prints the value of a cell, as a notebook does."""
    if value is not None:
        print(repr(value))


def arrays_of(names: dict[str, Any]) -> dict[str, np.ndarray]:
    """Arrays and numbers in the trees that names hold, by name and place."""
    import jax

    found = {}
    skipped = (ModuleType, type, str, bytes)
    for name, value in names.items():
        if name.startswith("_") or isinstance(value, skipped):
            continue
        if callable(value) and type(value).__module__.partition(".")[0] in ("jax", "tfn"):
            continue  # what a derivative keeps for its second half is no result
        try:
            leaves = jax.tree_util.tree_leaves(value)
        except Exception:  # a tree that cannot be flattened has nothing to compare
            continue
        for place, leaf in enumerate(leaves[:MAX_LEAVES]):
            array = array_of(leaf)
            if array is not None and array.size <= MAX_ELEMENTS:
                found[f"{name}/{place}"] = array
    return found


def array_of(leaf: Any) -> np.ndarray | None:
    """A leaf as an array of NumPy; None if it holds no numbers."""
    import jax

    if isinstance(leaf, bool | int | float | complex | np.ndarray | np.generic):
        array = np.asarray(leaf)
    elif isinstance(leaf, jax.Array):
        if leaf.is_deleted():
            return None
        if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        array = np.asarray(leaf)
    else:
        return None
    if array.dtype.kind in "biufc":
        return array
    return array.astype(np.float32) if array.dtype.kind == "V" else None


def importing(name: str, *arguments: Any, **options: Any) -> ModuleType:
    """`__import__`, by which JAX draws no numbers from NumPy's generator while it is imported.

    The first import of PyTorch seeds its generator.
    """
    if name.partition(".")[0] == "torch" and "torch" not in sys.modules:
        IMPORT("torch").manual_seed(0)
    if "jax" in sys.modules:
        return IMPORT(name, *arguments, **options)
    state = np.random.get_state()
    module = IMPORT(name, *arguments, **options)
    np.random.set_state(state)
    return module


def timed(steps: Any) -> Iterator[Any]:
    """Iterates, and notes when each step begins."""
    for step in range(steps) if isinstance(steps, int) else steps:
        BEGINS.append(time.perf_counter())
        yield step
    BEGINS.append(time.perf_counter())


BEGINS: list[float] = []

IMPORT = builtins.__import__


def run_cell(source: str, name: str, names: dict[str, Any], stops: bool) -> None:
    """Runs a text; an error that does not stop the program is named."""
    try:
        exec(compile(source, name, "exec"), names)
    except Exception as error:
        if stops:
            raise
        print(type(error).__name__)


def main(side: str, program: str, root: str, out: str, more: str = "{}") -> None:
    """Runs a program, and writes what it leaves.

    Args:
        side: `jax` or `tfn`.
        program: its path.
        root: the folder of its repository.
        out: the folder to write to.
        more: a JSON object of what is changed, as `published.py` says it.
    """
    changes = json.loads(more)
    os.environ["MPLBACKEND"] = "Agg"
    random.seed(0)
    np.random.seed(0)
    unseeded = np.random.default_rng
    np.random.default_rng = lambda seed=None: unseeded(0 if seed is None else seed)
    if side == "tfn":
        from tfn.compat import install_as_jax

        install_as_jax()
    builtins.__import__ = importing
    path = Path(program).resolve()
    os.chdir(path.parent)
    sys.argv = [str(path)]
    sys.path[:1] = [str(path.parent)]
    sys.path.append(root)
    main_module = ModuleType("__main__")
    main_module.__dict__.update(__file__=str(path), __show__=show, __timed__=timed)
    main_module.__dict__.setdefault("display", show)
    sys.modules["__main__"] = main_module
    stand_ins.install(changes.get("stand_ins", []))
    main_module.__dict__["BENCHMARKS"] = str(Path(__file__).parent)
    cells = cells_of(path, changes.get("part", ("", "")))
    cells.append((changes.get("after", "").replace("STEPS", str(changes.get("steps"))), True))
    begin = time.perf_counter()
    try:
        for source, stops in cells:
            run_cell(edited(source, changes), str(path), main_module.__dict__, stops)
    except SystemExit as end:
        if end.code not in (None, 0):
            raise
    taken = time.perf_counter() - begin
    sys.stdout.flush()
    np.savez(Path(out) / "arrays.npz", **arrays_of(main_module.__dict__))
    (Path(out) / "seconds").write_text(str(taken))
    if BEGINS:
        later = np.diff(BEGINS)[len(BEGINS) // 2 - 1 :]
        (Path(out) / "step_seconds").write_text(str(later.mean()))
    os._exit(0)  # threads that a program leaves do not hold its process


if __name__ == "__main__":
    main(*sys.argv[1:])
