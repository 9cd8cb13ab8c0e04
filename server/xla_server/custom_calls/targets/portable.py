"""Targets that programs made for any platform call: Qr, Eigh, LuDecomposition, TopK.

Semantics: what XLA's expanders of these names make of them.
"""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops.signature import listed
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.custom_calls.attributes import AttributeValue
from xla_server.custom_calls.linear_algebra import batched, factorizations
from xla_server.custom_calls.linear_algebra.spectral import hermitian_parts
from xla_server.custom_calls.target import CustomCallTarget, require_result, static_operands
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value
from xla_server.ops.indexing.topk import ordering_keys

_EIGH_OPTIONS = re.compile(rb"([01]),([01]),[0-9]{1,9},[0-9.eE+-]{1,40}\Z")
_NAN = float("nan")


def _no_options(text: bytes) -> Mapping[str, AttributeValue]:
    """Return no options: these targets have none, and the text is ignored."""
    return MappingProxyType({})


def _eigh_options(text: bytes) -> Mapping[str, AttributeValue]:
    found = _EIGH_OPTIONS.match(text)
    if found is None:
        raise InvalidArgumentError(
            "Eigh takes lower,sort,iterations,tolerance such as 1,1,100,1e-6, got "
            f"'{text[:40].decode(errors='replace')}'"
        )
    return MappingProxyType({"lower": found[1] == b"1"})


def eigh_shapes(call: batched.BatchedCall) -> Shape:
    """(eigenvectors, eigenvalues)"""
    size = call.square()
    return Shape.tuple_of([call.array(size, size), call.real(size)])


def eigh(call: batched.BatchedCall, matrices: batched.Matrices) -> batched.Matrices:
    """Eigenvectors and sorted eigenvalues, to the last digits at any tolerance; NaN on failure."""
    vectors, values, info = hermitian_parts(call, matrices[0], lower=call.flag("lower"))
    return (_NAN, _NAN) if info else (vectors, values)


def lu_shapes(call: batched.BatchedCall) -> Shape:
    """(L and U over the operand, the rows exchanged, the order of the rows), from 0"""
    pivots, order = (Shape.array(ElementType.S32, (count,)) for count in (call.smaller, call.rows))
    return Shape.tuple_of([call.array(call.rows, call.columns), pivots, order])


def lu_with_order(call: batched.BatchedCall, matrices: batched.Matrices) -> batched.Matrices:
    """LU factors with partial pivoting."""
    factors, exchanged, _ = factorizations.lu(call, matrices)
    order = np.arange(call.rows)
    for row, other in enumerate(exchanged - 1):
        order[[row, other]] = order[[other, row]]
    return factors, exchanged - 1, order


def check_topk(instruction: HloInstruction) -> None:
    """(values, positions in s32), the last dimension cut to the best."""
    shapes = static_operands(instruction)
    if len(shapes) != 1 or not shapes[0].rank or shapes[0].element_type.is_complex:
        raise ShapeError(
            "TopK takes one array of at least one dimension whose elements have an order, got "
            f"{listed(shapes)}"
        )
    declared = instruction.shape.without_layout()
    parts = declared.tuple_shapes
    count = parts[0].dimensions[-1] if parts and parts[0].rank else 0
    (operand,) = shapes
    if count > operand.dimensions[-1]:
        raise ShapeError(
            f"TopK gives at most what there is, got {count} of {operand} in {declared}"
        )
    best = (*operand.dimensions[:-1], count)
    wanted = [Shape.array(kind, best) for kind in (operand.element_type, ElementType.S32)]
    require_result(instruction, Shape.tuple_of(wanted))


def evaluate_topk(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """Largest first, equal ones by position."""
    operand = cast(Array, operands[0])
    count = instruction.shape.tuple_shapes[0].dimensions[-1]
    keys: Any = ordering_keys(operand)
    chosen = np.argsort(~keys, axis=-1, kind="stable")[..., :count]
    return np.take_along_axis(operand, chosen, -1), chosen.astype(np.int32)


TARGETS = (
    batched.MatrixFunction(
        (batched.MATRIX,), factorizations.qr_shapes, factorizations.qr, read=_no_options
    ).target("Qr"),
    batched.MatrixFunction(
        (batched.MATRIX, batched.VECTOR),
        factorizations.reflectors_shapes,
        factorizations.reflectors,
        read=_no_options,
        empty=factorizations.no_reflectors,
    ).target("ProductOfElementaryHouseholderReflectors"),
    batched.MatrixFunction((batched.MATRIX,), eigh_shapes, eigh, read=_eigh_options).target("Eigh"),
    batched.MatrixFunction(
        (batched.MATRIX,),
        lu_shapes,
        lu_with_order,
        read=_no_options,
        empty=lambda call, matrices: (matrices[0], 0, np.arange(call.rows)),
    ).target("LuDecomposition"),
    CustomCallTarget("TopK", evaluate_topk, check_topk),
)
