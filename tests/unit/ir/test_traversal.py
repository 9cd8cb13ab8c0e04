"""Traversals of a small graph, and of one too deep for recursion."""

from xla_server.ir.traversal import in_post_order, reached

_GRAPH = {"a": "bc", "b": "d", "c": "db", "d": ""}


def test_each_node_comes_once():
    assert list(reached("a", _GRAPH.__getitem__)) == ["a", "c", "b", "d"]
    assert list(reached("ba", _GRAPH.__getitem__)) == ["a", "c", "b", "d"]


def test_nodes_come_after_those_behind_them():
    assert list(in_post_order("a", _GRAPH.__getitem__)) == ["d", "b", "c", "a"]
    assert list(in_post_order("bc", _GRAPH.__getitem__)) == ["d", "b", "c"]


def test_depth_is_not_bounded():
    order = list(in_post_order([0], lambda n: [n + 1] if n < 99_999 else []))
    assert order == list(range(99_999, -1, -1))
