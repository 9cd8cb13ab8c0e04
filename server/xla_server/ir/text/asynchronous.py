"""XLA's short words for asynchronous calls: `negate-start` for async-start of a negate."""

from collections.abc import Callable, Mapping

from xla_contract.ops.control.parameter import ParameterAttributes
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloComputation, HloInstruction
from xla_server.ir.text.attributes import Attributes
from xla_server.ir.text.forms.form import element
from xla_server.ir.text.forms.table import FORMS, PLAIN

_STEPS = {
    "-start": Opcode.ASYNC_START,
    "-update": Opcode.ASYNC_UPDATE,
    "-done": Opcode.ASYNC_DONE,
}


def split_opcode(word: str, opcodes: Mapping[str, Opcode]) -> tuple[Opcode | None, Opcode | None]:
    """Return the opcode that `word` means, and the opcode that it calls asynchronously, if any."""
    if word in opcodes:
        return opcodes[word], None
    for ending, step in _STEPS.items():
        wrapped = opcodes.get(word.removesuffix(ending))
        if word.endswith(ending) and wrapped is not None:
            return step, wrapped
    return None, None


def wrap(
    start: HloInstruction, opcode: Opcode, read: Attributes, unique: Callable[[str], str]
) -> HloComputation:
    """Return a computation of a single `opcode` instruction, which `start` calls on its operands.

    `read` are the attributes written with the start; `unique` makes names of instructions. Raises
    InvalidArgumentError if attributes are missing or the shape is not that of a start.
    """
    parameters = tuple(
        HloInstruction(
            unique(f"param_{number}"),
            number,
            Opcode.PARAMETER,
            operand.shape,
            attributes=ParameterAttributes(number, operand.shape.without_layout()),
        )
        for number, operand in enumerate(start.operands)
    )
    shape = element(start.shape, 1)
    form = FORMS.get(opcode, PLAIN)
    root = HloInstruction(
        unique(f"{opcode}"),
        len(parameters),
        opcode,
        shape,
        parameters,
        read.record(form, shape, [operand.shape for operand in start.operands]),
        read.called_by(form),
    )
    thread = read.values.get("async_execution_thread", "")
    name = f"async_computation_{opcode}"
    return HloComputation(name, 0, [*parameters, root], root, parameters, thread)
