"""Convolutions by products of im2col matrices: their kernels, and the memory they take."""

from tests.unit.codegen.lower.lowered import AVX2, kernels, sizes
from tests.unit.passes.passing import stated
from xla_server.codegen.lower.contraction.im2col_plan import Im2colPlan


def _given(labels: str, kernel: str) -> tuple[list[str], str]:
    window = f"window={{size=3x3 pad=1_1x1_1}}, dim_labels={labels}"
    root = f"f64[1,8,8,64] convolution(x0, x1), {window}, batch_group_count=2"
    return ["f64[2,8,8,64]", kernel], root


def test_each_work_item_has_a_matrix_of_its_own() -> None:
    given = _given("b01f_01io->b01f", "f64[3,3,64,64]")
    plan = Im2colPlan.of(AVX2, stated(*given).entry.root)
    (products,) = kernels(*given)
    tasks = -(-plan.rows // plan.block_rows) * plan.groups * plan.batches
    items = min(tasks, AVX2.tuning.convolutions.work_items)
    assert products.work_items == items
    _, matrix = sizes(products).values()
    assert matrix == (items * plan.block_rows * plan.block_depth,)


def test_weights_in_another_order_are_laid_out_first() -> None:
    packing, products = kernels(*_given("b01f_0o1i->b01f", "f64[3,64,3,64]"))
    assert list(sizes(packing).values()) == [(64, 3, 3, 64)]
    # The sums at the edges are done again from the weights as they are.
    assert {value.name for value in products.reads} == {"x0", "x1", packing.writes[0].name}


def test_a_matrix_that_the_input_is_already_is_not_copied() -> None:
    root = "f64[2,8,8,64] convolution(x0, x1), window={size=1x1}, dim_labels=b01f_01io->b01f"
    (products,) = kernels(["f64[2,8,8,64]", "f64[1,1,64,64]"], root)
    assert len(products.writes) == 1
