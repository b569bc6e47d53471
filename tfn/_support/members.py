"""Fast enumerations: members are accessed and hashed as quickly as plain objects.

Passes test the op of each node many times, ``u.op is Op.LOAD``, and look it up in tables.  Python
3.11 finds ``Op.LOAD`` by a function of the metaclass, which takes four times as long as an
attribute of any other class; later versions have no such function.  The hash of a member is a
Python function in every version.

Source: What's New In Python 3.12, enum: the removal of ``EnumMeta.__getattr__``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, TypeVar

T = TypeVar("T")


class _Listed(type):
    """The metaclass after all members are made: only iteration and length remain."""

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
    enumeration: Any = cls
    enumeration.__hash__ = object.__hash__
    if sys.version_info < (3, 12):
        enumeration.__class__ = _Listed
    return cls
