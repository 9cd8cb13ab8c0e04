"""The loop of the fuzzer of mutated modules: each on both platforms, which must agree."""

import collections
import dataclasses
import random
from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf.message import DecodeError
from grpc import StatusCode

from tests.fuzz.answers.checking import Reference
from tests.fuzz.answers.steps.catalogue import case
from tests.fuzz.mutants.mutating import mutant, mutant_bytes
from tests.fuzz.mutants.servers import Answer, Mutated, ServerFaultError
from xla_contract.errors import XlaError
from xla_contract.stubs import hlo_pb2, xla_pb2

BYTES_SHARE = 0.2
"""Share of mutants whose bytes are changed, most of which are no message any more."""

_UNCOMPARED = frozenset(
    {StatusCode.RESOURCE_EXHAUSTED, StatusCode.DEADLINE_EXCEEDED, StatusCode.CANCELLED}
)
"""Statuses that depend on the platform: memory by its plan, and time."""

_WITHOUT_ANSWER = frozenset(
    {"rng", "rng-get-and-update-state", "infeed", "outfeed", "send", "recv"}
)


@dataclasses.dataclass
class Counts:
    """Counters of a run: mutants by the status that they ended with on the first platform."""

    mutants: int = 0
    by_code: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    compared: int = 0

    def __str__(self) -> str:
        codes = ", ".join(f"{count} {code}" for code, count in self.by_code.most_common())
        return f"{self.mutants} mutants, {self.compared} with results compared ({codes})"


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A serialized CompileRequest, with arguments where it is still known what it takes."""

    seed: int
    data: bytes
    arguments: list[Any]
    proto: hlo_pb2.HloModuleProto | None


def drawn(seed: int) -> Mutant:
    """Return the mutant of a seed, always the same one."""
    chance = random.Random(f"mutants {seed}")
    base = case(chance.randrange(1 << 40))
    if chance.random() < BYTES_SHARE:
        data = mutant_bytes(_request(base.proto), chance)
        return Mutant(seed, data, base.arguments, _module_in(data))
    changed = mutant(base.proto, chance)
    return Mutant(seed, _request(changed), base.arguments, changed)


def _request(proto: hlo_pb2.HloModuleProto) -> bytes:
    return xla_pb2.CompileRequest(
        computation=proto, input_shape_with_layout=proto.host_program_shape.parameters
    ).SerializeToString()


def _module_in(data: bytes) -> hlo_pb2.HloModuleProto | None:
    try:
        return xla_pb2.CompileRequest.FromString(data).computation
    except DecodeError:
        return None


def fuzz(seeds: Iterable[int], platforms: list[Mutated], counts: Counts) -> Iterator[str]:
    """Yield a text for each mutant that harms a server, or that the platforms disagree about.

    Ends after a server's fault: there may be no server to go on with.
    """
    for seed in seeds:
        changed = drawn(seed)
        counts.mutants += 1
        answers = []
        for platform in platforms:
            try:
                answers.append(platform.run(changed.data, changed.arguments))
            except ServerFaultError as error:
                yield f"seed {seed}: {error}\n{changed.proto}"
                return
        counts.by_code[answers[0].code.name] += 1
        words = _disagreement(changed, answers, counts)
        if words:
            yield f"seed {seed}: {words}\n{changed.proto}"


def _disagreement(changed: Mutant, answers: list[Answer], counts: Counts) -> str:
    if any(answer.code in _UNCOMPARED for answer in answers):
        return ""
    if len({answer.code for answer in answers}) > 1:
        return f"cpu: {answers[0]}; interpreter: {answers[1]}"
    if answers[0].code is not StatusCode.OK or changed.proto is None:
        return ""
    opcodes = {i.opcode for c in changed.proto.computations for i in c.instructions}
    if opcodes & _WITHOUT_ANSWER:
        return ""
    try:
        reference = Reference(changed.proto)
    except XlaError as error:
        return f"both platforms run what this process refuses: {error}"
    if not reference.is_complete:
        # The operands of some instructions were not seen.
        return ""
    counts.compared += 1
    found = reference.differences("cpu", changed.arguments, answers[0].results)
    return "; ".join(f"%{one.name}: {one.words}" for one in found)
