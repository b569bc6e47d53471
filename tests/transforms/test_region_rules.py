"""Rules of loops, branches and calls, as rows of each transform."""

from __future__ import annotations

from tfn.trace.regions import ROWS
from tfn.transforms.batch import BATCH
from tfn.transforms.jvp import JVP
from tfn.transforms.region_rules import MODULES
from tfn.transforms.transpose import SEVERAL_RESULTS


def test_all_ops_with_functions_have_rules_in_each_transform() -> None:
    assert MODULES.keys() == ROWS.keys()
    assert ROWS.keys() <= JVP.keys() & BATCH.keys() & SEVERAL_RESULTS.keys()
