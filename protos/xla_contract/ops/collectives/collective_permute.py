"""collective-permute and its two halves: values sent along pairs (source, target).

Semantics: XLA's CollectivePermute; a device that is the target of no pair gets zeros. With several
operands the result is a tuple. Slice updates, which compilers make of it, are not supported.
"""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import InvalidArgumentError, ShapeError, UnimplementedError
from xla_contract.ops.attribute_fields import Scalar, Special
from xla_contract.ops.collectives.async_pairs import element_of_start
from xla_contract.ops.collectives.collective import needs_arrays
from xla_contract.ops.signature import one_or_tuple
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape


def _read_pairs(proto: hlo_pb2.HloInstructionProto, _: Shape) -> tuple[tuple[int, int], ...]:
    if proto.dynamic_slice_sizes:
        raise UnimplementedError(
            "values are permuted whole, got slice sizes "
            f"{[int(size) for size in proto.dynamic_slice_sizes[:8]]}"
        )
    return tuple((pair.source, pair.target) for pair in proto.source_target_pairs)


def _write_pairs(pairs: Sequence[tuple[int, int]], proto: hlo_pb2.HloInstructionProto) -> None:
    for source, target in pairs:
        proto.source_target_pairs.add(source=source, target=target)


def _read_context(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> tuple[Shape, ...]:
    if proto.opcode != Opcode.COLLECTIVE_PERMUTE_START:
        return ()
    if len(shape.tuple_shapes) < 2:
        raise InvalidArgumentError(
            f"the result must be a tuple of operands and result, got {shape.without_layout()}"
        )
    return tuple(part.without_layout() for part in shape.tuple_shapes[2:])


@dataclasses.dataclass(frozen=True, slots=True)
class CollectivePermuteAttributes:
    """The pairs and the channel, 0 for none.

    `context` are the shapes that the first half's result has after operand and result.
    """

    pairs: Annotated[tuple[tuple[int, int], ...], Special(_read_pairs, _write_pairs)]
    channel_id: Annotated[int, Scalar("channel_id")] = 0
    context: Annotated[tuple[Shape, ...], Special(_read_context)] = ()


def infer_collective_permute(
    operands: Sequence[Shape], attributes: CollectivePermuteAttributes
) -> Shape:
    """The operands' shapes; ShapeError if a source or a target is named twice."""
    sources = [source for source, _ in attributes.pairs]
    targets = [target for _, target in attributes.pairs]
    for role, numbers in (("sources", sources), ("targets", targets)):
        if len(set(numbers)) != len(numbers) or any(number < 0 for number in numbers):
            shown = ",".join(f"{{{source},{target}}}" for source, target in attributes.pairs[:16])
            raise ShapeError(f"{role} must be distinct and not negative, got pairs {{{shown}}}")
    return one_or_tuple(needs_arrays(operands))


def infer_collective_permute_start(
    operands: Sequence[Shape], attributes: CollectivePermuteAttributes
) -> Shape:
    """The operands, the result, and the shapes that the writer declared after them."""
    result = infer_collective_permute(operands, attributes)
    return Shape.tuple_of([result, result, *attributes.context])


def infer_collective_permute_done(operands: Sequence[Shape]) -> Shape:
    """The second element of the first half's result."""
    return element_of_start(operands, 1)
