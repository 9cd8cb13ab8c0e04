"""Operations on the bits of integers."""

from collections.abc import Mapping

from tests.elementwise_operations.operation import BITS, LOGICAL, Operation
from xla_contract.types.opcode import Opcode

OPERATIONS: Mapping[Opcode, Operation] = {
    Opcode.AND: Operation("And", LOGICAL, bit=lambda x, y: x & y),
    Opcode.COUNT_LEADING_ZEROS: Operation("Clz", BITS, bit=lambda x, _: int(x == 0)),
    Opcode.MULHI: Operation("Mulhi", BITS, bit=lambda x, y: x * y >> 1),
    Opcode.NOT: Operation("Not", LOGICAL, bit=lambda x, _: ~x),
    Opcode.OR: Operation("Or", LOGICAL, bit=lambda x, y: x | y),
    Opcode.POPCNT: Operation("PopulationCount", BITS, bit=lambda x, _: int(x != 0)),
    Opcode.SHIFT_LEFT: Operation("ShiftLeft", BITS, bit=lambda x, y: 0 if y else x),
    Opcode.SHIFT_RIGHT_ARITHMETIC: Operation("ShiftRightArithmetic", BITS, bit=lambda x, _: x),
    Opcode.SHIFT_RIGHT_LOGICAL: Operation(
        "ShiftRightLogical", BITS, bit=lambda x, y: 0 if y else x
    ),
    Opcode.XOR: Operation("Xor", LOGICAL, bit=lambda x, y: x ^ y),
}
"""The rows by opcode."""
