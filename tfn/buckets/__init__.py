"""Buckets: one program for many sizes, padded so that no result shows it.

In reading order:
    spec: declarations: which axes have sizes of their own, and to what they are rounded up.
    unified: traces at several sizes, which become one with polynomials for integers.
    scope: masking: the function at the size of a bucket, with the true sizes as scalars.
    mask: the table of rules, one row per op.
    movement: rules of ops that move elements.
    lookup: rules of gathers and scatters.
    loops: rules of loops and branches.
    bucketed: calls: arguments are padded, results are cut.
"""

from tfn.extend import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.buckets.bucketed import Bucketed as Bucketed
    from tfn.buckets.bucketed import BucketInfo as BucketInfo
    from tfn.buckets.spec import Buckets as Buckets
