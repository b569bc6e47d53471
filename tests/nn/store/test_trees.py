"""Trees and names as bytes: what they say comes back, and what is wrong is refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tfn.errors import DamagedError
from tfn.nn.store.trees import Block, Leaf, Part, Ref, Tree, decode, encode, tiled

BLOCK = Block("ab" * 32, 40)
LEAF = Leaf("F32", (4, 2), (("x",), ()), (Part((0, 0), (4, 2), 8, (BLOCK,)),))
TREE = Tree({"w": LEAF}, {"step": "3"})


def test_trees_come_back_and_equal_ones_have_equal_bytes() -> None:
    assert decode(encode(TREE)) == TREE
    again = Tree({"b": LEAF, "a": LEAF}, {"y": "", "x": ""})
    assert encode(again) == encode(Tree({"a": LEAF, "b": LEAF}, {"x": "", "y": ""}))


WRONG = {
    "a dtype": ("F32", "F33"),
    "a negative size": ("[4,2],[[", "[4,-2],[["),
    "a size that is no integer": ("[4,2],[[", "[4,true],[["),
    "a part beyond its array": ("[[[0,0],", "[[[1,0],"),
    "blocks that are too short": (",40]", ",39]"),
    "a digest": ("abab", "ABAB"),
    "a path in the place of a digest": ("abab", "../."),
    "another version": ('"version":1', '"version":2'),
    "another format": ("tfn tree", "tfn twig"),
    "an array twice": ('"arrays":{', '"arrays":{"w":[],'),
    "a text cut short": ("1}", "1"),
}


@pytest.mark.parametrize("old, new", WRONG.values(), ids=WRONG)
def test_wrong_trees_are_refused(old: str, new: str) -> None:
    text = encode(TREE).decode()
    assert old in text
    with pytest.raises(DamagedError):
        decode(text.replace(old, new, 1).encode())


@pytest.mark.parametrize("value", [None, -1, 1.5, "x", [], {}, True, 1 << 70])
@pytest.mark.parametrize("field", range(4))
def test_any_other_field_of_a_part_is_refused_or_a_tree(field: int, value: Any) -> None:
    record = json.loads(encode(TREE))
    record["arrays"]["w"][3][0][field] = value
    with pytest.raises(DamagedError):
        decode(json.dumps(record).encode())


@pytest.mark.parametrize("ref", [Ref(BLOCK, 12, False), Ref(None, 0, True)])
def test_every_changed_byte_of_a_name_is_refused(ref: Ref) -> None:
    raw = ref.encoded()
    assert Ref.decoded(raw) == ref
    for at in range(len(raw)):
        for other in (raw[:at], raw[:at] + bytes([raw[at] ^ 1]) + raw[at + 1 :]):
            with pytest.raises(DamagedError):
                Ref.decoded(other)


@pytest.mark.parametrize(
    "shape, boxes, right",
    [
        ((), [((), ())], True),
        ((0, 3), [], True),
        ((4,), [((0,), (3,)), ((3,), (1,))], True),
        ((4,), [((0,), (3,)), ((1,), (1,))], False),  # overlap, of the right number of elements
        ((4,), [((0,), (2,)), ((0,), (2,))], False),
        ((4,), [((0,), (2,)), ((3,), (2,))], False),
        ((2, 2), [((0, 0), (2, 1)), ((0, 1), (1, 1)), ((1, 1), (1, 1))], True),
        ((2, 2), [((0, 0), (2, 1)), ((0, 0), (1, 1)), ((1, 1), (1, 1))], False),
        ((2, 2), [((0, 0), (2, 1)), ((0, 1), (2, 0)), ((0, 1), (2, 1))], True),
    ],
)
def test_boxes_that_make_up_an_array(shape: Any, boxes: Any, right: bool) -> None:
    assert tiled(shape, boxes) is right
