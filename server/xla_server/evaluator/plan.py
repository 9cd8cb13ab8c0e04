"""A computation made ready to be walked: evaluators looked up, lifetimes known."""

import dataclasses

from xla_contract.opcode import Opcode
from xla_server.custom_calls.builtin import BUILTIN
from xla_server.custom_calls.registry import Registry
from xla_server.evaluator.memory import is_large
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ops.evaluation import Evaluator
from xla_server.ops.registry import evaluator


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One instruction: values are read from slots and written to one.

    `frees` are the slots that nothing reads after this step, its own where nothing reads it.
    `is_large` says that its value takes so much memory that there may not be enough.
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
    steps: tuple[Step, ...]
    root: int
    slot_count: int


class Plans:
    """The plans of a program's computations, each made when it is first needed.

    Threads may share one: making a plan twice gives the same plan. Custom calls are looked up
    in `custom_calls`.
    """

    __slots__ = ("_custom_calls", "_plans")

    def __init__(self, custom_calls: Registry = BUILTIN) -> None:
        self._custom_calls = custom_calls
        self._plans: dict[HloComputation, Plan] = {}

    def of(self, computation: HloComputation) -> Plan:
        """The plan of `computation`; raises as `make_plan`."""
        plan = self._plans.get(computation)
        if plan is None:
            plan = self._plans[computation] = make_plan(computation, self._custom_calls)
        return plan


def make_plan(computation: HloComputation, custom_calls: Registry = BUILTIN) -> Plan:
    """Look up the evaluators of `computation` and find where each value is read last.

    Raises UnimplementedError where an evaluator or the target of a custom call is missing, and
    InvalidArgumentError for a custom call that its target does not take.
    """
    slots = {part: slot for slot, part in enumerate(computation.instructions)}
    last_reader = {
        operand: reader for reader in computation.instructions for operand in reader.operands
    }
    frees: dict[HloInstruction, list[int]] = {}
    for instruction, slot in slots.items():
        reader = last_reader.get(instruction, instruction)
        if instruction is not computation.root:
            frees.setdefault(reader, []).append(slot)
    steps = tuple(
        Step(
            instruction,
            _evaluator(instruction, custom_calls),
            tuple(slots[operand] for operand in instruction.operands),
            slots[instruction],
            tuple(frees.get(instruction, ())),
            is_large(instruction.opcode, instruction.shape),
        )
        for instruction in computation.instructions
        if instruction.opcode is not Opcode.PARAMETER
    )
    parameters = tuple(slots[parameter] for parameter in computation.parameters)
    return Plan(parameters, steps, slots[computation.root], len(slots))


def _evaluator(instruction: HloInstruction, custom_calls: Registry) -> Evaluator:
    if instruction.opcode is Opcode.CUSTOM_CALL:
        return custom_calls.resolve(instruction).evaluate
    return evaluator(instruction.opcode)
