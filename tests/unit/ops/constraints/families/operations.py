"""Rules of every operation: it is defined, and has a number of operands."""

from tests.unit.ops.constraints.case import Case
from xla_contract.errors import UnimplementedError
from xla_contract.ops.definitions import DEFINITION, UNDEFINED
from xla_contract.types.opcode import VARIADIC, Opcode

_TOO_MANY = tuple(
    Case(
        opcode,
        ("f32[2]",) * (opcode.arity + 1),
        f"the number of operands must be {opcode.arity}, got {opcode.arity + 1}",
    )
    for opcode in DEFINITION
    if opcode.arity != VARIADIC
)

_TOO_FEW = tuple(
    Case(
        opcode,
        ("f32[2]",) * (opcode.arity - 1),
        f"the number of operands must be {opcode.arity}, got {opcode.arity - 1}",
    )
    for opcode in (Opcode.ADD, Opcode.NEGATE, Opcode.CLAMP)
)

_WITHOUT_MEANING = tuple(
    Case(opcode, ("f32[2]",), f"{reason}, got opcode {opcode}", error=UnimplementedError)
    for opcode, reason in UNDEFINED.items()
)

CASES: tuple[Case, ...] = (*_TOO_MANY, *_TOO_FEW, *_WITHOUT_MEANING)
