"""Convolutions divided into products of matrices, on any number of cores."""

import dataclasses

import pytest

from tests.processors import MACHINES
from tests.unit.passes.passing import stated
from xla_server.codegen.lower.contraction.im2col_plan import Im2colPlan
from xla_server.target.machine import Machine
from xla_server.target.target import Target
from xla_server.target.tuning import tuning_of

LAST = "b01f_01io->b01f"
FIRST = "bf01_oi01->bf01"


def _plan(
    operands: list[str], result: str, attributes: str, machine: Machine = MACHINES["avx2"]
) -> Im2colPlan:
    module = stated(operands, f"{result} convolution(x0, x1), {attributes}")
    return Im2colPlan.of(Target.of(machine), module.entry.root)


def test_a_window_of_one_element_reads_the_input_where_it_is() -> None:
    operands, result = ["f32[2,8,8,16]", "f32[1,1,16,4]"], "f32[2,8,8,4]"
    plan = _plan(operands, result, f"window={{size=1x1}}, dim_labels={LAST}")
    assert plan.leading == 16
    assert (plan.rows, plan.depth, plan.columns, plan.batches) == (2 * 8 * 8, 16, 4, 1)
    assert plan.block_depth == plan.depth
    # With strides rows are no neighbours, so they are copied.
    strided = f"window={{size=1x1 stride=2x2}}, dim_labels={LAST}"
    assert _plan(operands, "f32[2,4,4,4]", strided).leading is None


def test_features_first_are_products_of_each_image() -> None:
    operands = ["f32[2,16,8,8]", "f32[4,16,3,3]"]
    window = "window={size=3x3 pad=1_1x1_1}"
    plan = _plan(operands, "f32[2,4,8,8]", f"{window}, dim_labels={FIRST}")
    assert not plan.is_nhwc
    assert (plan.rows, plan.depth, plan.columns, plan.batches) == (64, 144, 4, 2)
    assert plan.kernel_is_transposed
    assert plan.kernel_order == (0, 1, 2, 3)


def test_a_kernel_in_any_other_order_is_reordered() -> None:
    operands = ["f32[2,8,8,16]", "f32[3,4,3,16]"]
    window = "window={size=3x3 pad=1_1x1_1}"
    plan = _plan(operands, "f32[2,8,8,4]", f"{window}, dim_labels=b01f_0o1i->b01f")
    assert plan.kernel_order == (1, 0, 2, 3)


@pytest.mark.parametrize("groups", ["feature_group_count=4", "batch_group_count=2"])
def test_groups_are_products_of_their_own(groups: str) -> None:
    inputs, outputs, batch = (4, 8, 2) if groups[0] == "f" else (16, 8, 1)
    plan = _plan(
        ["f32[2,8,8,16]", f"f32[3,3,{inputs},{outputs}]"],
        f"f32[{batch},8,8,{outputs}]",
        f"window={{size=3x3 pad=1_1x1_1}}, dim_labels={LAST}, {groups}",
    )
    assert plan.groups == int(groups[-1])
    assert plan.columns == outputs // plan.groups
    assert plan.depth == 9 * inputs
    # The next group reads other features of the input, or other images.
    assert plan.group_step == (4 if groups[0] == "f" else 8 * 8 * 16)


@pytest.mark.parametrize("cores", [1, 2, 16, 128])
@pytest.mark.parametrize("name", MACHINES)
def test_blocks_are_for_every_core_and_stay_in_its_cache(name: str, cores: int) -> None:
    machine = dataclasses.replace(MACHINES[name], cores=cores)
    plan = _plan(
        ["f32[1,100,100,64]", "f32[3,3,64,32]"],
        "f32[1,100,100,32]",
        f"window={{size=3x3 pad=1_1x1_1}}, dim_labels={LAST}",
        machine,
    )
    blocks = -(-plan.rows // plan.block_rows)
    # Rows are cut into multiples of eight, and none shorter than 64.
    tuned = tuning_of(machine).convolutions
    wanted = min(tuned.min_im2col_blocks, plan.rows // 64)
    assert plan.block_rows % 8 == 0
    assert blocks >= wanted * 64 // 72
    assert plan.block_rows <= tuned.im2col_rows + 8
    assert plan.block_rows * plan.block_depth <= max(
        tuned.im2col_elements, tuned.min_im2col_depth * plan.block_rows
    )
