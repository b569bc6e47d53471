"""Questions about a function: its program at every stage, faster kernels, proofs of its bounds.

Files in reading order:
    show    `tfn.show`: a function at any stage of the compiler, as text
    tune    `tfn.tune`: faster opt-ops for its kernels, by search
    verify  `tfn.verify`: a proof that every load and store is in bounds
"""

from tfn._support.lazy import on_demand as _on_demand

with _on_demand(globals()):
    from tfn.inspect import show as show
