"""The reductions that MPI has operations for."""

from collections.abc import Mapping
from typing import Any

from xla_contract.types.opcode import Opcode
from xla_server.ops.evaluation import Reduction

_NUMBERS: Mapping[Opcode, str] = {Opcode.ADD: "SUM", Opcode.MULTIPLY: "PROD"}
_INTEGERS: Mapping[Opcode, str] = {
    **_NUMBERS,
    Opcode.MAXIMUM: "MAX",
    Opcode.MINIMUM: "MIN",
    Opcode.AND: "BAND",
    Opcode.OR: "BOR",
    Opcode.XOR: "BXOR",
}
_OPERATIONS: Mapping[str, Mapping[Opcode, str]] = {
    "b": {Opcode.AND: "LAND", Opcode.OR: "LOR", Opcode.XOR: "LXOR"},
    "i": _INTEGERS,
    "u": _INTEGERS,
    # MPI does not say that maximum and minimum propagate NaN.
    "f": _NUMBERS,
    "c": _NUMBERS,
}
"""MPI's operations by kind of numpy type.

F16 and narrower floats are missing because MPI does not have them; integers of 8 and 16 bits
because their sums saturate in the vector code of Open MPI 5.
"""


def is_native(reduction: Reduction) -> bool:
    """Return whether MPI has the operation for all types of a reduction."""
    return all(
        dtype.isbuiltin == 1
        and reduction.opcode in _OPERATIONS.get(dtype.kind, {})
        and (dtype.itemsize > 2 or reduction.opcode not in _NUMBERS)
        for dtype in reduction.dtypes
    )


def operation(opcode: Opcode, kind: str) -> Any:
    """Return MPI's operation for an opcode and a kind of numpy type."""
    from mpi4py import MPI

    return getattr(MPI, _OPERATIONS[kind][opcode])
