"""Convolutions by products of im2col matrices: their kernels, and the memory they take."""

import numpy as np
import pytest

from tests.unit.codegen.compiled import interpreted, on_cpu
from tests.unit.codegen.lower.lowered import AVX2, kernels, sizes
from tests.unit.passes.passing import stated
from xla_server.backends.compiled.compilation import compile_module
from xla_server.codegen.lower.contraction.im2col_plan import Plan
from xla_server.codegen.lower.lowering import kernels_of


def _given(labels: str, kernel: str) -> tuple[list[str], str]:
    window = f"window={{size=3x3 pad=1_1x1_1}}, dim_labels={labels}"
    root = f"f64[1,8,8,64] convolution(x0, x1), {window}, batch_group_count=2"
    return ["f64[2,8,8,64]", kernel], root


def test_each_work_item_has_a_matrix_of_its_own() -> None:
    given = _given("b01f_01io->b01f", "f64[3,3,64,64]")
    plan = Plan.of(AVX2, stated(*given).entry.root)
    (products,) = kernels(*given)
    tasks = -(-plan.rows // plan.block_rows) * plan.groups
    items = min(tasks, AVX2.tuning.convolutions.work_items)
    assert products.work_items == items
    _, matrix = sizes(products).values()
    assert matrix == (items * plan.block_rows * plan.block_depth,)


def test_weights_in_another_order_are_laid_out_first() -> None:
    packing, products = kernels(*_given("b01f_0o1i->b01f", "f64[3,64,3,64]"))
    assert list(sizes(packing).values()) == [(3, 3, 64, 64)]
    assert {value.name for value in products.reads} == {"x0", packing.writes[0].name}


@pytest.mark.parametrize("labels", ["b01f_01io->bf01", "b01f_01io->b01f"])
def test_an_epilogue_of_a_result_in_another_order_has_a_kernel_of_its_own(labels: str) -> None:
    shapes, root = _given(labels, "f64[3,3,64,64]")
    result = "f64[1,64,8,8]" if labels.endswith("bf01") else "f64[1,8,8,64]"
    root = root.replace("f64[1,8,8,64]", result)
    module = stated(shapes, f"{result} exponential(c)", f"c = {root}")
    names = [row.name for row in kernels_of(compile_module(module, target=AVX2).code)]
    assert any("epilogue" in name for name in names) == labels.endswith("bf01")
    arrays = [
        np.random.default_rng(3).standard_normal(s.dimensions) / 50
        for s in module.entry_program_shape.parameters
    ]
    (found,), (expected,) = on_cpu(module, arrays), interpreted(module, arrays)
    np.testing.assert_allclose(found, expected, 1e-12)
