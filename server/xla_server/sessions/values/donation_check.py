"""Donations in a run: later steps must not use donated values."""

from typing import TypeAlias

from xla_contract.errors import InvalidArgumentError

Root: TypeAlias = tuple[str, int]
"""A value of the session ("handle", number) or the result of a step ("step", number)."""

Path: TypeAlias = tuple[int, ...]
"""Indices of nested tuple elements that lead to a part of a value."""


class Donations:
    """Donations of the steps of a run so far."""

    def __init__(self) -> None:
        self._donors: dict[tuple[Root, Path], str] = {}
        # Each prefix of a donated part's path, the path itself included -> the donor.
        self._around: dict[tuple[Root, Path], str] = {}

    def __bool__(self) -> bool:
        return bool(self._donors)

    def add(self, root: Root, path: Path, where: str) -> None:
        """Record a donation by `where`, such as `argument 0 of step 1`; raises as `check`."""
        self.check(root, path, where)
        self._donors[root, path] = where
        for length in range(len(path) + 1):
            self._around.setdefault((root, path[:length]), where)

    def check(self, root: Root, path: Path, where: str) -> None:
        """Raise InvalidArgumentError if the value, or a part of it or around it, was donated."""
        donor = self._around.get((root, path))
        for length in range(len(path)):
            donor = donor or self._donors.get((root, path[:length]))
        if donor is not None:
            kind, number = root
            value = f"the result of step {number}" if kind == "step" else f"value {number}"
            raise InvalidArgumentError(
                f"a value that was donated must not be used again, got {where}, which names "
                f"{value}, and {donor}, which donates it",
                hint="Donate a value where it is used last, and neither keep nor fetch it.",
            )
