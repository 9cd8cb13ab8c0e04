"""Table of all opcodes: the definition of each, or the reason why there is none yet."""

from collections.abc import Mapping, Sequence
from typing import Any

from xla_contract.errors import ShapeError, UnimplementedError, XlaError
from xla_contract.ops.communication import COMMUNICATION
from xla_contract.ops.compound import COMPOUND
from xla_contract.ops.definition import OpDefinition
from xla_contract.ops.elementary import ELEMENTARY
from xla_contract.types.opcode import VARIADIC, Opcode
from xla_contract.types.shape import ProgramShape, Shape

_DEFINITIONS: tuple[OpDefinition, ...] = (*ELEMENTARY, *COMPOUND, *COMMUNICATION)

DEFINITION: Mapping[Opcode, OpDefinition] = {
    definition.opcode: definition for definition in _DEFINITIONS
}
"""The definition of each opcode that programs may hold."""

UNDEFINED: Mapping[Opcode, str] = {
    Opcode.SHUFFLE: (
        "XLA's newest sources have it, no published message has fields for its attributes, and "
        "no released backend takes it"
    ),
}
"""Reasons why the remaining opcodes have no definition. With DEFINITION it covers every opcode
once.
"""


def definition(opcode: Opcode) -> OpDefinition:
    """The definition of `opcode`; raises UnimplementedError saying why there is none."""
    found = DEFINITION.get(opcode)
    if found is None:
        raise UnimplementedError(f"{UNDEFINED[opcode]}, got opcode {opcode}")
    return found


def infer_shape(
    opcode: Opcode,
    operands: Sequence[Shape],
    attributes: Any,
    called: Sequence[ProgramShape] = (),
    *,
    instruction: str = "",
) -> Shape:
    """Return the shape, without layout, of `opcode` applied to operands of these shapes.

    Args:
        opcode: The operation.
        operands: Shapes of the operands.
        attributes: The operation's attribute record.
        called: Signatures of the called computations.
        instruction: Name of the instruction for messages, which start with the opcode and this
            name.

    Raises:
        ShapeError: A rule is broken, that of the operand count included.
        UnimplementedError: The opcode has no definition.
    """
    arity = opcode.arity
    try:
        if arity not in (VARIADIC, len(operands)):
            inside = ", ".join(map(str, operands))
            raise ShapeError(
                f"the number of operands must be {arity}, got {len(operands)}: ({inside})"
            )
        return definition(opcode).infer(operands, attributes, called)
    except XlaError as error:
        raise error.at(opcode, instruction) from error.__cause__
