"""Slices of parametrised tests, and the whole of them."""

import itertools

import pytest

from tests.conformance.sweep.draws import depth


def test_a_slice_has_each_case_and_the_variants_by_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth, "FULL", False)
    assert depth.paired("abc", [1, 2]) == [("a", 1), ("b", 2), ("c", 1)]
    assert depth.paired("ab", [1, 2, 3], 2) == [("a", 1), ("a", 2), ("b", 3), ("b", 1)]


def test_the_whole_has_all_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth, "FULL", True)
    assert depth.paired("abc", [1, 2]) == list(itertools.product("abc", [1, 2]))
