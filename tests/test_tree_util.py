"""JAX's older names of the functions of trees."""

import tfn
from tfn import tree_util as tu


def test_every_name_is_the_function_of_tree():
    given = {"a": [1, 2]}
    assert tu.tree_map(lambda x: x + 1, given) == {"a": [2, 3]}
    assert tu.tree_leaves(given) == [1, 2] and tu.tree_reduce(max, given) == 2
    assert tu.tree_all([True, 1]) and tu.tree_structure(given) == tfn.tree.structure(given)
    pairs, structure = tu.tree_flatten_with_path(given)
    assert pairs[1] == ((tu.DictKey("a"), tu.SequenceKey(1)), 2)
    assert tu.tree_unflatten(structure, [5, 6]) == {"a": [5, 6]}


def test_structures_are_taken_apart_and_put_together():
    structure = tu.tree_structure((1, [2, 3]))
    first, second = tu.treedef_children(structure)
    assert tu.treedef_is_leaf(first) and not tu.treedef_is_leaf(second)
    assert tu.treedef_tuple((first, second)) == structure
    assert not tu.all_leaves([1, (2,)]) and tu.all_leaves("ab")
    assert tu.all_leaves([1, (2,)], is_leaf=lambda x: isinstance(x, tuple))
