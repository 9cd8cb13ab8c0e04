"""The loop of the fuzzer: modules by seed, three answers each, and what differs."""

import collections
import dataclasses
import time
from collections.abc import Iterable, Iterator, Sequence

from tests.fuzz.answers.checking import Difference, Reference
from tests.fuzz.answers.reporting import report
from tests.fuzz.answers.shrinking.shrinking import shrunk
from tests.fuzz.answers.sides import Side, SideError
from tests.fuzz.answers.steps import fused
from tests.fuzz.answers.steps.catalogue import case
from tests.fuzz.answers.steps.graph import Case
from xla_contract.errors import XlaError


@dataclasses.dataclass
class Counts:
    """Counters of a run. `unanswered` counts modules that a side refused, or died of."""

    modules: int = 0
    instructions: int = 0
    refused: int = 0
    unanswered: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def __str__(self) -> str:
        sides = ", ".join(f"{count} without {side}" for side, count in self.unanswered.items())
        return (
            f"{self.modules} modules, {self.instructions} instructions, {self.refused} refused "
            f"by both platforms{', ' + sides if sides else ''}"
        )


def fuzz(seeds: Iterable[int], sides: Sequence[Side], counts: Counts) -> Iterator[str]:
    """Yield a report for each module that differs; jaxlib may have no answer, cpu must."""
    for seed in seeds:
        drawn = case(seed)
        counts.modules += 1
        counts.instructions += drawn.instruction_count
        try:
            reference = Reference(drawn.proto)
            reference.results(drawn.arguments)
        except XlaError as error:
            counts.refused += 1
            yield from _refused_alone(drawn, sides, error)
            continue
        for side in sides:
            try:
                results = side.run(drawn.proto, drawn.arguments)
            except SideError as error:
                counts.unanswered[side.name] += 1
                if side.name != "jaxlib":
                    yield f"{drawn.origin}: {side.name} gives no answer: {error}\n{drawn.proto}"
                continue
            if side.name == "cpu" and (words := fused.difference(drawn, results, reference, side)):
                yield words
            differences = reference.differences(side.name, drawn.arguments, results)
            for difference in _first_of_each(differences):
                found = shrunk(drawn, difference, side)
                yield report(found, sides)


def _refused_alone(drawn: Case, sides: Sequence[Side], error: XlaError) -> Iterator[str]:
    """Report a platform of ours that computes what the interpreter refuses."""
    for side in sides:
        if side.name == "jaxlib":
            continue
        try:
            side.run(drawn.proto, drawn.arguments)
        except SideError as other:
            if other.is_refusal and type(error).__name__ in str(other):
                continue
            yield f"{drawn.origin}: the interpreter says {error!r}, {side.name} {other}"
        else:
            yield f"{drawn.origin}: the interpreter says {error!r}, {side.name} computes it"


def _first_of_each(differences: Sequence[Difference]) -> list[Difference]:
    found: dict[object, Difference] = {}
    for difference in differences:
        found.setdefault(difference.opcode, difference)
    return list(found.values())


def seeds_for(seconds: float, first: int) -> Iterator[int]:
    """Yield seeds, one after the other, for so long."""
    until = time.monotonic() + seconds
    seed = first
    while time.monotonic() < until:
        yield seed
        seed += 1
