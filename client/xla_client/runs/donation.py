"""Donation that a module states itself, by input_output_alias and buffer_donor."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeAlias

from xla_client.runs.step_result import StepResult
from xla_client.session.buffer import Buffer
from xla_contract.stubs import hlo_pb2


def donated_parameters(module: hlo_pb2.HloModuleProto) -> frozenset[int]:
    """Return the numbers of the parameters that are donated whole.

    JAX writes them for `donate_argnums`. A part of a tuple parameter is not donated by itself.
    """
    entries: tuple[Any, ...] = (
        *module.input_output_alias.entries,
        *module.buffer_donor.entries,
    )
    return frozenset(entry.parameter_number for entry in entries if not entry.parameter_shape_index)


def donated_arguments(parameters: Collection[int], arguments: Sequence[Any]) -> tuple[int, ...]:
    """Return the numbers of the arguments to give up: Buffers that are given once."""
    if not parameters:
        return ()
    passed = [id(argument) for argument in arguments]
    return tuple(
        number
        for number, argument in enumerate(arguments)
        if number in parameters and isinstance(argument, Buffer) and passed.count(id(argument)) == 1
    )


def donated_in_batch(
    parameters: Collection[int], batch: Sequence[Sequence[Any] | Exception]
) -> list[tuple[int, ...]]:
    """Return for each run of a batch the numbers of the arguments to give up.

    Only Buffers that occur once in the whole batch are given up: its runs have no fixed order.
    An error instead of a run's arguments has none to give up.
    """
    if not parameters:
        return [()] * len(batch)
    lists = [() if isinstance(each, Exception) else each for each in batch]
    passed = Counter(id(argument) for arguments in lists for argument in arguments)
    return [
        tuple(
            number
            for number, argument in enumerate(arguments)
            if number in parameters and isinstance(argument, Buffer) and passed[id(argument)] == 1
        )
        for arguments in lists
    ]


_Use: TypeAlias = tuple[Any, ...]
"""A value that a step reads: a kind ("buffer" or "result"), the buffer's id or the step's number,
and the numbers of the tuple elements to descend to."""


def donated_in_steps(
    steps: Sequence[tuple[Collection[int], Sequence[Any]]], outputs: Iterable[StepResult]
) -> list[tuple[int, ...]]:
    """Return for each step of a pipeline the numbers of the arguments to give up.

    Args:
        steps: For each step the parameters that its module gives up, and its arguments.
        outputs: The results that the pipeline keeps or sends back.

    Returns:
        Those of the parameters whose argument is a Buffer, or the result of a step, that the step
        reads once, that no later step reads, and that is no output. A value counts as read where
        a part of it is, or a tuple that it is a part of.
    """
    later = _Uses(filter(None, map(_use_of, outputs)))
    donated: list[tuple[int, ...]] = []
    for parameters, arguments in reversed(steps):
        uses = [_use_of(argument) for argument in arguments]
        here = _Uses(filter(None, uses))
        donated.append(
            tuple(
                number
                for number, use in enumerate(uses)
                if number in parameters
                and use is not None
                and here.count(use) == 1
                and not later.count(use)
            )
        )
        later.update(here)
    return donated[::-1]


def _use_of(argument: Any) -> _Use | None:
    if isinstance(argument, StepResult):
        return ("result", argument.step, *argument.index)
    return ("buffer", id(argument)) if isinstance(argument, Buffer) else None


class _Uses:
    """A multiset of uses, which counts those that share elements with a value."""

    def __init__(self, uses: Iterable[_Use]) -> None:
        self._whole = Counter(uses)
        self._around = Counter(
            part for use, count in self._whole.items() for part in _around(use) * count
        )

    def update(self, others: "_Uses") -> None:
        """Add the uses of `others`."""
        self._whole.update(others._whole)
        self._around.update(others._around)

    def count(self, use: _Use) -> int:
        """Return how many uses are of the same value, of a part of it, or of one around it."""
        inside = self._whole[use] + self._around[use]
        return inside + sum(self._whole[part] for part in _around(use))


def _around(use: _Use) -> list[_Use]:
    """Return the tuples that contain a value."""
    return [use[:length] for length in range(2, len(use))]
