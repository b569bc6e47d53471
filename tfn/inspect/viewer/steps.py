"""Records of passes as text: the rule, the node before and after, the law and its proof.

mul-one    r0 * 1  ->  r0       i * 1 -> i  over INT, proved by z3
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tfn.extend import Op, UOp, shown
from tfn.lower.index.laws import LAWS
from tfn.lower.index.simplify import RULES
from tfn.lower.loops import opt_ops
from tfn.lower.loops.loop_nest import Nest
from tfn.lower.report.print.expression import Text, operation
from tfn.trace.jaxpr import argument
from tfn.trace.op import ELEMENTWISE
from tfn.trace.records import Record

MAX_DEPTH = 4
"""Operations within each other that are written out: the ends of a rewrite tell what it did."""

_WITHOUT_EMPTY = re.compile(r"\w+=\(\), ")

_LAWS = {law.name: law for law in LAWS}
_FOLDS = {rule.name for row in RULES.values() for rule in row} - _LAWS.keys()
_PROVED_OVER = {"INDEX": "Z", "INT": "bit vectors", "FLOAT": "IEEE 754 floats", "BITS": "bool"}


def law_of(rule: str) -> dict[str, str] | None:
    """The law or fold of a rule's name, with the ground on which it stands; None for others.

    Example:
        >>> law_of("mul-one")
        {'text': 'i * 1 -> i  over INT', 'proof': 'proved by z3 over bit vectors'}
    """
    law = _LAWS.get(rule)
    if law is not None:
        return {"text": str(law), "proof": f"proved by z3 over {_PROVED_OVER[law.over.name]}"}
    if rule in _FOLDS:
        return {"text": "a fold: computed", "proof": "not a law; tested against the oracle"}
    return None


def expression(node: UOp, names: Mapping[UOp, str], depth: int = MAX_DEPTH) -> str:
    """A node as Python writes it, to a few levels; deeper operands are dots.

    Args:
        node: of any stage.
        names: of nodes that are written by name.
        depth: operations within each other.
    """
    return _text(node, names, depth).text


def _text(node: UOp, names: Mapping[UOp, str], depth: int) -> Text:
    if node in names:
        return Text(names[node])
    if node.op is Op.PARAM:
        return Text(f"p{node.arg.index}")
    if depth == 0 and node.src:
        return Text("…")
    sources = [_text(s, names, depth - 1) for s in node.src if s.op is not Op.FUNCTION]
    if node.op is Op.LOAD:
        return Text(f"{sources[0].text}[{sources[1].text}]")
    if node.op in ELEMENTWISE or node.op in (Op.CONST, Op.RANGE):
        return operation(node, sources)
    arg = "" if node.op in (Op.SINK, Op.STORE) else _WITHOUT_EMPTY.sub("", argument(node.arg))
    inside = ", ".join(s.text for s in sources)
    kind = f": {shown(node)}" if node.shape else ""
    return Text(f"{node.op.value}{f'[{arg}]' if arg else ''}({inside}){kind}")


def rewrites(records: Iterable[Record], names: Mapping[UOp, str]) -> list[list[Any]]:
    """Rewrites as rows of rule, before, after and count; equal ones are one row."""
    counts: dict[tuple[str, UOp, UOp], int] = {}
    for one in records:
        if isinstance(one.before, UOp) and isinstance(one.after, UOp) and one.rule != "barrier":
            key = one.rule, one.before, one.after
            counts[key] = counts.get(key, 0) + 1
    return [
        [rule, expression(before, names), expression(after, names), count]
        for (rule, before, after), count in counts.items()
    ]


def decisions(records: Iterable[Record]) -> list[dict[str, Any]]:
    """The decisions on a loop nest: the rule, the opt-ops it applied, and the model's costs."""
    rows = []
    for one in records:
        if isinstance(one.before, Nest):
            opts = one.after.opts[len(one.before.opts) :]
            rows.append(
                {
                    "rule": one.rule,
                    "reason": one.reason,
                    "opts": [opt_ops.show(opt) for opt in opts],
                    "costs": [[cost.name, round(cost.value, 1)] for cost in one.costs],
                }
            )
    return rows
