"""Attributes that dot and convolution share: requested precision and element type of the result."""

from typing import Annotated

from xla_contract.errors import ShapeError
from xla_contract.ops.attribute_fields import ELEMENT_TYPE, Special
from xla_contract.ops.signature import same_type
from xla_contract.stubs import hlo_pb2, xla_data_pb2
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape


def product_type(lhs: Shape, rhs: Shape, preferred: ElementType | None) -> ElementType:
    """Return the element type of sums of products of these operands.

    Without a preferred type the operands must agree, floating types of different precision taking
    the wider one. A preferred type may be any but a narrower integer, as in XLA.

    Raises:
        ShapeError: The element types differ, or the preferred type cannot hold the products.
    """
    left, right = lhs.element_type, rhs.element_type
    wider = left if left.bit_width >= right.bit_width else right
    if preferred is None or preferred is wider:
        if not same_type(left, right) and preferred is None:
            raise ShapeError(f"operands must have one element type, got lhs {lhs} and rhs {rhs}")
        return wider
    if wider.is_integer and preferred.is_integer and preferred.bit_width < wider.bit_width:
        raise ShapeError(
            "the preferred element type must not be narrower than the operands, got "
            f"{preferred.text} for lhs {lhs} and rhs {rhs}"
        )
    if (left.is_complex or right.is_complex) and not preferred.is_complex:
        raise ShapeError(
            f"a product of complex operands must be complex, got {preferred.text} for lhs {lhs} "
            f"and rhs {rhs}"
        )
    return preferred


def _write_precision(precision: tuple[int, ...], proto: hlo_pb2.HloInstructionProto) -> None:
    if precision:
        proto.precision_config.operand_precision.extend(precision)  # type: ignore[arg-type]


def _write_algorithm(algorithm: int, proto: hlo_pb2.HloInstructionProto) -> None:
    if algorithm:
        proto.precision_config.algorithm = algorithm  # type: ignore[assignment]


OperandPrecision = Annotated[
    tuple[int, ...],
    Special(
        lambda proto, _: tuple(map(int, proto.precision_config.operand_precision)),
        _write_precision,
    ),
]
"""The operand precisions, () if none are stated."""

Algorithm = Annotated[
    int, Special(lambda proto, _: int(proto.precision_config.algorithm), _write_algorithm)
]
"""The algorithm, 0 if none is stated."""

PreferredType = Annotated[ElementType | None, ELEMENT_TYPE]
"""The element type of the result; read from a message it is always set."""


def allows_tf32(precision: tuple[int, ...], algorithm: int) -> bool:
    """Return whether a GPU may round operands of f32 to TF32, as XLA's GPU backend does."""
    config = xla_data_pb2.PrecisionConfig
    if algorithm != config.ALG_UNSET:
        return algorithm == config.ALG_DOT_TF32_TF32_F32
    return max(precision, default=config.DEFAULT) < config.HIGHEST
