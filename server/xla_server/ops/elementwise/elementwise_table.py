"""The table of elementwise operations: one row for each, and the sets that derive from the rows.

A row has what evaluators, cost models, fusion and code generation know of an operation; its arity
and types are in `xla_contract.ops.elementwise.elementwise`. The formula of its kernel function is
in `xla_server.codegen.functions`.
"""

from xla_contract.types.opcode import Opcode
from xla_server.ops.elementwise.elementwise_op import CostClass, Rows
from xla_server.ops.elementwise.rows.arithmetic import ARITHMETIC
from xla_server.ops.elementwise.rows.bitwise import BITWISE
from xla_server.ops.elementwise.rows.exponential import EXPONENTIAL
from xla_server.ops.elementwise.rows.trigonometric import TRIGONOMETRIC
from xla_server.ops.numerics.scalar_function import UFUNC

ROWS: Rows = {**ARITHMETIC, **BITWISE, **EXPONENTIAL, **TRIGONOMETRIC}
"""The row of each elementwise operation that has no attributes."""

ELEMENTWISE = frozenset(
    {
        *ROWS,
        Opcode.COMPARE,
        Opcode.CONVERT,
        Opcode.REDUCE_PRECISION,
        Opcode.SELECT,
    }
)
"""Operations that compute each element from the operands' elements at the same index. Those
without a row are as cheap as an addition."""

EXACT = frozenset(opcode for opcode, row in ROWS.items() if row.is_exact)
"""Operations whose results are values of the operands' type without rounding."""

COMBINING = frozenset(UFUNC)
"""Operations whose operands may be combined in any order."""

ROUNDED_SUMS = frozenset({o for o in COMBINING if ROWS[o].neutral is not None} - EXACT)
"""Those that round floats: sums and products."""

TRANSCENDENTAL = frozenset(opcode for opcode, row in ROWS.items() if row.cost >= CostClass.ROOT)
"""Functions without an exact algorithm, which XLA's cost analysis counts apart from flops."""

EXPENSIVE = frozenset(opcode for opcode, row in ROWS.items() if row.cost > CostClass.ARITHMETIC)
"""Operations that are not worth computing twice."""
