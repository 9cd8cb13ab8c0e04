"""Graphs of devices in memory of the host: lists of work, with loops and choices in it."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TypeAlias

Work: TypeAlias = Callable[[], None]


@dataclasses.dataclass(eq=False)
class Nested:
    """A loop or choice; its addresses and bodies may be changed between two launches."""

    read: tuple[int, ...]
    bodies: "Sequence[GraphWork]"
    do: Callable[[tuple[int, ...], Sequence[Work]], None]
    """Does the work of bodies by what it reads."""


GraphWork: TypeAlias = list[Work | Nested]


def launched(graph: GraphWork) -> list[Work]:
    """Return the work of a launch, which later changes leave as it is."""
    return [_of_nested(each) if isinstance(each, Nested) else each for each in graph]


def _of_nested(nested: Nested) -> Work:
    bodies = [functools.partial(_do_all, launched(body)) for body in nested.bodies]
    return functools.partial(nested.do, nested.read, bodies)


def _do_all(works: Sequence[Work]) -> None:
    for each in works:
        each()
