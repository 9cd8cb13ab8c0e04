import ml_dtypes
import numpy as np
import pytest

from tests.corpus.hlo_programs import program
from tests.corpus.hlo_text import parse_hlo
from xla_contract.errors import ShapeError
from xla_contract.ops.contraction.dot import DotAttributes, infer_dot
from xla_contract.types.dimension_numbers import DotDimensionNumbers
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.importer import import_module


def infer(lhs: str, rhs: str, *numbers: tuple[int, ...], preferred: str = "") -> str:
    wanted = ElementType.from_text(preferred) if preferred else None
    attributes = DotAttributes(DotDimensionNumbers(*numbers), wanted)
    return str(infer_dot([Shape.parse(lhs), Shape.parse(rhs)], attributes))


def test_the_result_is_batch_then_lhs_then_rhs() -> None:
    assert infer("f32[7,2,3]", "f32[3,5,7]", (2,), (0,), (0,), (2,)) == "f32[7,2,5]"
    assert infer("f32[<=4,3]", "f32[3,5]", (1,), (0,)) == "f32[<=4,5]"


def test_the_element_type_is_the_wider_or_the_preferred() -> None:
    assert infer("bf16[2]", "f32[2]", (0,), (0,)) == "f32[]"
    assert infer("s8[2]", "s8[2]", (0,), (0,), preferred="s32") == "s32[]"


@pytest.mark.parametrize(
    ("lhs", "rhs", "numbers", "message"),
    [
        (
            "f32[2,3]",
            "f32[4,5]",
            ((1,), (0,)),
            r"contracting dimensions must have equal size, got lhs dim 1 = 3 of f32\[2,3\] and "
            r"rhs dim 0 = 4 of f32\[4,5\]",
        ),
        ("f32[2,3]", "f32[3,2]", ((), (), (0,), (0,)), r"batch dimensions must have equal size"),
        ("f32[2]", "f32[2]", ((0,), ()), r"as many contracting dimensions, got 1 .* and 0"),
        ("f32[2]", "f32[2]", ((1,), (0,)), r"in range \[0, 1\), got \{1\} for f32\[2\]"),
        ("f32[2,2]", "f32[2,2]", ((0,), (0,), (0,), (1,)), r"distinct .* got \{0,0\}"),
        ("f32[2]", "s32[2]", ((0,), (0,)), r"one element type, got lhs f32\[2\] and rhs s32"),
    ],
)
def test_broken_rules_name_both_sides(
    lhs: str, rhs: str, numbers: tuple[tuple[int, ...], ...], message: str
) -> None:
    with pytest.raises(ShapeError, match=message):
        infer(lhs, rhs, *numbers)


def test_a_narrower_integer_cannot_be_preferred() -> None:
    with pytest.raises(ShapeError, match=r"not be narrower than the operands, got s8 for lhs s32"):
        infer("s32[2]", "s32[2]", (0,), (0,), preferred="s8")


def test_large_integers_wrap_exactly() -> None:
    text = program(
        ["s32[1,2]", "s32[2,1]"],
        "s32[1,1] dot(x0, x1), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    )
    lhs = np.array([[2**31 - 1, 3]], np.int32)
    rhs = np.array([[2**31 - 1], [5]], np.int32)
    assert evaluate(import_module(parse_hlo(text)), [lhs, rhs]) == [[16]]


def test_bf16_is_rounded_once() -> None:
    text = program(
        ["bf16[300]", "bf16[300]"],
        "bf16[] dot(x0, x1), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    )
    ones = np.ones(300, ml_dtypes.bfloat16)
    # Added up in bf16 the sum would stop at 256.
    assert float(evaluate(import_module(parse_hlo(text)), [ones, ones])) == 300  # type: ignore[arg-type]
