"""Enumerations whose members are as quick as plain objects: to find, and as keys.

Passes ask of each node again and again what it is, ``u.op is Op.LOAD``, and look it up in tables by
its op.  Python 3.11 finds ``Op.LOAD`` by a function of the metaclass, for four times what an
attribute of any other class takes; later versions do without that function.  The hash of a member
is a function of Python in every version.

Source: What's New In Python 3.12, enum: the removal of ``EnumMeta.__getattr__``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, TypeVar

T = TypeVar("T")


class _Listed(type):
    """What is left of `enum.EnumType` once all members are made: they can be listed."""

    _member_names_: list[str]

    def __iter__(cls) -> Iterator[Any]:
        return (getattr(cls, name) for name in cls._member_names_)

    def __len__(cls) -> int:
        return len(cls._member_names_)


def plain(cls: type[T]) -> type[T]:
    """The same enumeration, whose members are plain attributes and hash by identity.

    Example:
        >>> import enum
        >>> @plain
        ... class Side(enum.Enum):
        ...     LEFT = "left"
        ...     RIGHT = "right"
        >>> Side.LEFT, Side("right"), len(Side)
        (<Side.LEFT: 'left'>, <Side.RIGHT: 'right'>, 2)
    """
    made: Any = cls
    made.__hash__ = object.__hash__
    if sys.version_info < (3, 12):
        made.__class__ = _Listed
    return cls
