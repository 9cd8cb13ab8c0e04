"""map: a computation on scalars applied to arrays element by element. Semantics: XLA's Map."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import Repeated, Special
from xla_contract.ops.rules import any_dynamic
from xla_contract.ops.signature import check_takes, exactly, listed, require_array
from xla_contract.types.shape import ProgramShape, Shape


@dataclasses.dataclass(frozen=True, slots=True)
class MapAttributes:
    """The mapped dimensions, which must be all of them in order.

    A message maps all of them, whichever it names, as in XLA.
    """

    dimensions: Annotated[
        tuple[int, ...],
        Special(lambda _, shape: tuple(range(shape.rank)), Repeated("dimensions").write),
    ] = ()


def infer_map(
    operands: Sequence[Shape], attributes: MapAttributes, called: Sequence[ProgramShape]
) -> Shape:
    """The operands' dimensions with the computation's result type."""
    if not operands:
        raise ShapeError("at least one operand must be mapped, got none")
    first = operands[0]
    for shape in operands:
        if require_array(shape, "an operand").dimensions != first.dimensions:
            raise ShapeError(f"operands must have equal dimensions, got {listed(operands)}")
    if attributes.dimensions != tuple(range(first.rank)):
        raise ShapeError(
            "the mapped dimensions must be all in order, got "
            f"{{{','.join(map(str, attributes.dimensions))}}} for {first}"
        )
    (computation,) = exactly(called, ("the computation",))
    check_takes("computation", computation, [Shape.scalar(s.element_type) for s in operands])
    if not computation.result.is_scalar:
        raise ShapeError(f"the computation must give a scalar, got {computation}")
    return Shape.array(
        computation.result.element_type, first.dimensions, None, any_dynamic(operands)
    )
