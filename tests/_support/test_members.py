"""Fast enumerations behave as enumerations."""

from __future__ import annotations

import copy
import enum
import pickle

import pytest

from tfn._support.members import plain
from tfn.lower.program import Space
from tfn.trace.argument import Place
from tfn.trace.op import Op


@plain
class Side(enum.Enum):
    LEFT = "left"
    RIGHT = "right"


ALL = (Side, Op, Place, Space)


@pytest.mark.parametrize("kind", ALL)
def test_members_can_be_listed_and_found_by_their_values(kind: type[enum.Enum]) -> None:
    members = list(kind)
    assert len(members) == len(kind) > 1
    for member in members:
        assert isinstance(member, kind) and member in kind
        assert kind(member.value) is member is getattr(kind, member.name)
        assert repr(member) == f"<{kind.__name__}.{member.name}: {member.value!r}>"


@pytest.mark.parametrize("kind", ALL)
def test_copies_are_the_same_objects(kind: type[enum.Enum]) -> None:
    for member in kind:
        assert pickle.loads(pickle.dumps(member)) is member
        assert copy.deepcopy(member) is copy.copy(member) is member


def test_members_hash_by_identity() -> None:
    assert hash(Side.LEFT) == object.__hash__(Side.LEFT)
    assert {Side.LEFT: 1, Side.RIGHT: 2}[Side.LEFT] == 1


def test_missing_members_are_errors() -> None:
    with pytest.raises(ValueError, match="'front' is not a valid Side"):
        Side("front")
    with pytest.raises(AttributeError):
        Side.FRONT  # type: ignore[attr-defined]  # noqa: B018
