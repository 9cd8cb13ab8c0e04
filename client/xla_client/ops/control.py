"""Tuples, calls and control flow. Semantics: XLA's While, Scan, Conditional, Call and kin."""

from collections.abc import Sequence

from xla_client.builder import Builder, Op, as_sequence, builder_of
from xla_client.computation import Computation
from xla_contract.opcode import Opcode
from xla_contract.ops.custom_call import CustomCallAttributes
from xla_contract.ops.scan import ScanAttributes
from xla_contract.ops.tuple import GetTupleElementAttributes
from xla_contract.shape import Shape

_API_VERSION_ORIGINAL = 1


def tuple(elements: Sequence[Op], builder: Builder | None = None) -> Op:
    """The tuple of these values; an empty one needs its builder."""
    return (builder or builder_of(*elements)).instruction(Opcode.TUPLE, elements)


def get_tuple_element(operand: Op, index: int) -> Op:
    """One element of a tuple."""
    attributes = GetTupleElementAttributes(index)
    return operand.builder.instruction(Opcode.GET_TUPLE_ELEMENT, [operand], attributes)


def call(computation: Computation, operands: Sequence[Op], builder: Builder | None = None) -> Op:
    """A computation applied to values; one without parameters needs the builder."""
    return (builder or builder_of(*operands)).instruction(
        Opcode.CALL, operands, called=[computation]
    )


def while_(condition: Computation, body: Computation, init: Op) -> Op:
    """`init`, passed through `body` as long as `condition` gives true for it."""
    return init.builder.instruction(Opcode.WHILE, [init], called=[body, condition])


def scan(
    arrays: Op | Sequence[Op],
    init_values: Op | Sequence[Op],
    step: Computation,
    dimension: int = 0,
    is_reverse: bool = False,
    is_associative: bool | None = None,
) -> Op:
    """`step` applied to one slice of the arrays after the other, with values carried along.

    The step takes a slice of each array, without `dimension`, and the carried values; it gives a
    slice of each result and the carried values. The scan gives the results, stacked along
    `dimension`, and what is carried out at the end. Raises ShapeError.
    """
    inputs, carried = as_sequence(arrays), as_sequence(init_values)
    attributes = ScanAttributes(dimension, len(carried), is_reverse, is_associative)
    everything = [*inputs, *carried]
    return builder_of(*everything).instruction(Opcode.SCAN, everything, attributes, [step])


def conditional(
    branch_index: Op, branch_computations: Sequence[Computation], branch_operands: Sequence[Op]
) -> Op:
    """One of several computations, applied to its own operand.

    An s32 `branch_index` counts the branches, and one out of range means the last. A pred takes
    two branches: the first when true, the second when false.
    """
    operands = [branch_index, *branch_operands]
    return branch_index.builder.instruction(
        Opcode.CONDITIONAL, operands, called=branch_computations
    )


def optimization_barrier(operand: Op) -> Op:
    """The operand, behind a line no optimisation crosses."""
    return operand.builder.instruction(Opcode.OPT_BARRIER, [operand])


def custom_call(
    operands: Sequence[Op],
    call_target_name: str,
    shape: Shape,
    opaque: bytes = b"",
    has_side_effect: bool = False,
    api_version: int = _API_VERSION_ORIGINAL,
    builder: Builder | None = None,
) -> Op:
    """A function the server knows by name; one it does not know is refused by that name."""
    attributes = CustomCallAttributes(call_target_name, shape, opaque, has_side_effect, api_version)
    return (builder or builder_of(*operands)).instruction(Opcode.CUSTOM_CALL, operands, attributes)
