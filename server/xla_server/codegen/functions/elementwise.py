"""The kernel functions of elementwise operations, by the rows of the table."""

from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.ops.elementwise.elementwise_op import KernelForm
from xla_server.ops.elementwise.elementwise_table import ROWS


def function_of(opcode: Opcode, element_type: ElementType, computed: str) -> str:
    """Return the name of the function that computes `opcode` of operands of `element_type`.

    `computed` is the type those operands are computed in.
    """
    row = ROWS[opcode]
    if element_type is ElementType.PRED and row.pred is not None:
        return row.pred
    if element_type.is_complex or row.form is KernelForm.FUNCTION:
        return f"{row.kernel}_{computed}"
    if row.form is KernelForm.BITS and element_type.bit_width < 8:
        return f"{row.kernel}_{element_type.text}"
    return row.kernel


def widens_to_c128(opcode: Opcode, element_type: ElementType) -> bool:
    """Return whether operands of C64 are computed as C128, and the result rounded."""
    return element_type is ElementType.C64 and ROWS[opcode].widens_complex
