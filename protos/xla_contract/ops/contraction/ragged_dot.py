"""ragged-dot: a dot in which group sizes, known when the program runs, cut one dimension of lhs.

Semantics: XLA's RaggedDot. The kind of the ragged dimension decides the mode. A free dimension of
lhs: each group of rows is multiplied by its own rhs, which rhs numbers by a group dimension. A
contracting dimension: one product per group, stacked along a new major dimension. A batch
dimension: a plain dot; the groups are a hint to compilers.
"""

import dataclasses
import enum
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.ops.attribute_fields import Record, Special
from xla_contract.ops.contraction.dot import DotAttributes, free_dimensions, infer_dot
from xla_contract.ops.contraction.precision import (
    Algorithm,
    OperandPrecision,
    PreferredType,
)
from xla_contract.ops.signature import require_array
from xla_contract.stubs import hlo_pb2
from xla_contract.types.dimension_numbers import DotDimensionNumbers
from xla_contract.types.shape import Shape


class RaggedMode(enum.Enum):
    """The role in lhs of the dimension that group sizes cut."""

    FREE = "free"
    CONTRACTING = "contracting"
    BATCH = "batch"


def _read_ragged(proto: hlo_pb2.HloInstructionProto, _: Shape) -> int:
    numbers = proto.ragged_dot_dimension_numbers
    if len(numbers.lhs_ragged_dimensions) != 1 or len(numbers.rhs_group_dimensions) > 1:
        raise InvalidArgumentError(
            "ragged-dot must have one ragged dimension and at most one group dimension, got "
            f"{list(numbers.lhs_ragged_dimensions)} and {list(numbers.rhs_group_dimensions)}"
        )
    return numbers.lhs_ragged_dimensions[0]


def _write_ragged(dimension: int, proto: hlo_pb2.HloInstructionProto) -> None:
    proto.ragged_dot_dimension_numbers.lhs_ragged_dimensions.append(dimension)


def _read_group(proto: hlo_pb2.HloInstructionProto, _: Shape) -> int | None:
    return next(iter(proto.ragged_dot_dimension_numbers.rhs_group_dimensions), None)


def _write_group(dimension: int | None, proto: hlo_pb2.HloInstructionProto) -> None:
    if dimension is not None:
        proto.ragged_dot_dimension_numbers.rhs_group_dimensions.append(dimension)


@dataclasses.dataclass(frozen=True, slots=True)
class RaggedDotAttributes:
    """`rhs_group_dimension` is present exactly when the ragged dimension is free."""

    dimension_numbers: Annotated[
        DotDimensionNumbers,
        Record("ragged_dot_dimension_numbers.dot_dimension_numbers", DotDimensionNumbers),
    ]
    lhs_ragged_dimension: Annotated[int, Special(_read_ragged, _write_ragged)]
    rhs_group_dimension: Annotated[int | None, Special(_read_group, _write_group)] = None
    preferred_element_type: PreferredType = None
    precision: OperandPrecision = ()
    algorithm: Algorithm = 0

    @property
    def mode(self) -> RaggedMode:
        """The role of the ragged dimension in the dot."""
        numbers = self.dimension_numbers
        if self.lhs_ragged_dimension in numbers.lhs_batch_dimensions:
            return RaggedMode.BATCH
        if self.lhs_ragged_dimension in numbers.lhs_contracting_dimensions:
            return RaggedMode.CONTRACTING
        return RaggedMode.FREE

    def prefix(self, lhs_rank: int) -> tuple[int, ...]:
        """Return the dimensions of lhs that may have group sizes of their own.

        They are all batch dimensions, then those before the ragged dimension that have its role.
        """
        numbers = self.dimension_numbers
        batch, contracting = numbers.lhs_batch_dimensions, numbers.lhs_contracting_dimensions
        if self.mode is RaggedMode.BATCH:
            return _before(self.lhs_ragged_dimension, batch)
        kind = contracting
        if self.mode is RaggedMode.FREE:
            kind = free_dimensions(lhs_rank, contracting, batch)
        return batch + _before(self.lhs_ragged_dimension, kind)

    def cut(self, lhs_rank: int) -> tuple[int, ...]:
        """The dimensions of lhs whose positions belong to groups: the prefix and the ragged one."""
        return (*self.prefix(lhs_rank), self.lhs_ragged_dimension)

    def cut_of_rhs(self, lhs_rank: int) -> tuple[int, ...]:
        """The same dimensions of rhs, where the ragged one is contracted."""
        numbers = self.dimension_numbers
        left = (*numbers.lhs_batch_dimensions, *numbers.lhs_contracting_dimensions)
        right = (*numbers.rhs_batch_dimensions, *numbers.rhs_contracting_dimensions)
        return tuple(right[left.index(number)] for number in self.cut(lhs_rank))

    def cut_of_result(self, lhs_rank: int) -> tuple[int, ...]:
        """The same dimensions of the result, where the ragged one is free."""
        numbers = self.dimension_numbers
        batch = numbers.lhs_batch_dimensions
        free = free_dimensions(lhs_rank, numbers.lhs_contracting_dimensions, batch)
        return tuple((*batch, *free).index(number) for number in self.cut(lhs_rank))

    @property
    def numbers_of_group(self) -> DotDimensionNumbers:
        """The dimension numbers of one group's dot, whose rhs has no group dimension."""
        group = self.rhs_group_dimension

        def moved(dimensions: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(n - (group is not None and n > group) for n in dimensions)

        numbers = self.dimension_numbers
        return dataclasses.replace(
            numbers,
            rhs_contracting_dimensions=moved(numbers.rhs_contracting_dimensions),
            rhs_batch_dimensions=moved(numbers.rhs_batch_dimensions),
        )


def _before(number: int, numbers: tuple[int, ...]) -> tuple[int, ...]:
    return numbers[: numbers.index(number)]


def infer_ragged_dot(operands: Sequence[Shape], attributes: RaggedDotAttributes) -> Shape:
    """The shape for (lhs, rhs, group sizes); ShapeError if dimensions or sizes do not fit."""
    lhs, rhs, sizes = (require_array(shape, "an operand") for shape in operands)
    numbers = attributes.dimension_numbers
    plain = DotAttributes(numbers, attributes.preferred_element_type)
    product = infer_dot((lhs, rhs), plain)
    if not 0 <= attributes.lhs_ragged_dimension < lhs.rank:
        raise ShapeError(
            f"the ragged dimension must be one of lhs, got {attributes.lhs_ragged_dimension} "
            f"for {lhs}"
        )
    groups = _group_count(lhs, sizes, attributes)
    place = _place_of_groups(lhs, rhs, groups, attributes)
    flags = [product.is_dynamic(number) for number in range(product.rank)]
    dimensions = list(product.dimensions)
    if place is not None:
        del dimensions[place], flags[place]
    if attributes.mode is RaggedMode.CONTRACTING:
        dimensions, flags = [groups, *dimensions], [False, *flags]
    return Shape.array(product.element_type, dimensions, None, flags)


def _group_count(lhs: Shape, sizes: Shape, attributes: RaggedDotAttributes) -> int:
    prefix = [lhs.dimensions[number] for number in attributes.prefix(lhs.rank)]
    fits = sizes.rank == 1 or (sizes.rank and list(sizes.dimensions[:-1]) == prefix)
    if not (fits and sizes.element_type.is_integer):
        named = "".join(f"{size}," for size in prefix)
        raise ShapeError(
            f"group sizes must be integers of dimensions [groups] or [{named}groups], got {sizes} "
            f"for lhs {lhs}"
        )
    return sizes.dimensions[-1]


def _place_of_groups(
    lhs: Shape, rhs: Shape, groups: int, attributes: RaggedDotAttributes
) -> int | None:
    """Return the position in the plain dot of the dimension of rhs that numbers the groups."""
    numbers, group = attributes.dimension_numbers, attributes.rhs_group_dimension
    if (group is not None) is not (attributes.mode is RaggedMode.FREE):
        raise ShapeError(
            "rhs must have a group dimension exactly when the ragged dimension is free, got "
            f"{'none' if group is None else group} for the {attributes.mode.value} dimension "
            f"{attributes.lhs_ragged_dimension}"
        )
    if group is None:
        return None
    free = free_dimensions(
        rhs.rank, numbers.rhs_contracting_dimensions, numbers.rhs_batch_dimensions
    )
    if group not in free:
        raise ShapeError(
            f"the group dimension must be a free one of rhs, got {group} for {rhs} with free "
            f"dimensions {{{','.join(map(str, free))}}}"
        )
    if rhs.dimensions[group] != groups:
        raise ShapeError(
            f"the group dimension must have the size {groups} of the group sizes, got dimension "
            f"{group} of {rhs}"
        )
    return lhs.rank - len(numbers.lhs_contracting_dimensions) + free.index(group)
