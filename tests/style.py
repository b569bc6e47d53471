"""Style figures: counts of what a reader meets, each with its goal.

    make style          the tree as it is
    make style ARGS=~/other/tfn    another checkout

Figures that are at their goal are tests in tests/test_structure.py, so that they stay there; the
others are printed, to be lowered.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from tests import size

ROOT = Path(__file__).parents[1]
COMPILER = ("lower", "trace", "transforms", "hw")
"""The packages in which an engineer looks for terms of the field."""

RELATIVE = re.compile(r"(What|That|Those|Which|How)\b")
"""Words with which a docstring names no subject."""

TERMS = {
    "fusion": r"fusion|fuse",
    "flash attention": r"flash",
    "memory planner": r"memory plan",
    "causal mask": r"causal",
    "split-K": r"split-k",
    "heuristic": r"heuristic",
    "autotune": r"autotun|beam search",
    "dead code": r"dead code|dead-code",
    "common subexpression": r"common subexpression|hash-cons|hash cons",
    "im2col": r"im2col",
    "predicate": r"predicate",
    "deinterleave": r"deinterleav",
    "free list": r"free list|free-list",
    "AOT": r"\baot\b|ahead of time|ahead-of-time",
    "tiling": r"tiling|tile",
    "GEMM": r"\bgemm\b",
    "matmul": r"matmul|matrix multipl",
    "matrix product": r"matrix product|products of matrices",
    "prefetch": r"prefetch",
    "donation": r"donat",
    "alias": r"alias",
    "cost model": r"cost",
    "interval analysis": r"interval",
    "affine": r"affine",
    "arena": r"arena",
    "materialisation": r"materiali[sz]",
    "radix": r"radix",
    "vectorisation": r"vector",
}
"""Terms that an engineer of the field searches for, with the words that answer them."""

PUBLIC = (
    *("__init__", "image", "tree", "tree_util", "flatten_util", "dtypes", "debug", "checkify"),
    *("ops", "numpy/__init__", "numpy/linalg/__init__", "numpy/fft", "lax/__init__"),
    *("lax/linalg/__init__", "random/__init__", "nn/__init__", "nn/initializers"),
    *("nn/optim/__init__", "scipy/special", "scipy/linalg", "scipy/signal/__init__"),
    *("scipy/ndimage", "scipy/sparse/linalg", "scipy/stats/norm"),
)
"""The modules that users import, below `tfn`."""


@dataclass(frozen=True)
class Text:
    """A docstring: of a module, class or function, or below a constant."""

    path: Path
    line: int
    text: str
    is_module: bool = False

    @property
    def first_line(self) -> str:
        return self.text.strip().partition("\n")[0]


@dataclass(frozen=True)
class Source:
    """One file of tfn."""

    path: Path
    package: str
    text: str
    tree: ast.Module

    @cached_property
    def lower(self) -> str:
        """The text in lower case."""
        return self.text.lower()

    @cached_property
    def docstrings(self) -> list[Text]:
        """Every string that stands as a statement."""
        found = []
        for node in ast.walk(self.tree):
            for i, child in enumerate(getattr(node, "body", ()) if has_body(node) else ()):
                if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):
                    value = child.value.value
                    if isinstance(value, str):
                        whole = node is self.tree and i == 0
                        found.append(Text(self.path, child.lineno, value, whole))
        return found

    @cached_property
    def comments(self) -> list[str]:
        """Comments for people, not for tools."""
        tokens = tokenize.generate_tokens(io.StringIO(self.text).readline)
        words = [t.string for t in tokens if t.type == tokenize.COMMENT]
        return [w for w in words if not re.match(r"#\s*(fmt|type|noqa|ruff|pragma)\b", w)]

    @cached_property
    def code_lines(self) -> int:
        """Lines of code: no blank lines, comments or docstrings."""
        return size.count(self.text).lines


def has_body(node: ast.AST) -> bool:
    return isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))


@cache
def sources(root: Path) -> list[Source]:
    """The files of tfn below a checkout."""
    found = []
    for path in sorted((root / "tfn").rglob("*.py")):
        text, parts = path.read_text(), path.relative_to(root / "tfn").parts
        found.append(Source(path, parts[0] if len(parts) > 1 else "", text, ast.parse(text)))
    return found


def relative_docstrings(files: list[Source]) -> list[Text]:
    """Docstrings that begin with a relative pronoun instead of a noun or a verb."""
    return [t for s in files for t in s.docstrings if RELATIVE.match(t.text.strip())]


def missing_terms(files: list[Source]) -> list[str]:
    """Terms of the field that no first line of a docstring of the compiler has."""
    first = [t.first_line for s in files if s.package in COMPILER for t in s.docstrings]
    return [term for term, words in TERMS.items() if not matches(words, first)]


def missing_file_terms(files: list[Source]) -> list[str]:
    """Terms of the field that no file of the compiler begins with."""
    whole = [t for s in files if s.package in COMPILER for t in s.docstrings if t.is_module]
    return [
        term for term, words in TERMS.items() if not matches(words, [t.first_line for t in whole])
    ]


def matches(words: str, lines: list[str]) -> bool:
    return any(re.search(words, line, re.IGNORECASE) for line in lines)


def numbered_passes(files: list[Source]) -> list[str]:
    """Passes that are taken by number, not by name."""
    return hits(files, r"\bPASSES\[\d")


def skipped_formats(files: list[Source]) -> list[str]:
    """Lines that the formatter must leave; tables are between `fmt: off` and `fmt: on`."""
    return hits(files, r"# fmt: skip")


def hits(files: list[Source], pattern: str) -> list[str]:
    return [
        f"{s.path}:{number}"
        for s in files
        for number, line in enumerate(s.text.splitlines(), 1)
        if re.search(pattern, line)
    ]


def unexplained_arguments(files: list[Source]) -> list[str]:
    """Public functions of three parameters and more whose docstring has no Args."""
    by_name = {s.path.as_posix().rpartition("/tfn/")[2].removesuffix(".py"): s for s in files}
    found = {}
    for module in PUBLIC:
        for name, f in public_functions(by_name, module):
            parameters = [*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs]
            count = len(parameters) + (f.args.vararg is not None)
            if count >= 3 and not re.search(r"^\s*Args:", ast.get_docstring(f) or "", re.M):
                found[f"{module}: {name}"] = f
    return sorted(found)


def public_functions(
    by_name: dict[str, Source], module: str
) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions that a module defines or offers."""
    if module not in by_name:
        return
    if not module.endswith("__init__"):
        yield from functions(by_name[module])
        return
    for node in ast.walk(by_name[module].tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tfn."):
            file = (node.module or "").removeprefix("tfn.").replace(".", "/")
            source = by_name.get(file)
            offered = {a.name for a in node.names if a.asname == a.name}
            if source is not None:
                yield from ((name, f) for name, f in functions(source) if name in offered)


def functions(source: Source) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The public functions of a file; of overloads the last."""
    last = {n.name: n for n in source.tree.body if isinstance(n, ast.FunctionDef)}
    yield from ((name, f) for name, f in last.items() if name[0] != "_")


def uses_of_any(files: list[Source]) -> int:
    """How often annotations say `Any`."""
    return sum(isinstance(n, ast.Name) and n.id == "Any" for s in files for n in ast.walk(s.tree))


def participles(files: list[Source]) -> list[str]:
    """Functions in which a local variable is called found or made."""
    names = []
    for s in files:
        for f in ast.walk(s.tree):
            if isinstance(f, ast.FunctionDef):
                stored = {
                    n.id
                    for n in ast.walk(f)
                    if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
                }
                if stored & {"found", "made"}:
                    names.append(f"{s.path}:{f.lineno}: {f.name}")
    return names


def repeated_file_names(files: list[Source]) -> list[str]:
    """Names of files that several packages have."""
    folders: dict[str, set[str]] = {}
    for s in files:
        if s.path.stem != "__init__":
            folders.setdefault(s.path.stem, set()).add(s.path.parent.as_posix())
    return sorted(name for name, where in folders.items() if len(where) > 1)


def comments_per_100_lines(files: list[Source]) -> float:
    lines = sum(s.code_lines for s in files)
    return 100 * sum(len(s.comments) for s in files) / max(lines, 1)


@dataclass(frozen=True)
class Figure:
    """A count, what it was before the compiler had its rooms, and its goal."""

    name: str
    before: str
    goal: str
    count: Callable[[list[Source]], str]


def _lower(files: list[Source]) -> list[Source]:
    return [s for s in files if s.package == "lower"]


def _share(files: list[Source]) -> str:
    count, all_texts = len(relative_docstrings(files)), sum(len(s.docstrings) for s in files)
    return f"{100 * count / all_texts:.1f}% ({count})"


# fmt: off
FIGURES = (
    Figure("docstrings that begin with What, That, Those, Which, How", "10.2%", "< 1%", _share),
    Figure("terms of the field in no first line", "16 of 28", "0",
           lambda files: f"{len(missing_terms(files))} of {len(TERMS)}"),
    Figure("terms of the field in no first line of a file", "19 of 28", "",
           lambda files: f"{len(missing_file_terms(files))} of {len(TERMS)}"),
    Figure("functions with locals called found or made", "463", "< 60",
           lambda files: str(len(participles(files)))),
    Figure("comments per 100 lines of code in the compiler", "1.7", "4",
           lambda files: f"{comments_per_100_lines(_lower(files)):.1f}"),
    Figure("Any per 1,000 lines", "26.6", "< 8", lambda files:
           f"{1000 * uses_of_any(files) / sum(s.text.count(chr(10)) for s in files):.1f}"),
    Figure("public functions of >= 3 parameters without Args", "323", "0",
           lambda files: str(len(unexplained_arguments(files)))),
    Figure("lines with fmt: skip", "783", "0", lambda files: str(len(skipped_formats(files)))),
    Figure("passes taken by number", "11", "0", lambda files: str(len(numbered_passes(files)))),
    Figure("file names in several packages", "33", "", lambda files:
           str(len(repeated_file_names(files)))),
)
# fmt: on


def main(root: Path, lists: bool) -> None:
    """Print the figures of a checkout; with their places if asked for."""
    files = sources(root)
    print(f"{'':58}{'before':>10}{'now':>14}{'goal':>8}")
    for figure in FIGURES:
        print(f"{figure.name:58}{figure.before:>10}{figure.count(files):>14}{figure.goal:>8}")
    if lists:
        texts = [f"{t.path}:{t.line}: {t.first_line}" for t in relative_docstrings(files)]
        for line in (*texts, *missing_terms(files), *unexplained_arguments(files)):
            print(line)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Print the style figures of a checkout.")
    parser.add_argument("root", nargs="?", type=Path, default=ROOT, help="the checkout")
    parser.add_argument("--list", action="store_true", help="print the places, too")
    arguments = parser.parse_args()
    main(arguments.root.expanduser(), arguments.list)
