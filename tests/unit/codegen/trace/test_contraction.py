"""Types and windows of sums of products; test_dot.py and test_convolution.py have the graphs."""

import pytest

from tests.unit.passes.passing import stated
from xla_contract.types.element_type import ElementType
from xla_contract.types.shape import Shape
from xla_server.codegen.kernel_ir.unrolling import MAX_COPIES
from xla_server.codegen.trace.contraction import MAX_TESTED_COPIES, accumulated_type, is_filter


def _array(kind: str) -> Shape:
    return Shape.array(ElementType[kind], (2,))


@pytest.mark.parametrize(
    ("operands", "result", "expected"),
    [
        (("BF16", "BF16"), "BF16", "F32"),
        (("F32", "F64"), "F32", "F64"),
        (("F32", "F32"), "F64", "F64"),
        (("F32", "C64"), "C64", "C64"),
        (("F64", "C64"), "C64", "C128"),
        (("S8", "S8"), "S32", "S32"),
        (("S8", "F32"), "S8", "F32"),
        (("PRED", "PRED"), "PRED", "S32"),
    ],
)
def test_products_are_added_in_the_widest_of_their_types(
    operands: tuple[str, str], result: str, expected: str
) -> None:
    left, right = map(_array, operands)
    for pair in ((left, right), (right, left)):
        assert accumulated_type(pair, _array(result)) is ElementType[expected]


@pytest.mark.parametrize(
    ("size", "features", "pad", "expected"),
    [
        (MAX_COPIES, 1, 0, True),
        (MAX_COPIES + 1, 1, 0, False),
        (MAX_TESTED_COPIES, 1, 1, True),
        (MAX_TESTED_COPIES + 1, 1, 1, False),
        (3, 2, 0, False),
    ],
)
def test_short_windows_over_one_feature_are_filters(
    size: int, features: int, pad: int, expected: bool
) -> None:
    results = 200 - size + 1 + 2 * pad
    convolution = (
        f"f32[1,{results},1] convolution(x0, x1), window={{size={size} pad={pad}_{pad}}}, "
        "dim_labels=b0f_0io->b0f"
    )
    module = stated([f"f32[1,200,{features}]", f"f32[{size},{features},1]"], convolution)
    assert is_filter(module.entry.root) is expected
