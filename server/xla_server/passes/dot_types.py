"""Element types for which products of matrices have kernels that pack their operands."""

from xla_contract.element_type import ElementType
from xla_server.ir.module import HloInstruction

BY_BLAS = frozenset({ElementType.F32, ElementType.F64, ElementType.C64, ElementType.C128})
_WORDS = frozenset({ElementType.S32, ElementType.U32})
_NARROW = frozenset({ElementType.S8, ElementType.U8, ElementType.S16})
_NARROW_RESULTS = frozenset({*_NARROW, ElementType.U16})


def has_packing_kernel(i: HloInstruction) -> bool:
    """Return whether a dot of these types has a kernel for which the order of dimensions is free.

    Other products are loop nests, which read operands with the strides that they have.
    """
    result, operands = i.shape.element_type, _operand_types(i)
    if result in _WORDS:
        return operands <= _WORDS or operands <= _NARROW
    return (result in BY_BLAS and operands == {result}) or is_narrow_product(i)


def is_narrow_product(i: HloInstruction) -> bool:
    """Return whether a dot of narrow integers is the one in s32, converted to its result type.

    Both wrap around to the same bits.
    """
    return i.shape.element_type in _NARROW_RESULTS and _operand_types(i) <= _NARROW


def _operand_types(i: HloInstruction) -> frozenset[ElementType]:
    return frozenset(operand.shape.element_type for operand in i.operands)
