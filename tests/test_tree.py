"""Pytrees: JAX's conventions, paths, registration, and the errors that name a place."""

import collections
import dataclasses
import pickle
from typing import NamedTuple

import pytest

import tfn
import tfn.numpy as tnp
from tfn import tree
from tfn.errors import ArgumentError, TreeError


class Point(NamedTuple):
    x: object
    y: object


@tree.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: object
    size: int = dataclasses.field(metadata={"static": True})


@tree.register_node_class
class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b

    def tree_flatten(self):
        return (self.a, self.b), "static"

    @classmethod
    def tree_unflatten(cls, static, children):
        assert static == "static"
        return cls(*children)


@tree.register_static
@dataclasses.dataclass(frozen=True)
class Mode:
    name: str


ORDERED = collections.OrderedDict([("z", 5), ("y", 6)])
DEFAULT = collections.defaultdict(int, {"k": 7})
EVERYTHING = {"b": [1, (2, None)], "a": Point(3, 4), "c": ORDERED, "d": DEFAULT}


def test_order_of_leaves_and_round_trip():
    leaves, structure = tree.flatten(EVERYTHING)
    assert leaves == [3, 4, 1, 2, 5, 6, 7]
    again = tree.unflatten(structure, leaves)
    assert again == EVERYTHING and list(again["c"]) == ["z", "y"]
    assert isinstance(again["a"], Point) and again["d"].default_factory is int


def test_dicts_are_rebuilt_in_the_order_of_sorted_keys() -> None:
    nested = {"b": [{"z": 1, "y": 2}], "a": collections.OrderedDict(d=1, c=2)}
    nested["c"] = collections.defaultdict(list, n=1, m=2)
    out = tree.map(lambda x: x, nested)
    assert list(out) == ["a", "b", "c"] and list(out["b"][0]) == ["y", "z"]
    assert list(out["a"]) == ["d", "c"] and list(out["c"]) == ["m", "n"]
    assert out["c"].default_factory is list and out == nested
    assert list(tree.transpose(tree.structure([0]), None, [{"b": 1, "a": 2}])) == ["a", "b"]


def test_a_static_part_without_a_hash_leaves_dicts_sorted() -> None:
    class Listed:
        def __init__(self, x: object, static: list[int]) -> None:
            self.x, self.static = x, static

    tree.register_node(Listed, lambda v: ((v.x,), v.static), lambda s, xs: Listed(xs[0], s))
    out = tree.map(lambda x: x, Listed({"b": 1, "a": 2}, [1]))
    assert list(out.x) == ["a", "b"] and out.static == [1]


def test_results_do_not_depend_on_the_dict_that_was_traced_first() -> None:
    joined = tfn.jit(lambda d: tnp.stack(list(d.values())))
    assert joined({"b": 1, "a": 2}).tolist() == [2, 1]
    assert joined({"a": 2, "b": 1}).tolist() == [2, 1]


def test_none_is_an_empty_node():
    assert tree.leaves(None) == [] and tree.leaves([None, 1]) == [1]
    assert tree.map(lambda x: x + 1, [None, 1]) == [None, 2]
    assert tree.leaves([None, 1], is_leaf=lambda x: x is None) == [None, 1]


def test_empty_containers_and_bare_leaves():
    assert tree.leaves([{}, (), []]) == [] and tree.leaves(3) == [3]
    assert tree.structure({}) != tree.structure([])


def test_registered_classes():
    layer = tree.map(lambda x: x * 2, Layer(3, 4))
    assert layer == Layer(6, 4)
    assert tree.structure(Layer(1, 4)) != tree.structure(Layer(1, 5))
    pair = tree.map(lambda x: -x, Pair(1, [2]))
    assert isinstance(pair, Pair) and (pair.a, pair.b) == (-1, [-2])
    assert tree.leaves(Mode("x")) == []
    assert tree.unflatten(tree.structure(Mode("x")), []) == Mode("x")
    assert tree.structure(Mode("x")) != tree.structure(Mode("y"))


def test_dataclass_with_named_fields():
    @dataclasses.dataclass
    class Both:
        a: int
        b: int

    tree.register_dataclass(Both, ["b"], ["a"])
    assert tree.leaves(Both(1, 2)) == [2]


@pytest.mark.parametrize(
    ("data", "meta", "said"),
    [
        (["a"], ["a", "b", "c"], "named twice: a"),
        (["a"], [], "missing: b, c"),
        (["a", "b", "c"], ["z"], "unexpected: z"),
    ],
)
def test_each_field_of_a_dataclass_is_named_once(data, meta, said):
    @dataclasses.dataclass
    class Three:
        a: int
        b: int = 5
        c: int = 6
        made: int = dataclasses.field(init=False, default=0)

    with pytest.raises(ArgumentError, match=said):
        tree.register_dataclass(Three, data, meta)
    tree.register_dataclass(Three, ["a"], ["c"], drop_fields=["b"])
    assert tree.map(lambda x: 2 * x, Three(1, 2, 3)) == Three(2, 5, 3)


def test_paths():
    assert tree.paths(EVERYTHING) == [
        "['a'].x",
        "['a'].y",
        "['b'][0]",
        "['b'][1][0]",
        "['c']['z']",
        "['c']['y']",
        "['d']['k']",
    ]
    assert tree.paths({"x": Layer([1], 2)}) == ["['x'].weight[0]"] and tree.paths(3) == [""]
    pairs, _ = tree.flatten_with_path({"a": [5]})
    assert [(tree.keystr(path), leaf) for path, leaf in pairs] == [("['a'][0]", 5)]
    assert tree.keystr(pairs[0][0], simple=True, separator="/") == "a/0"
    assert tree.map_with_path(lambda p, x, y: (tree.keystr(p), x + y), {"a": 1}, {"a": 2}) == {
        "a": ("['a']", 3)
    }


def test_map_takes_subtrees_of_the_others():
    assert tree.map(lambda x, y: (x, y), {"a": 1}, {"a": [2, 3]}) == {"a": (1, [2, 3])}


@pytest.mark.parametrize(
    "first, other, got",
    [
        ({"a": 1}, {"b": 1}, "at tree: keys ['a'] and keys ['b']"),
        ([1, 2], [1], "at tree: list of 2 and list of 1"),
        ({"k": [1, (2,)]}, {"k": [1, 2]}, "at tree['k'][1]: tuple and int"),
        (Point(1, [2]), Point(1, 2), "at tree.y: list and int"),
        ([1, None], [1, 2], "at tree[1]: NoneType and int"),
        ({"m": Layer(1, 2)}, {"m": Layer(1, 3)}, "at tree['m']: static (2,) and static (3,)"),
    ],
)
def test_map_names_the_path_of_a_difference(first, other, got):
    with pytest.raises(TreeError) as caught:
        tree.map(lambda x, y: x, first, other)
    assert caught.value.what == "tree.map needs trees of one structure"
    assert caught.value.got == got


def test_errors_of_the_function_are_its_own():
    with pytest.raises(ValueError, match="invalid literal"):
        tree.map(lambda x, y: int("x"), [1], [[2]])


def test_unflatten_counts():
    with pytest.raises(TreeError, match="a tree of 2 leaves cannot be made of 1"):
        tree.unflatten(tree.structure([1, 2]), [1])


def test_prefixes():
    assert tree.broadcast_prefix([1, 2], [{"a": 0, "b": 0}, 3]) == [1, 1, 2]
    assert tree.broadcast([1, 2], [{"a": 0, "b": 0}, 3]) == [{"a": 1, "b": 1}, 2]
    with pytest.raises(TreeError, match="prefix"):
        tree.broadcast_prefix([1, 2], [1, 2, 3])


def test_folds_and_transposition():
    assert tree.reduce(lambda x, y: x + y, {"a": 1, "b": [2, 3]}) == 6
    assert tree.reduce(lambda x, y: x + y, [], 10) == 10
    assert tree.all([True, 1]) and not tree.all([True, 0]) and tree.all([])
    outer, inner = tree.structure([0, 0]), tree.structure({"a": 0})
    assert tree.transpose(outer, inner, [{"a": 1}, {"a": 2}]) == {"a": [1, 2]}
    assert tree.transpose(outer, None, [{"a": 1}, {"a": 2}]) == {"a": [1, 2]}


def test_structures_hash_pickle_and_print():
    structure = tree.structure(EVERYTHING)
    assert pickle.loads(pickle.dumps(structure)) == structure
    assert hash(structure) == hash(tree.structure(EVERYTHING))
    assert tree.show(tree.structure({"a": 1, "b": (2, 3)})) == "{'a': *, 'b': (*, *)}"
    assert "Layer" in tree.show(tree.structure(Layer(1, 2)))


def test_partial_is_a_callable_tree():
    p = tree.Partial(pow, 2, mod=None)
    assert p(10) == 1024 and tree.leaves(p) == [2]
    assert tree.map(lambda x: x + 1, p)(2) == 9
    assert "Partial" in repr(p)


@tree.register_with_keys_class
class Keyed:
    def __init__(self, left, right):
        self.left, self.right = left, right

    def tree_flatten_with_keys(self):
        pairs = (tree.GetAttrKey("left"), self.left), (tree.DictKey("right"), self.right)
        return pairs, None

    @classmethod
    def tree_unflatten(cls, static, children):
        return cls(*children)


def test_keys_of_paths_are_those_of_jax():
    given = {"a": [Point(1, 2)], "b": Layer(3, 4), "c": Pair(5, 6), "d": Keyed(7, [8])}
    actual = [path for path, _ in tree.leaves_with_path(given)]
    D, S, G = tree.DictKey, tree.SequenceKey, tree.GetAttrKey
    assert actual == [
        (D("a"), S(0), G("x")),
        (D("a"), S(0), G("y")),
        (D("b"), G("weight")),
        (D("c"), tree.FlattenedIndexKey(0)),
        (D("c"), tree.FlattenedIndexKey(1)),
        (D("d"), G("left")),
        (D("d"), D("right"), S(0)),
    ]
    assert tree.paths(given) == [tree.keystr(path) for path in actual]
    assert tree.keystr(actual[6], simple=True, separator="/") == "d/right/0"
    assert len({*actual}) == len(actual)  # hashable


def test_keys_that_a_class_gives_itself_are_in_messages():
    with pytest.raises(TreeError, match=r"at tree\['d'\].left: list of 1"):
        tree.map(lambda x, y: 0, {"d": Keyed([1], 2)}, {"d": Keyed([1, 2], 3)})


def test_reductions():
    assert tree.reduce(lambda x, y: x - y, {"a": 1, "b": 2}, 10) == 7
    assert tree.reduce(lambda x, y: x - y, [5, 2]) == 3
    assert tree.reduce_associative("({}{})".format, list("abcde")) == "(((ab)(cd))e)"
    assert tree.reduce_associative(max, [], identity=0) == 0
    with pytest.raises(TreeError, match="without leaves"):
        tree.reduce_associative(max, {})


def test_a_predicate_of_paths_ends_branches() -> None:
    nested = {"a": [1, (2, 3)], "b": None, "c": 4}
    pairs, spec = tree.flatten_with_path(nested, lambda path, x: len(path) == 2, True)
    assert [(tree.keystr(path), x) for path, x in pairs] == [
        ("['a'][0]", 1),
        ("['a'][1]", (2, 3)),
        ("['c']", 4),
    ]
    assert tree.unflatten(spec, [x for _, x in pairs]) == nested
