"""Content hash of a graph, the same in every process: the digest of its nodes in order.

Two graphs with one digest are the same graph; one graph has one digest, since nodes are walked in
the order that their sources give.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

from tfn.trace.op import Op
from tfn.trace.uop import UOp, nodes, remembered


def digest(root: UOp) -> str:
    """The digest of a graph, with the functions inside.

    Example:
        >>> from tfn.dtypes import FLOAT32
        >>> from tfn.trace.uop import const
        >>> x = const(2.0, FLOAT32)
        >>> digest(x + x)[:8], digest(x * x)[:8] == digest(x + x)[:8]
        ('...', False)
    """
    return _of_function(root) if root.op is Op.FUNCTION else _computed(root)


@remembered
def _of_function(f: UOp) -> str:
    return _computed(f)


def _computed(root: UOp) -> str:
    numbers: dict[UOp, int] = {}
    rows: list[str] = []
    for node in nodes(root):
        numbers[node] = len(numbers)
        if node.op is Op.FUNCTION and node is not root:
            rows.append(f"function {_of_function(node)}")
            continue
        sources = ",".join([str(numbers[s]) for s in node.src])
        rows.append(f"{node.op.value}({sources}){_shown(node.arg)}")
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


@lru_cache(maxsize=1 << 10)  # a kernel has many nodes and few distinct arguments
def _shown(arg: object) -> str:
    return repr(arg)
