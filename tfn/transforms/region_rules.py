"""Rules of loops, branches, calls and functions with rules of their own, in each transform.

A rule goes through the functions of its op, so it takes the transform that it is a row of first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from tfn.trace.op import Op
from tfn.transforms import cond_rules, custom_rules, scan_rules, while_rules

MODULES: dict[Op, ModuleType] = {
    Op.SCAN: scan_rules,
    Op.WHILE: while_rules,
    Op.COND: cond_rules,
    Op.CALL: cond_rules,
    Op.CUSTOM: custom_rules,
}
"""The modules with functions `jvp`, `transpose` and `batch_rule`."""


def rows(rule: str, transform: Callable[..., Any]) -> dict[Op, Callable[..., Any]]:
    """The rules of one name, which call the transform for the functions of their op."""
    return {op: partial(getattr(module, rule), transform) for op, module in MODULES.items()}
