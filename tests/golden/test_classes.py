"""Golden programs hold every class of kernels that the compiler can emit."""

import ast
from collections.abc import Mapping

from tests.golden import classes
from tests.golden.kernels import PROGRAMS

IN_ROUTINES: Mapping[str, str] = {
    "routine depthwise_tile_partial": "direct_block",
    "routine filter_tile_partial": "direct_block",
    "routine gemm_across": "gemm_band",
    "routine gemm_along": "gemm_band",
    "routine gemm_packing_tile": "gemm_band",
    "routine gemm_tile": "gemm_band",
    "routine product_tile": "direct_block",
    "routine product_tile_partial": "direct_block",
    "routine winograd_input": "winograd_block",
    "routine winograd_result": "winograd_block",
}
"""Families that kernels call by another routine alone, and that routine."""


def test_every_class_is_in_a_golden_program() -> None:
    """Where a kernel can be emitted that no golden program has, add one to `tests/golden`."""
    held = {each for name in PROGRAMS for each in classes.held(name)}
    assert set(classes.emitted()) - held == IN_ROUTINES.keys()
    assert {f"routine {name}" for name in IN_ROUTINES.values()} <= held


def test_a_program_holds_no_class_of_another_one() -> None:
    held = set(classes.held("gather"))
    expected = {"thunk KernelThunk", "schedule rows", "routine copy_bytes"}
    assert {each for each in held if each[:5] != "maker"} == expected
    assert "maker lower/loop_nests/loop_kernel.py loop_kernel" in held
    assert "maker lower/indexing/sort.py _Sort.add" not in held


def test_functions_that_make_kernels_are_found_in_source() -> None:
    text = """
def direct():
    return Kernel((), (), ())
class Builder:
    def nested(self):
        def build(): return ScatterKernel()
        return looking(build)
    def by_value(self):
        thunk = kernel_thunk
def annotated(kernel: Kernel) -> LoopKernel:
    return LoopKernel(kernel)
"""
    found = list(classes._makers(ast.parse(text)))
    assert found == ["direct", "Builder.nested", "Builder.by_value"]
