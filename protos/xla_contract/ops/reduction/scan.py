"""scan: a computation applied to slice after slice of arrays, with values carried along.

Semantics: XLA's Scan. Operands are the arrays, then the initial carried values. The computation
takes one slice of each array, without the scanned dimension, and the carried values; it returns one
slice of each result array and the carried values. The results of the scan are in the same order:
arrays first.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import OnlyDimension, Scalar, Special
from xla_contract.ops.signature import check_takes, exactly, listed, one_or_tuple, require_array
from xla_contract.stubs import hlo_pb2
from xla_contract.types.shape import ProgramShape, Shape


def _write_associative(is_associative: bool | None, proto: hlo_pb2.HloInstructionProto) -> None:
    if is_associative is not None:
        states = hlo_pb2.TRI_STATE_FALSE, hlo_pb2.TRI_STATE_TRUE
        proto.is_associative = states[is_associative]


@dataclasses.dataclass(frozen=True, slots=True)
class ScanAttributes:
    """`carries` counts the carried values. `is_associative` None means that nothing is stated."""

    dimension: Annotated[int, OnlyDimension("scanned")]
    carries: Annotated[int, Scalar("num_carries")]
    is_reverse: Annotated[bool, Scalar("is_reverse")] = False
    is_associative: Annotated[
        bool | None,
        Special(lambda proto, _: _FROM_WIRE.get(proto.is_associative), _write_associative),
    ] = None


def infer_scan(
    operands: Sequence[Shape], attributes: ScanAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The shape of the results, a tuple unless there is one; ShapeError if things do not fit."""
    (step,) = exactly(called, ("the step",))
    count = len(operands) - attributes.carries
    if not 0 <= attributes.carries < len(operands):
        raise ShapeError(
            "a scan must have an array or more before its carried values, got num_carries "
            f"{attributes.carries} of {len(operands)} operands"
        )
    arrays, carried = operands[:count], tuple(operands[count:])
    size = _scanned_size(arrays, attributes.dimension)
    slices = tuple(without_dimension(array, attributes.dimension) for array in arrays)
    check_takes("step", step, (*slices, *carried))
    results = step.result.parts
    outputs, after = results[: len(results) - len(carried)], results[len(results) - len(carried) :]
    if len(results) < len(carried) or not all(
        mine.compatible(theirs) for mine, theirs in zip(after, carried, strict=True)
    ):
        raise ShapeError(
            f"the step must give its carried values {listed(carried)} last, got {step}"
        )
    stacked = [_with_dimension(output, attributes.dimension, size) for output in outputs]
    shapes = [*stacked, *(shape.without_layout() for shape in carried)]
    return Shape.tuple_of(shapes) if step.result.is_tuple else one_or_tuple(shapes)


def without_dimension(array: Shape, dimension: int) -> Shape:
    """The shape of one slice of an array along a dimension."""
    sizes = array.dimensions
    flags = [array.is_dynamic(n) for n in range(array.rank) if n != dimension]
    return Shape.array(array.element_type, sizes[:dimension] + sizes[dimension + 1 :], None, flags)


def _with_dimension(output: Shape, dimension: int, size: int) -> Shape:
    require_array(output, "what the step gives for a slice")
    if dimension > output.rank:
        raise ShapeError(f"a slice of a result must have rank {dimension} or more, got {output}")
    sizes = output.dimensions
    flags = [output.is_dynamic(number) for number in range(output.rank)]
    return Shape.array(
        output.element_type,
        (*sizes[:dimension], size, *sizes[dimension:]),
        None,
        [*flags[:dimension], False, *flags[dimension:]],
    )


def _scanned_size(arrays: Sequence[Shape], dimension: int) -> int:
    for array in arrays:
        require_array(array, "a scanned operand")
    sizes = {a.dimensions[dimension] if 0 <= dimension < a.rank else None for a in arrays}
    flagged = any(a.is_dynamic(dimension) for a in arrays if 0 <= dimension < a.rank)
    if None in sizes or len(sizes) != 1 or flagged:
        raise ShapeError(
            f"scanned operands must have dimension {dimension} in one fixed size, got "
            f"{listed(arrays)}"
        )
    return sizes.pop() or 0


_FROM_WIRE = {hlo_pb2.TRI_STATE_TRUE: True, hlo_pb2.TRI_STATE_FALSE: False}
