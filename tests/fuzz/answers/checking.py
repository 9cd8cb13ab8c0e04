"""Check of every instruction of a module against the evaluator, on the operands that a side had."""

import dataclasses
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

from tests.fuzz.answers.judging.judge import Judgement, judge
from xla_contract.ops.control.tuple import GetTupleElementAttributes
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_server.custom_calls.builtin_targets import BUILTIN
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes
from xla_server.evaluator.interpret import Run
from xla_server.evaluator.plan import PlanCache
from xla_server.execution.channel_protocol import NoChannels, OwnChannels
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.explicit_stack import result_of
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloInstruction
from xla_server.ir.verification.verifier import verify
from xla_server.ops.numerics.subnormals import subnormals_as_zeros
from xla_server.ops.random.rng_get_and_update_state import RandomStates


@dataclasses.dataclass(frozen=True)
class Difference:
    """A value that is not the evaluator's, and how it differs."""

    judged: Judgement
    words: str

    @property
    def name(self) -> str:
        """The name of the instruction that computes the value."""
        return self.judged.instruction.name

    @property
    def opcode(self) -> Opcode:
        """The operation of that instruction."""
        return self.judged.instruction.opcode


class Reference:
    """A module that is evaluated instruction by instruction."""

    def __init__(self, proto: hlo_pb2.HloModuleProto) -> None:
        self.proto = proto
        self.module = import_module(proto)
        verify(self.module)
        plans = PlanCache(BUILTIN, is_dynamic=has_dynamic_shapes(self.module))
        self._plan = plans.of(self.module.entry)
        self._run = Run(
            options=ExecuteOptions(channels=OwnChannels(self.module.entry, NoChannels())),
            plans=plans,
            random_states=RandomStates(),
            seed=1,
        )

    @property
    def is_complete(self) -> bool:
        """True if all arrays of the entry are results, so that each can be checked."""
        entry = self.module.entry
        arrays = {
            part
            for part in entry.instructions
            if part.shape.is_array and part.opcode is not Opcode.PARAMETER
        }
        return entry.root.opcode is Opcode.TUPLE and arrays <= set(entry.root.operands)

    def results(self, arguments: Sequence[Any]) -> list[Any]:
        """Return the results of the interpreter, a tuple taken apart."""
        with np.errstate(all="ignore"), subnormals_as_zeros():
            value: Any = self._run.call(self.module.entry, list(arguments))
        return list(value) if isinstance(value, tuple) else [value]

    def differences(
        self, side: str, arguments: Sequence[Any], results: Sequence[Any]
    ) -> list[Difference]:
        """Return the instructions whose results do not follow from their operands.

        `results` are those of a module with all results, in order.
        """
        root = self.module.entry.root
        known = dict(zip(root.operands, results, strict=True))
        slots: list[Any] = [None] * self._plan.slot_count
        for slot, argument in zip(self._plan.parameters, arguments, strict=True):
            slots[slot] = argument
        found = []
        sources: dict[HloInstruction, list[Any]] = {}
        for step in self._plan.steps:
            if step.instruction is root:
                break
            operands = [slots[slot] for slot in step.operands]
            with np.errstate(all="ignore"), subnormals_as_zeros():
                made: Any = step.evaluate(step.instruction, operands, self._run)
                expected: Any = result_of(made) if isinstance(made, Generator) else made
            slots[step.result] = known.get(step.instruction, expected)
            sources[step.instruction] = operands
            if step.instruction not in known:
                continue
            source = _computed_by(step.instruction)
            if source not in sources:
                source = step.instruction  # An element of a tuple of parameters.
            judged = Judgement(
                side,
                source,
                sources[source],
                expected,
                slots[step.result],
                _element(step.instruction),
            )
            if words := judge(judged):
                found.append(Difference(judged, words))
        return found


def _computed_by(instruction: HloInstruction) -> HloInstruction:
    """Return the instruction that computes a value: of an element, the one that gave the tuple."""
    while instruction.opcode is Opcode.GET_TUPLE_ELEMENT:
        (operand,) = instruction.operands
        attributes: GetTupleElementAttributes = instruction.attributes
        instruction = operand
        if operand.opcode is Opcode.TUPLE:
            instruction = operand.operands[attributes.index]
    return instruction


def _element(instruction: HloInstruction) -> int:
    if instruction.opcode is not Opcode.GET_TUPLE_ELEMENT:
        return 0
    attributes: GetTupleElementAttributes = instruction.attributes
    return attributes.index
