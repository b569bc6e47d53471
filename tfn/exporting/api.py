"""`tfn.export`: a call writes files; its attributes serialize and deserialize functions::

tfn.export(f, x, path="f.c")                  files that need neither Python nor tfn
tfn.export.serialize(f, x)                    bytes, for other processes and machines
tfn.export.deserialize(data)                  the function again
tfn.export.symbolic_shape("b, 28, 28")        a shape for it with a size of any number
tfn.export.export(tfn.jit(f))(x).serialize()  the same under the names of `jax.export`
"""

from __future__ import annotations

import inspect

from tfn.exporting.export import export as _files
from tfn.exporting.serialize import deserialize as _deserialize
from tfn.exporting.serialize import serialize as _serialize
from tfn.exporting.symbolic import anyhow as _anyhow
from tfn.exporting.symbolic_dims import symbolic_shape as _symbolic_shape


class Export:
    """The type of `tfn.export`: a function with functions as attributes."""

    __call__ = staticmethod(_files)
    __signature__ = inspect.signature(_files)
    serialize = staticmethod(_serialize)
    deserialize = staticmethod(_deserialize)
    export = staticmethod(_anyhow)
    symbolic_shape = staticmethod(_symbolic_shape)

    def __repr__(self) -> str:
        return "<tfn.export>"


export = Export()
