"""The broadcasts that an elementwise operation needs: the explicit rules of XLA's "Broadcasting".

There is no implicit rule. Operands of equal rank match dimension by dimension, where size 1
stretches (a degenerate dimension). For operands of different rank the caller states by
broadcast_dimensions which dimension of the larger one each dimension of the smaller one is; only
scalars need no broadcast_dimensions.
"""

import dataclasses
import itertools
from collections.abc import Sequence

from xla_contract.errors import ShapeError
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class BroadcastSpec:
    """Mapping of one operand to a result: its dimension i is dimension `mapping[i]` there.

    A dimension whose size differs from the result's has size 1.
    """

    operand: Shape
    mapping: tuple[int, ...]
    result: tuple[int, ...]

    @property
    def is_trivial(self) -> bool:
        """True if the operand has the result's dimensions already."""
        return self.operand.dimensions == self.result

    @property
    def kept(self) -> tuple[int, ...]:
        """The operand dimensions that are as wide as in the result."""
        return tuple(
            number
            for number, (size, target) in enumerate(
                zip(self.operand.dimensions, self.mapping, strict=True)
            )
            if size == self.result[target]
        )


def plan_binary(
    lhs: Shape, rhs: Shape, broadcast_dimensions: Sequence[int] | None = None
) -> tuple[BroadcastSpec, BroadcastSpec]:
    """The steps by which the operands of an elementwise operation reach their common dimensions.

    Args:
        lhs: The shape of the first operand.
        rhs: The shape of the second operand.
        broadcast_dimensions: For operands of different rank: the dimension of the larger one for
            each dimension of the smaller one.

    Returns:
        The steps of each operand.

    Raises:
        ShapeError: An operand is no array, or the rules do not say how.
    """
    for side in (lhs, rhs):
        if not side.is_array:
            raise ShapeError(f"operands must be arrays, got {lhs} and {rhs}")
    lhs_mapping, rhs_mapping = _mappings(lhs, rhs, broadcast_dimensions)
    rank = max(lhs.rank, rhs.rank)
    result = tuple(
        _common_size(lhs, lhs_mapping, rhs, rhs_mapping, number) for number in range(rank)
    )
    return BroadcastSpec(lhs, lhs_mapping, result), BroadcastSpec(rhs, rhs_mapping, result)


def plan_in_dim(
    operand: Shape, dimensions: Sequence[int], broadcast_dimensions: Sequence[int]
) -> BroadcastSpec:
    """The steps by which `operand` becomes an array of `dimensions`; size 1 is broadcast.

    Args:
        operand: The shape of the operand.
        dimensions: The dimensions of the result.
        broadcast_dimensions: The dimension of the result for each dimension of the operand.

    Returns:
        The steps.

    Raises:
        ShapeError: A dimension of the operand does not fit that of the result.
    """
    mapping = tuple(broadcast_dimensions)
    result = tuple(dimensions)
    _check_mapping(operand, len(result), mapping)
    for number, target in enumerate(mapping):
        if operand.dimensions[number] not in (1, result[target]):
            raise ShapeError(
                "a broadcast dimension must have size 1 or the size of its result dimension, got "
                f"dim {number} = {operand.dimensions[number]} of {operand} and dim {target} = "
                f"{result[target]} of {_text(operand, result)}"
            )
    return BroadcastSpec(operand, mapping, result)


def _mappings(
    lhs: Shape, rhs: Shape, broadcast_dimensions: Sequence[int] | None
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    identity = tuple(range(max(lhs.rank, rhs.rank)))
    if lhs.rank == rhs.rank:
        if broadcast_dimensions is not None and tuple(broadcast_dimensions) not in ((), identity):
            raise ShapeError(
                "broadcast_dimensions of operands of equal rank must be left out or number every "
                f"dimension in order, got {_list(broadcast_dimensions)} for {lhs} and {rhs}"
            )
        return identity, identity
    smaller, larger = (lhs, rhs) if lhs.rank < rhs.rank else (rhs, lhs)
    if broadcast_dimensions is None and smaller.rank > 0:
        raise ShapeError(
            f"operands of different rank need broadcast_dimensions, got none for {lhs} and {rhs}",
            hint=f"say which dimensions of {larger} the dimensions of {smaller} are",
        )
    mapping = tuple(broadcast_dimensions or ())
    _check_mapping(smaller, larger.rank, mapping)
    return (mapping, identity) if smaller is lhs else (identity, mapping)


def _check_mapping(operand: Shape, rank: int, mapping: tuple[int, ...]) -> None:
    if len(mapping) != operand.rank:
        raise ShapeError(
            "broadcast_dimensions must have one entry per dimension of the smaller operand, got "
            f"{_list(mapping)} for {operand}"
        )
    for number in mapping:
        if not 0 <= number < rank:
            raise ShapeError(
                f"broadcast_dimensions must be dimensions of the result of rank {rank}, got "
                f"{_list(mapping)}"
            )
    if any(first >= second for first, second in itertools.pairwise(mapping)):
        raise ShapeError(f"broadcast_dimensions must increase, got {_list(mapping)}")


def _common_size(
    lhs: Shape, lhs_mapping: tuple[int, ...], rhs: Shape, rhs_mapping: tuple[int, ...], target: int
) -> int:
    if target not in lhs_mapping:
        return rhs.dimensions[rhs_mapping.index(target)]
    if target not in rhs_mapping:
        return lhs.dimensions[lhs_mapping.index(target)]
    lhs_number, rhs_number = lhs_mapping.index(target), rhs_mapping.index(target)
    mine, theirs = lhs.dimensions[lhs_number], rhs.dimensions[rhs_number]
    if mine != theirs and 1 not in (mine, theirs):
        raise ShapeError(
            "dimensions that meet must have equal size or size 1, got lhs dim "
            f"{lhs_number} = {mine} of {lhs} and rhs dim {rhs_number} = {theirs} of {rhs}"
        )
    return theirs if mine == 1 else mine


def _text(operand: Shape, dimensions: tuple[int, ...]) -> str:
    return f"{operand.element_type.text}[{','.join(map(str, dimensions))}]"


def _list(numbers: Sequence[int]) -> str:
    return f"{{{','.join(map(str, numbers))}}}"
