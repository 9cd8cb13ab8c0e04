"""Names that differ."""

from collections.abc import Iterable


class UniqueNames:
    """Gives every name once; the second `x` becomes `x.1`."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def new(self, name: str) -> str:
        """`name`, or one like it where it was given before."""
        found = name
        while found in self._taken:
            number = self._next[name] = self._next.get(name, 0) + 1
            found = f"{name}.{number}"
        self._taken.add(found)
        return found
