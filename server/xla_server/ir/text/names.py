"""Unique names."""

from collections.abc import Iterable


class UniqueNames:
    """A set of names in which each is used once; the second `x` becomes `x.1`."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def new(self, name: str) -> str:
        """Return `name` if it is unused, else the same with a number."""
        found = name
        while found in self._taken:
            number = self._next[name] = self._next.get(name, 0) + 1
            found = f"{name}.{number}"
        self._taken.add(found)
        return found
