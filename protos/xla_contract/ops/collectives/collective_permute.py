"""collective-permute and its two halves: values sent along pairs (source, target).

Semantics: XLA's CollectivePermute; a device that is the target of no pair gets zeros. With several
operands the result is a tuple. Slice updates, which compilers make of it, are not supported.
"""

import dataclasses
from collections.abc import Sequence

from xla_contract.errors import InvalidArgumentError, ShapeError, UnimplementedError
from xla_contract.ops.attribute_fields import Declared, Scalar, Special
from xla_contract.ops.collectives.async_pairs import element_of_start
from xla_contract.ops.collectives.collective import needs_arrays
from xla_contract.ops.definition import defined, without_attributes
from xla_contract.ops.signature import one_or_tuple
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape


@dataclasses.dataclass(frozen=True, slots=True)
class CollectivePermuteAttributes:
    """The pairs and the channel, 0 for none.

    `context` are the shapes that the first half's result has behind operand and result.
    """

    pairs: tuple[tuple[int, int], ...]
    channel_id: int = 0
    context: tuple[Shape, ...] = ()


def infer_collective_permute(
    operands: Sequence[Shape], attributes: CollectivePermuteAttributes
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
    operands: Sequence[Shape], attributes: CollectivePermuteAttributes
) -> Shape:
    """The operands, the result, and what the writer declared behind them."""
    result = infer_collective_permute(operands, attributes)
    return Shape.tuple_of([result, result, *attributes.context])


def infer_collective_permute_done(operands: Sequence[Shape]) -> Shape:
    """The second element of what the first half gave."""
    return element_of_start(operands, 1)


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


def _context(shape: Shape) -> tuple[Shape, ...]:
    if len(shape.tuple_shapes) < 2:
        raise InvalidArgumentError(
            f"the result must be a tuple of operands and result, got {shape.without_layout()}"
        )
    return tuple(part.without_layout() for part in shape.tuple_shapes[2:])


_FIELDS = (Special(_read_pairs, _write_pairs), Scalar("channel_id"))

DEFINITIONS = (
    defined(
        Opcode.COLLECTIVE_PERMUTE,
        CollectivePermuteAttributes,
        infer_collective_permute,
        *_FIELDS,
    ),
    defined(
        Opcode.COLLECTIVE_PERMUTE_START,
        CollectivePermuteAttributes,
        infer_collective_permute_start,
        *_FIELDS,
        Declared(_context),
    ),
    without_attributes(Opcode.COLLECTIVE_PERMUTE_DONE, infer_collective_permute_done),
)
