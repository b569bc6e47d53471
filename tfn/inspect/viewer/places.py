"""Source lines of nodes and kernels, and the text of the files around them.

A node of a pass without a line of its own has that of the first of its sources that has one.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tfn.extend import Op, UOp, source_lines, walk
from tfn.inspect.kernels import weight

CONTEXT_LINES = 6
"""Lines of a file that are shown before and after each line of the program."""

WHOLE_FILE_LINES = 300
"""Files up to this length are shown whole: a script is read from its beginning."""

UNKNOWN = -1


class Places:
    """Numbers for source lines, and the line of each node.

    Attributes:
        numbers: of (path, line), in the order of first use.
    """

    def __init__(self) -> None:
        self.numbers: dict[tuple[str, int], int] = {}
        self._of_node: dict[UOp, int] = {}

    def add(self, roots: Iterable[UOp]) -> None:
        """Numbers the lines of all nodes under the roots, those of nested functions too."""
        waiting = list(roots)
        while waiting:
            for node in walk([waiting.pop()]):
                if node in self._of_node:
                    continue
                if node.op is Op.FUNCTION:
                    waiting.append(node)
                self._of_node[node] = UNKNOWN
                if node.op in (Op.PARAM, Op.CONST, Op.LEAF, Op.FUNCTION):
                    continue
                line = source_lines.line_of(node)
                if line is not None:
                    self._of_node[node] = self.numbers.setdefault(line, len(self.numbers))
                else:
                    lines = (self.of(s) for s in node.src)
                    self._of_node[node] = next((n for n in lines if n >= 0), UNKNOWN)

    def of(self, node: UOp) -> int:
        """The number of the line of a node, or UNKNOWN."""
        return self._of_node.get(node, UNKNOWN)

    def shares(self, nodes: Iterable[UOp]) -> dict[int, float]:
        """The share of each line in the work of nodes; an operation without any counts a little."""
        weights: dict[int, float] = {}
        for node in nodes:
            number = self.of(node)
            if number >= 0 and node.op is not Op.GBARRIER:
                weights[number] = weights.get(number, 0.0) + weight(node)
        total = sum(weights.values())
        return {number: weight / total for number, weight in weights.items()}

    def files(self) -> tuple[list[dict[str, Any]], list[tuple[int, int]]]:
        """The text of each file around the lines, and each line as (file, line number)."""
        used: dict[str, set[int]] = {}
        for path, line in self.numbers:
            used.setdefault(path, set()).add(line)
        files = [
            {"name": Path(path).name, "path": path, "lines": _around(path, lines)}
            for path, lines in used.items()
        ]
        order = {path: i for i, path in enumerate(used)}
        return files, [(order[path], line) for path, line in self.numbers]


def _around(path: str, used: set[int]) -> list[tuple[int, str]]:
    """The numbered lines of a file that are used, with a few before and after."""
    text = linecache.getlines(path)
    if len(text) <= WHOLE_FILE_LINES:
        numbers = set(range(1, len(text) + 1))
    else:
        around = range(-CONTEXT_LINES, CONTEXT_LINES + 1)
        numbers = {line + i for line in used for i in around if 1 <= line + i <= len(text)}
    return [(i, text[i - 1].rstrip()) for i in sorted(numbers)]
