"""One row for each elementwise operation without attributes: what tests expect of it.

Lists of operations, bounds and references in tests derive from these rows, which say again what
the contract, the server and the client have. A row that is missing fails a test.
"""

from collections.abc import Mapping

from tests.elementwise_operations import arithmetic, bitwise, exponential, trigonometric
from tests.elementwise_operations.operation import Operation
from xla_contract.types.opcode import Opcode

OPERATIONS: Mapping[Opcode, Operation] = {
    **arithmetic.OPERATIONS,
    **bitwise.OPERATIONS,
    **exponential.OPERATIONS,
    **trigonometric.OPERATIONS,
}
"""The row of every operation of one or two operands."""

FITS = (*exponential.FITS, *trigonometric.FITS)
"""Every polynomial that kernel functions use."""
