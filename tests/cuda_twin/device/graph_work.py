"""Graphs of devices in memory of the host: lists of work, with loops and choices in it."""

import abc
import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import TypeAlias

from xla_server.backends.cuda.worker.device import driver as device_driver
from xla_server.backends.cuda.worker.device.driver import CaseIndex, LoopCondition

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


class CapturingDriver(abc.ABC):
    """The captures of a driver whose graphs are lists of work."""

    def __init__(self) -> None:
        self._captured: dict[int, GraphWork] = {}

    @abc.abstractmethod
    def new_stream(self) -> int:
        """Return a stream."""

    @abc.abstractmethod
    def enqueue(self, work: device_driver.Work, stream: int) -> None:
        """Give work to a stream, or to the graph that it is captured for."""

    @abc.abstractmethod
    def _value(self, address: int, byte_size: int) -> int:
        """Return the number that bytes of the device are."""

    @abc.abstractmethod
    def _is_stopped(self, word: int) -> bool:
        """Return whether eight bytes of the host, at an address of the device, are not zero."""

    def begin_capture(self, stream: int) -> None:
        """Begin a graph."""
        assert stream not in self._captured
        self._captured[stream] = []

    def capture(self, work: device_driver.Work, stream: int) -> tuple[GraphWork, int]:
        """Give work to a graph and return its list and number there."""
        self.enqueue(work, stream)
        return self._captured[stream], len(self._captured[stream]) - 1

    def end_capture(self, stream: int) -> GraphWork:
        """Return the graph."""
        return self._captured.pop(stream)

    def capture_loop(
        self, condition: LoopCondition, body: Callable[[int], None], stream: int
    ) -> Nested:
        """Let a graph do a body while a byte is not zero, and eight bytes of the host are."""

        def loop(read: tuple[int, ...], bodies: Sequence[Work]) -> None:
            predicate, stop = read
            while self._value(predicate, 1) and not self._is_stopped(stop):
                bodies[0]()

        return self._nested(condition, [body], loop, stream)

    def capture_case(
        self, index: CaseIndex, cases: Sequence[Callable[[int], None]], stream: int
    ) -> Nested:
        """Let a graph do the case with a number, the last where there is none."""

        def case(read: tuple[int, ...], bodies: Sequence[Work]) -> None:
            address, byte_size, count = read
            bodies[min(self._value(address, byte_size), count - 1)]()

        return self._nested(index, cases, case, stream)

    def _nested(
        self,
        read: tuple[int, ...],
        bodies: Sequence[Callable[[int], None]],
        do: Callable[[tuple[int, ...], Sequence[Work]], None],
        stream: int,
    ) -> Nested:
        nested = Nested(read, list(map(self._captured_of, bodies)), do)
        self._captured[stream].append(nested)
        return nested

    def _captured_of(self, body: Callable[[int], None]) -> GraphWork:
        stream = self.new_stream()
        self.begin_capture(stream)
        try:
            body(stream)
        finally:
            works = self.end_capture(stream)
        return works
