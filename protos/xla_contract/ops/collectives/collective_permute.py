"""collective-permute and its two halves: values sent along pairs (source, target).

Semantics: XLA's CollectivePermute; a device that is the target of no pair gets zeros. With several
operands the result is a tuple. Slice updates, which compilers make of it, are not supported.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import InvalidArgumentError, ShapeError, UnimplementedError
from xla_contract.ops.collectives.async_pairs import element_of_start
from xla_contract.ops.collectives.collective import needs_arrays
from xla_contract.ops.definition import (
    AnyDefinition,
    NoAttributes,
    OpDefinition,
    without_attributes,
)
from xla_contract.ops.signature import one_or_tuple
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class CollectivePermuteAttributes:
    """The pairs and the channel, 0 for none.

    `context` are the shapes that the first half's result has behind operand and result.
    """

    pairs: tuple[tuple[int, int], ...]
    channel_id: int = 0
    context: tuple[Shape, ...] = ()


def infer_collective_permute(
    operands: Sequence[Shape],
    attributes: CollectivePermuteAttributes,
    called: Sequence[ProgramShape],
) -> Shape:
    """The operands' shapes; ShapeError where a source or a target is named twice."""
    sources = [source for source, _ in attributes.pairs]
    targets = [target for _, target in attributes.pairs]
    for role, numbers in (("sources", sources), ("targets", targets)):
        if len(set(numbers)) != len(numbers) or any(number < 0 for number in numbers):
            shown = ",".join(f"{{{source},{target}}}" for source, target in attributes.pairs[:16])
            raise ShapeError(f"{role} must be distinct and not negative, got pairs {{{shown}}}")
    return one_or_tuple(needs_arrays(operands))


def infer_collective_permute_start(
    operands: Sequence[Shape],
    attributes: CollectivePermuteAttributes,
    called: Sequence[ProgramShape],
) -> Shape:
    """The operands, the result, and what the writer declared behind them."""
    result = infer_collective_permute(operands, attributes, called)
    return Shape.tuple_of([result, result, *attributes.context])


def infer_collective_permute_done(
    operands: Sequence[Shape], attributes: NoAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The second element of what the first half gave."""
    return element_of_start(operands, 1)


def _decode(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> CollectivePermuteAttributes:
    if proto.dynamic_slice_sizes:
        raise UnimplementedError(
            "values are permuted whole, got slice sizes "
            f"{[int(size) for size in proto.dynamic_slice_sizes[:8]]}"
        )
    pairs = tuple((pair.source, pair.target) for pair in proto.source_target_pairs)
    return CollectivePermuteAttributes(pairs, proto.channel_id)


def _decode_start(proto: hlo_pb2.HloInstructionProto, shape: Shape) -> CollectivePermuteAttributes:
    if len(shape.tuple_shapes) < 2:
        raise InvalidArgumentError(
            f"the result must be a tuple of operands and result, got {shape.without_layout()}"
        )
    context = tuple(part.without_layout() for part in shape.tuple_shapes[2:])
    return dataclasses.replace(_decode(proto, shape), context=context)


def _encode(attributes: CollectivePermuteAttributes, proto: hlo_pb2.HloInstructionProto) -> None:
    proto.channel_id = attributes.channel_id
    for source, target in attributes.pairs:
        proto.source_target_pairs.add(source=source, target=target)


DEFINITIONS: tuple[AnyDefinition, ...] = (
    OpDefinition(
        Opcode.COLLECTIVE_PERMUTE,
        CollectivePermuteAttributes,
        infer_collective_permute,
        _decode,
        _encode,
    ),
    OpDefinition(
        Opcode.COLLECTIVE_PERMUTE_START,
        CollectivePermuteAttributes,
        infer_collective_permute_start,
        _decode_start,
        _encode,
    ),
    without_attributes(Opcode.COLLECTIVE_PERMUTE_DONE, infer_collective_permute_done),
)
