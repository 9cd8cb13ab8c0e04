"""Static counts of a program's work: of its compiled code, and of its HLO instructions.

Operations are counted from shapes, not measured. Bodies of loops and branches count once, because
the number of their executions is not known.
"""

import dataclasses

from xla_contract.types.opcode import Opcode
from xla_server.buffers.code import Code, CopyThunk, HostThunk, KernelThunk, reads, writes
from xla_server.evaluator.cost_analysis import Cost
from xla_server.evaluator.evaluation_cost import cost_once, instruction_cost_once
from xla_server.ir.module import HloInstruction, HloModule

_NO_BYTES = frozenset(
    {
        Opcode.BITCAST,
        Opcode.CONSTANT,
        Opcode.CONDITIONAL,
        Opcode.GET_TUPLE_ELEMENT,
        Opcode.PARAMETER,
        Opcode.RESHAPE,
        Opcode.TUPLE,
        Opcode.WHILE,
    }
)
"""Instructions that access no bytes themselves."""


@dataclasses.dataclass(frozen=True, slots=True)
class Work:
    """Operations, and bytes of arrays that kernels or instructions read and write."""

    cost: Cost
    bytes: float

    def __str__(self) -> str:
        return (
            f"{self.cost.flops:.0f} operations, {self.cost.transcendentals:.0f} transcendental, "
            f"{self.bytes:.0f} bytes"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class ProgramWork:
    """The work of a module, each instruction executed once, and the work of its code."""

    once: Work
    done: Work


def work_once(module: HloModule) -> Work:
    """Return the work of a module without fusions, with each instruction executed once."""
    total = 0.0
    for computation in module.sequential():
        for i in computation.instructions:
            if i.opcode not in _NO_BYTES:
                shapes = [i.shape, *(operand.shape for operand in i.operands)]
                total += sum(leaf.byte_size for shape in shapes for leaf in shape.leaves())
    return Work(cost_once(module), total)


def work_of(code: Code) -> Work:
    """Return the work of all thunks: counted by their lowering, else by HLO's cost analysis."""
    total = 0.0
    computed: dict[HloInstruction, None] = {}
    for thunk in code.thunks:
        if isinstance(thunk, CopyThunk):
            total += 2 * thunk.source.byte_size
            continue
        if isinstance(thunk, (KernelThunk, HostThunk)):
            total += sum(value.byte_size for value in {*reads(thunk), *writes(thunk)})
            computed |= dict.fromkeys(code.instructions(thunk))
    costs = (code.costs.get(i) or instruction_cost_once(i) for i in computed)
    return Work(sum(costs, start=Cost()), total)
