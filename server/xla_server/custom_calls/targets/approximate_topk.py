"""ApproxTopK: the first elements by a comparator, of which a platform may miss some.

Semantics: XLA's ApproxTopK as its CPU backend runs it, which misses none: a stable sort, cut.
Operands are arrays and then what stands for no element of each; the called computation compares
(a, b) of each array in turn.
"""

from collections.abc import Sequence
from typing import cast

from xla_contract.errors import ShapeError
from xla_contract.ops.signature import check_predicate, check_takes, exactly, listed
from xla_contract.types.shape import Shape
from xla_server.custom_calls.attributes import integer, parse_attributes
from xla_server.custom_calls.target import CustomCallTarget, require_result, static_operands
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Array, Frame, Value
from xla_server.ops.indexing.sort import sorted_by


def reduction_dimension(instruction: HloInstruction) -> int:
    """The dimension whose first elements are found."""
    return integer(parse_attributes(instruction.attributes.opaque), "reduction_dim")


def check(instruction: HloInstruction) -> None:
    """The arrays cut to top_k along reduction_dim, or to more where they are not aggregated."""
    shapes = static_operands(instruction)
    count = len(shapes) // 2
    arrays, absent = shapes[:count], shapes[count:]
    if (
        not arrays
        or len(absent) != count
        or not all(
            array.is_array
            and array.dimensions == arrays[0].dimensions
            and one.compatible(Shape.scalar(array.element_type))
            for array, one in zip(arrays, absent, strict=True)
        )
    ):
        raise ShapeError(
            "ApproxTopK takes arrays of equal dimensions and a scalar of the type of each, got "
            f"{listed(shapes)}"
        )
    (comparator,) = exactly(
        [part.program_shape for part in instruction.called], ("the comparator",)
    )
    check_takes("comparator", comparator, [one for one in absent for _ in range(2)])
    check_predicate("comparator", comparator)
    attributes = parse_attributes(instruction.attributes.opaque)
    dimension, wanted = integer(attributes, "reduction_dim"), integer(attributes, "top_k")
    declared = instruction.shape.tuple_shapes
    sizes = list(arrays[0].dimensions)
    if not 0 <= dimension < len(sizes) or not 0 <= wanted <= sizes[dimension]:
        raise ShapeError(
            f"ApproxTopK must find top_k among the elements of one dimension, got top_k {wanted} "
            f"and reduction_dim {dimension} of {arrays[0]}"
        )
    found = _found(declared, dimension, wanted)
    if attributes.get("aggregate_to_topk", True):
        found = wanted
    if not wanted <= found <= sizes[dimension]:
        raise ShapeError(
            f"ApproxTopK gives at least top_k = {wanted} elements and at most what there is, got "
            f"{instruction.shape.without_layout()} declared for {arrays[0]}"
        )
    sizes[dimension] = found
    parts = [Shape.array(array.element_type, sizes) for array in arrays]
    require_result(instruction, Shape.tuple_of(parts))


def _found(declared: Sequence[Shape], dimension: int, wanted: int) -> int:
    """Return the declared size of the dimension, `wanted` if there is none."""
    if not declared or not declared[0].is_array or declared[0].rank <= dimension:
        return wanted
    return declared[0].dimensions[dimension]


def evaluate(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
    """The first by the comparator, in its order."""
    (comparator,) = instruction.called
    dimension = reduction_dimension(instruction)
    arrays = [cast(Array, operand) for operand in operands[: len(operands) // 2]]
    count = instruction.shape.tuple_shapes[0].dimensions[dimension]
    kept = (*(slice(None),) * dimension, slice(count))
    return tuple(array[kept] for array in sorted_by(comparator, arrays, dimension, frame))


TARGET = CustomCallTarget("ApproxTopK", evaluate, check)
