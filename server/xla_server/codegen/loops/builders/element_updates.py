"""Updates of a few elements of an array, as stores of a scalar loop."""

import itertools
import math
from collections.abc import Sequence

from xla_contract.types.opcode import Opcode
from xla_server.codegen.trace.elementwise import converted
from xla_server.codegen.trace.graph import Load, Node, Store
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE
from xla_server.codegen.trace.movement import start_indices
from xla_server.codegen.trace.tracer import Index, Tracer, integer
from xla_server.ir.affine import Affine, linear
from xla_server.ir.explicit_stack import result_of
from xla_server.ir.module import HloInstruction


def chain_of(
    root: HloInstruction, max_elements: int
) -> tuple[list[HloInstruction], HloInstruction]:
    """The updates that make an array, in order, and the array that the first one updates.

    Each updates at most `max_elements`.
    """
    chain: list[HloInstruction] = []
    while _is_update(root, max_elements):
        chain.insert(0, root)
        root = root.operands[0]
    # A scatter that combines reads elements that earlier updates of the same iteration may have
    # written.
    if any(part.opcode is Opcode.SCATTER and not _replaces(part) for part in chain[1:]):
        return [], root
    return chain, root


def update_stores(tracer: Tracer, update: HloInstruction, argument: int) -> list[Store]:
    """The stores of an update into the buffer `argument`, where its first operand is."""
    if update.opcode is Opcode.SCATTER:
        return _scatter_stores(tracer, update, argument)
    box, sizes = update.operands[1].shape.dimensions, update.shape.dimensions
    starts = result_of(start_indices(tracer, update, 2, len(sizes)))
    first = [tracer.clamped(starts[d], sizes[d] - box[d]) for d in range(len(sizes))]
    kernel_type = KERNEL_TYPE[update.shape.element_type]
    return [
        Store(
            argument,
            kernel_type,
            linear(_moved(first, index), sizes),
            tracer.value(update.operands[1], tuple(map(Affine, index))),
        )
        for index in itertools.product(*map(range, box))
    ]


def _scatter_stores(tracer: Tracer, scatter: HloInstruction, argument: int) -> list[Store]:
    """Stores of one window, which happen only where all of it is inside."""
    operand, indices, updates = scatter.operands
    sizes, numbers = operand.shape.dimensions, scatter.attributes.dimension_numbers
    windows = iter(numbers.update_window_dims)
    dimensions = [
        None if d in numbers.inserted_window_dims else next(windows) for d in range(len(sizes))
    ]
    box = [1 if d is None else updates.shape.dimensions[d] for d in dimensions]
    guard: Node | None = None
    first = [Affine(0)] * len(sizes)
    for number, d in enumerate(numbers.scatter_dims_to_operand_dims):
        start = tracer.value(indices, _entry(indices, numbers.index_vector_dim, number))
        guard = tracer.both(guard, _inside(tracer, start, sizes[d] - box[d]))
        first[d] = tracer.clamped(start, sizes[d] - box[d])
    kernel_type = KERNEL_TYPE[operand.shape.element_type]
    stores = []
    for index in itertools.product(*map(range, box)):
        element = linear(_moved(first, index), sizes)
        at = [Affine(0)] * updates.shape.rank
        for d, position in zip(dimensions, index, strict=True):
            if d is not None:
                at[d] = Affine(position)
        new = tracer.value(updates, tuple(at))
        if not _replaces(scatter):
            new = _combined(tracer, scatter, Load(argument, kernel_type, element), new)
        stores.append(Store(argument, kernel_type, element, new, guard))
    return stores


def _combined(tracer: Tracer, scatter: HloInstruction, old: Node, new: Node) -> Node:
    (combiner,) = scatter.called
    operand, _, updates = (part.shape.element_type for part in scatter.operands)
    kinds = [part.shape.element_type for part in combiner.parameters]
    given = [
        converted(tracer, old, operand, kinds[0]),
        converted(tracer, new, updates, kinds[1]),
    ]
    (made,) = tracer.call(combiner, given)
    return converted(tracer, made, combiner.root.shape.element_type, operand)


def _is_update(i: HloInstruction, max_elements: int) -> bool:
    """Return whether an instruction replaces or combines a few elements of its first operand."""
    if i.opcode is Opcode.DYNAMIC_UPDATE_SLICE:
        return 0 < i.operands[1].shape.element_count <= max_elements
    if i.opcode is not Opcode.SCATTER or len(i.operands) != 3:
        return False
    _, indices, updates = (part.shape for part in i.operands)
    numbers = i.attributes.dimension_numbers
    apart = [d for d in range(updates.rank) if d not in numbers.update_window_dims]
    return (
        not numbers.input_batching_dims
        and 0 < updates.element_count <= max_elements
        and math.prod(updates.dimensions[d] for d in apart) == 1
        and indices.element_count == len(numbers.scatter_dims_to_operand_dims) > 0
    )


def _replaces(scatter: HloInstruction) -> bool:
    """Return whether a scatter's computation returns the update, and both are of one type."""
    (combiner,) = scatter.called
    operand, _, updates = (part.shape.element_type for part in scatter.operands)
    return combiner.root is combiner.parameters[1] and operand is updates


def _entry(indices: HloInstruction, vector: int, number: int) -> Index:
    return tuple(Affine(number if d == vector else 0) for d in range(indices.shape.rank))


def _inside(tracer: Tracer, start: Node, last: int) -> Node:
    """Return the test that a window's start is within 0 .. last, as numbers of any integer type."""
    # The largest of u64 become negative, and are outside as they were.
    wide = tracer.apply("to_i64", [start], "i64")
    above = tracer.apply("ge", [wide, integer(0)], "b1")
    below = tracer.apply("le", [wide, integer(last)], "b1")
    return tracer.apply("bit_and", [above, below], "b1")


def _moved(first: Sequence[Affine], index: Sequence[int]) -> list[Affine]:
    return [start + offset for start, offset in zip(first, index, strict=True)]
