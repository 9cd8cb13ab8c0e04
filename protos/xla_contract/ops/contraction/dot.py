"""dot: sums of products over contracting dimensions, with batch dimensions carried along.

Semantics: XLA's Dot and DotGeneral. The result has the batch dimensions, then the free
dimensions of lhs, then those of rhs.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Annotated, NamedTuple

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import Record
from xla_contract.ops.contraction.precision import (
    Algorithm,
    OperandPrecision,
    PreferredType,
    product_type,
)
from xla_contract.ops.signature import check_distinct, require_array
from xla_contract.types.dimension_numbers import DotDimensionNumbers
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class DotAttributes:
    """`preferred_element_type` None means the operands' type; read from a message it is set."""

    dimension_numbers: Annotated[
        DotDimensionNumbers, Record("dot_dimension_numbers", DotDimensionNumbers)
    ]
    preferred_element_type: PreferredType = None
    precision: OperandPrecision = ()
    algorithm: Algorithm = 0


def free_dimensions(rank: int, *taken: Sequence[int]) -> tuple[int, ...]:
    """The dimensions of an operand that are neither batch nor contracting, in order."""
    used = {number for numbers in taken for number in numbers}
    return tuple(number for number in range(rank) if number not in used)


class Roles(NamedTuple):
    """The dimensions of an operand of a dot by role: batch, contracting or free."""

    batch: tuple[int, ...]
    free: tuple[int, ...]
    contracting: tuple[int, ...]


def roles_of(numbers: DotDimensionNumbers, lhs_rank: int, rhs_rank: int) -> tuple[Roles, Roles]:
    """The dimensions of both operands of a dot; the free ones are in order."""
    left = numbers.lhs_batch_dimensions, numbers.lhs_contracting_dimensions
    right = numbers.rhs_batch_dimensions, numbers.rhs_contracting_dimensions
    return (
        Roles(left[0], free_dimensions(lhs_rank, *left), left[1]),
        Roles(right[0], free_dimensions(rhs_rank, *right), right[1]),
    )


class ProductSizes(NamedTuple):
    """A dot as a batch of matrix products: batch size, rows, columns and length of each sum."""

    batch: int
    rows: int
    columns: int
    depth: int


def product_sizes(
    lhs: Sequence[int], rhs: Sequence[int], numbers: DotDimensionNumbers
) -> ProductSizes:
    """The sizes of a dot of arrays with these dimensions."""
    left, right = roles_of(numbers, len(lhs), len(rhs))
    batch, rows, depth = (math.prod(lhs[d] for d in dimensions) for dimensions in left)
    return ProductSizes(batch, rows, math.prod(rhs[d] for d in right.free), depth)


def infer_dot(operands: Sequence[Shape], attributes: DotAttributes) -> Shape:
    """The shape of lhs dot rhs; ShapeError when dimension numbers or sizes do not fit."""
    lhs, rhs = (require_array(shape, "an operand") for shape in operands)
    left, right = roles_of(attributes.dimension_numbers, lhs.rank, rhs.rank)
    for name, shape, own in (("lhs", lhs, left), ("rhs", rhs, right)):
        taken = own.contracting + own.batch
        check_distinct(f"{name} contracting and batch dimensions", taken, shape.rank, shape)
    _check_pairs("contracting", lhs, left.contracting, rhs, right.contracting)
    _check_pairs("batch", lhs, left.batch, rhs, right.batch)
    pairs = zip(left.batch, right.batch, strict=True)
    kept = [(rhs, theirs) if rhs.is_dynamic(theirs) else (lhs, mine) for mine, theirs in pairs]
    kept += [(shape, n) for shape, own in ((lhs, left), (rhs, right)) for n in own.free]
    return Shape.array(
        product_type(lhs, rhs, attributes.preferred_element_type),
        [shape.dimensions[number] for shape, number in kept],
        None,
        [shape.is_dynamic(number) for shape, number in kept],
    )


def _check_pairs(
    kind: str, lhs: Shape, left: tuple[int, ...], rhs: Shape, right: tuple[int, ...]
) -> None:
    if len(left) != len(right):
        raise ShapeError(
            f"lhs and rhs must have as many {kind} dimensions, got {len(left)} of {lhs} and "
            f"{len(right)} of {rhs}"
        )
    for mine, theirs in zip(left, right, strict=True):
        if lhs.dimensions[mine] != rhs.dimensions[theirs]:
            raise ShapeError(
                f"{kind} dimensions must have equal size, got lhs dim {mine} = "
                f"{lhs.dimensions[mine]} of {lhs} and rhs dim {theirs} = "
                f"{rhs.dimensions[theirs]} of {rhs}"
            )
