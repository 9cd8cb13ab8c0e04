"""No class uses what another one keeps private: `make lint` says where one does."""

import pytest

from tests.private_members import found_in_sources, unused, uses


def test_no_module_uses_private_members_of_another_class_and_every_listed_name_is_used() -> None:
    assert list(found_in_sources()) == []
    assert unused() == []


@pytest.mark.parametrize(
    "source",
    [
        "other._name",
        "other._name = 1",
        "other.part._name()",
        "class A:\n    def f(self, other):\n        return other._name",
        "class A:\n    def f(self):\n        return self.part._name",
        "class A:\n    _name = 1\nA()._name",
        "class A:\n    _name = 1\nclass B:\n    def f(self, other):\n        return other._name",
        "getattr(other, '_name')",
        "setattr(other, '_name', 1)",
        "from module import _name",
    ],
)
def test_a_private_member_of_another_class_is_found(source: str) -> None:
    assert [use.name for use in uses(source)] == ["_name"]


@pytest.mark.parametrize(
    "source",
    [
        "_name",
        "other.name",
        "other.__name__",
        "pair._replace(first=1)",
        "class A:\n    def f(self):\n        return self._name",
        "class A(B):\n    def f(self):\n        return super()._name()",
        "class A:\n    @classmethod\n    def f(cls):\n        return cls._name",
        "class A:\n    def _name(self, other):\n        return other._name(self)",
        "class A:\n    _name: int\n    def __eq__(self, other):\n        return other._name == 1",
        "class A:\n    def __init__(self, other):\n        self._name = other._name",
        "class A:\n    __slots__ = ('_name',)\n    def f(self, other):\n        return other._name",
    ],
)
def test_a_private_member_of_its_own_class_is_not(source: str) -> None:
    assert uses(source) == []
