"""Products as graphs. Their results are in tests/unit/codegen/lower/contraction/test_dot.py."""

import pytest

from tests.unit.codegen.trace.traced import expression, traced
from xla_contract.types.element_type import ElementType
from xla_server.codegen.trace.contraction import type_of_sums

MATRICES = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def test_a_product_is_a_sum_over_the_contracted_dimension() -> None:
    found = traced(["f32[4,6]", "f32[6,5]"], f"f32[4,5] dot(x0, x1), {MATRICES}")
    assert expression(found) == "[k<6: add(a, mul(x0[k+6*i0], x1[i1+5*k]))]"


def test_batches_are_indexed_in_both_and_narrow_sums_are_rounded_once() -> None:
    batch = "lhs_batch_dims={0}, rhs_batch_dims={0}"
    dims = f"{batch}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}"
    found = traced(["bf16[2,4,6]", "bf16[2,6,5]"], f"bf16[2,4,5] dot(x0, x1), {dims}")
    product = "mul(x0[k+6*i1+24*i0], x1[i2+5*k+30*i0])"
    assert expression(found) == f"round_bf16([k<6: add(a, {product})])"


def test_a_sum_of_one_product_is_the_product() -> None:
    found = traced(["f32[4,1]", "f32[1,5]"], f"f32[4,5] dot(x0, x1), {MATRICES}")
    assert expression(found) == "mul(x0[i0], x1[i1])"


@pytest.mark.parametrize(
    ("result", "expected"),
    [("BF16", "F32"), ("F32", "F32"), ("F64", "F64"), ("PRED", "S32"), ("S8", "S8"), ("C64",) * 2],
)
def test_the_type_of_sums(result: str, expected: str) -> None:
    assert type_of_sums(ElementType[result]) is ElementType[expected]
