"""Execution plan of a computation: evaluators of instructions and lifetimes of values."""

import dataclasses
from collections.abc import Callable, Sequence

from xla_contract.types.opcode import Opcode
from xla_server.custom_calls.builtin_targets import BUILTIN
from xla_server.custom_calls.target_registry import CustomCallRegistry
from xla_server.evaluator.dynamic_shapes import at_actual_sizes
from xla_server.execution.memory_check import is_large
from xla_server.ir.checkpoints import checkpoint
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ops.evaluation import Evaluator
from xla_server.ops.evaluators import evaluator


@dataclasses.dataclass(frozen=True, slots=True)
class PlannedInstruction:
    """One instruction: values are read from slots and written to one.

    `frees` are the slots that no later step reads; the instruction's own is among them if nothing
    reads it. `is_large` means that free memory must be checked before the value is made.
    """

    instruction: HloInstruction
    evaluate: Evaluator
    operands: tuple[int, ...]
    result: int
    frees: tuple[int, ...]
    is_large: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a computation, the slots its arguments go to and the slot of its root."""

    parameters: tuple[int, ...]
    steps: tuple[PlannedInstruction, ...]
    root: int
    slot_count: int


@dataclasses.dataclass(slots=True, eq=False)
class PlanCache:
    """The plans of a program's computations, each made when it is first needed.

    Threads may share one: making a plan twice gives the same plan. Custom calls are looked up
    in `custom_calls`. `is_dynamic` says that values may be smaller than the bounds of their
    shapes; programs without dynamic dimensions do not pay for it. `evaluator_of` says what
    evaluates an opcode, where that is not its own evaluator.
    """

    custom_calls: CustomCallRegistry = BUILTIN
    _: dataclasses.KW_ONLY
    is_dynamic: bool = False
    evaluator_of: Callable[[Opcode], Evaluator] | None = None
    _plans: dict[HloComputation, Plan] = dataclasses.field(default_factory=dict, init=False)

    def of(self, computation: HloComputation) -> Plan:
        """The plan of `computation`.

        Raises UnimplementedError if an evaluator or the target of a custom call is missing, and
        InvalidArgumentError for a custom call that its target does not take.
        """
        plan = self._plans.get(computation)
        if plan is None:
            plan = self._plans[computation] = self._make(computation)
        return plan

    def _make(self, computation: HloComputation) -> Plan:
        """Look up the evaluators of a computation and find where each value is read last."""
        instructions = in_order(computation.instructions)
        slots = {part: slot for slot, part in enumerate(instructions)}
        last_reader = {operand: reader for reader in instructions for operand in reader.operands}
        frees: dict[HloInstruction, list[int]] = {}
        for instruction, slot in slots.items():
            checkpoint()
            reader = last_reader.get(instruction, instruction)
            if instruction is not computation.root:
                frees.setdefault(reader, []).append(slot)
        steps = tuple(
            PlannedInstruction(
                instruction,
                self._evaluator(instruction),
                tuple(slots[operand] for operand in instruction.operands),
                slots[instruction],
                tuple(frees.get(instruction, ())),
                is_large(instruction.opcode, instruction.shape),
            )
            for instruction in instructions
            if instruction.opcode is not Opcode.PARAMETER
        )
        parameters = tuple(slots[parameter] for parameter in computation.parameters)
        return Plan(parameters, steps, slots[computation.root], len(slots))

    def _evaluator(self, instruction: HloInstruction) -> Evaluator:
        opcode = instruction.opcode
        if opcode is Opcode.CUSTOM_CALL:
            found = self.custom_calls.resolve(instruction).evaluate
        else:
            found = (self.evaluator_of or evaluator)(opcode)
        return at_actual_sizes(opcode, found) if self.is_dynamic else found


def in_order(instructions: Sequence[HloInstruction]) -> Sequence[HloInstruction]:
    """Return the instructions as stored, but with those that depend on a recv after all others.

    Any order that puts operands and control predecessors first is right. This one avoids that two
    computations that send to each other both wait for the other to send first.
    """
    if all(instruction.opcode is not Opcode.RECV_DONE for instruction in instructions):
        return instructions
    last_wait: dict[HloInstruction, int] = {}
    count = 0
    for instruction in instructions:
        if instruction.opcode is Opcode.RECV_DONE:
            last_wait[instruction] = count = count + 1
        else:
            before = (*instruction.operands, *instruction.control_predecessors)
            last_wait[instruction] = max((last_wait[part] for part in before), default=0)
    return sorted(instructions, key=last_wait.__getitem__)
