"""Checks of the computations that an operation calls.

Semantics: XLA compares the signature of a called computation with the arguments; where the
computation combines scalars, floating types of different precision are compatible.
"""

from collections.abc import Sequence

from xla_contract.errors import ShapeError
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import ProgramShape, Shape


def listed(shapes: Sequence[Shape]) -> str:
    """Shapes for a message: `(f32[2], s32[])`."""
    return f"({', '.join(map(str, shapes))})"


def exactly(called: Sequence[ProgramShape], roles: Sequence[str]) -> tuple[ProgramShape, ...]:
    """The called computations; ShapeError unless there is one for each role."""
    if len(called) != len(roles):
        raise ShapeError(
            f"the called computations must be {' and '.join(roles)}, got {len(called)} of them"
        )
    return tuple(called)


def same_type(first: ElementType, second: ElementType) -> bool:
    """Return whether the types agree, floating types of any precision counting as one."""
    return first is second or (first.is_floating and second.is_floating)


def check_takes(role: str, signature: ProgramShape, arguments: Sequence[Shape]) -> None:
    """Raise ShapeError unless the computation's parameters are compatible with the arguments."""
    given = signature.parameters
    if len(given) != len(arguments) or not all(
        mine.compatible(theirs) for mine, theirs in zip(given, arguments, strict=True)
    ):
        raise ShapeError(f"the {role} must take parameters {listed(arguments)}, got {signature}")


def check_predicate(role: str, signature: ProgramShape) -> None:
    """Raise ShapeError unless the computation's result is pred[]."""
    if not (signature.result.is_scalar and signature.result.element_type is ElementType.PRED):
        raise ShapeError(f"the {role} must give pred[], got {signature}")


def check_reducer(
    role: str,
    signature: ProgramShape,
    initial: Sequence[Shape],
    elements: Sequence[ElementType],
) -> tuple[ElementType, ...]:
    """Return the accumulators' element types of a reducer `(acc..., value...) -> acc...`.

    Args:
        role: Name of the computation for messages.
        signature: Signature of the computation.
        initial: Operands that start each accumulation.
        elements: Element types that are combined.

    Raises:
        ShapeError: A parameter or result is not scalar, or a type does not fit.
    """
    count = len(elements)
    result = signature.result
    accumulators = result.parts
    if (
        len(signature.parameters) != 2 * count
        or len(accumulators) != count
        or result.is_tuple is (count == 1)
    ):
        raise ShapeError(
            f"the {role} must take {2 * count} scalars and give {count}, got {signature}"
        )
    for shape in (*signature.parameters, *accumulators):
        if not shape.is_scalar:
            raise ShapeError(f"the {role} must work on scalars, got {signature}")
    for number, (start, element) in enumerate(zip(initial, elements, strict=True)):
        accumulator = accumulators[number].element_type
        if not start.is_scalar or not same_type(start.element_type, accumulator):
            raise ShapeError(
                f"initial value {number} must be a scalar of the {role}'s result type, got "
                f"{start} and {signature}"
            )
        if signature.parameters[number].element_type is not accumulator:
            raise ShapeError(
                f"parameter {number} of the {role} must have the type of its result {number}, "
                f"got {signature.parameters[number]} and {accumulators[number]} in {signature}"
            )
        value = signature.parameters[count + number].element_type
        if not (same_type(element, accumulator) and same_type(value, accumulator)):
            raise ShapeError(
                f"the {role} must take and give the element type of operand {number}, got "
                f"{element.text} and {signature}"
            )
    return tuple(shape.element_type for shape in accumulators)


def check_sorted(what: str, numbers: Sequence[int], of: Shape) -> None:
    """Raise ShapeError unless the dimension numbers ascend."""
    if list(numbers) != sorted(numbers):
        raise ShapeError(f"{what} must be sorted, got {{{','.join(map(str, numbers))}}} for {of}")


def check_distinct(what: str, numbers: Sequence[int], rank: int, of: Shape) -> None:
    """Raise ShapeError unless the numbers are distinct dimensions of a shape of this rank."""
    if len(set(numbers)) != len(numbers) or any(not 0 <= n < rank for n in numbers):
        raise ShapeError(
            f"{what} must be distinct and in range [0, {rank}), got "
            f"{{{','.join(map(str, numbers))}}} for {of}"
        )


def one_or_tuple(shapes: Sequence[Shape]) -> Shape:
    """The only shape, or the tuple of all: how variadic operations give their results."""
    return shapes[0] if len(shapes) == 1 else Shape.tuple_of(shapes)


def require_array(shape: Shape, what: str) -> Shape:
    """The shape; ShapeError when it is no array."""
    if not shape.is_array:
        raise ShapeError(f"{what} must be an array, got {shape}")
    return shape
