"""Thunks of loop nests: their buffers, effort and counts."""

import numpy as np
import pytest

from tests.processors import TARGET
from tests.unit.codegen.compiled import interpreted, on_cpu
from tests.unit.passes.passing import stated
from xla_contract.types.element_type import ElementType
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.lower.lowering import kernels_of, lower
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.fusion.loop_fusion import LoopFusion


def _thunk(parameters: list[str], root: str, *before: str) -> KernelThunk:
    """Return the last kernel of a program without fusions."""
    return kernels_of(lower(stated(parameters, root, *before), LOWERINGS, TARGET))[-1]


@pytest.mark.parametrize(
    ("parameters", "root", "pairs"),
    [
        (["f32[90]", "f32[90]"], "f32[90] add(x0, x1)", ["x0", "x1"]),
        (["f32[90]"], "f32[90] reverse(x0), dimensions={0}", []),
        (["f32[90]"], "s32[90] bitcast-convert(x0)", ["x0"]),
        (["f32[90]"], "f64[90] convert(x0)", []),
        (["f32[9]"], "f32[9,10] broadcast(x0), dimensions={0}", []),
    ],
)
def test_a_result_may_be_written_over_what_is_read_for_itself_alone(
    parameters: list[str], root: str, pairs: list[str]
) -> None:
    thunk = _thunk(parameters, root)
    (written,) = thunk.writes
    assert {read.name for _, read in thunk.in_place} == set(pairs)
    assert {to for to, _ in thunk.in_place} <= {written}


@pytest.mark.parametrize(
    ("size", "effort"),
    [(64, Effort.UNOPTIMISED), (2000, Effort.OPTIMISED)],
)
def test_a_short_kernel_of_one_element_is_not_worth_optimising(size: int, effort: Effort) -> None:
    thunk = _thunk([f"f32[{size}]"], "f32[] reduce(x0, z), dimensions={0}, to_apply=add")
    assert isinstance(thunk.kernel, Kernel)
    assert thunk.kernel.effort is effort


def test_formulas_that_are_copied_into_a_kernel_are_optimised() -> None:
    """An instruction is no formula, and what kernels call is none in the kernel."""
    for opcode, effort in (
        ("negate", Effort.UNOPTIMISED),
        ("tan", Effort.UNOPTIMISED),
        ("sign", Effort.OPTIMISED),
    ):
        thunk = _thunk(["f32[]"], f"f32[] {opcode}(x0)")
        assert isinstance(thunk.kernel, Kernel)
        assert thunk.kernel.effort is effort


@pytest.mark.parametrize("kind", ["bf16", "f16", "f8e4m3fn", "s4"])
@pytest.mark.parametrize(
    ("root", "is_moved"),
    [
        ("{}[6] select(x0, x1, x2)", True),
        ("{}[6] select(x0, x1, w)", True),
        ("{}[13] pad(x1, x3), padding=1_1_1", True),
        ("{}[6] select(x0, s, x2)", False),
        ("{}[6] add(x1, x2)", False),
    ],
)
def test_narrow_elements_that_are_only_chosen_stay_as_they_are_in_memory(
    kind: str, root: str, is_moved: bool
) -> None:
    before = ("k = {0}[] constant(3)", "w = {0}[6] broadcast(k), dimensions={{}}")
    lines = [line.format(kind) for line in (*before, "s = {0}[6] add(x1, x1)")]
    shapes = ["pred[6]", f"{kind}[6]", f"{kind}[6]", f"{kind}[]"]
    module = stated(shapes, root.format(kind), *lines)
    LoopFusion(TARGET).apply(module)
    kernel = kernels_of(lower(module, LOWERINGS, TARGET))[-1]
    inside = kernel.source.split("\n    for ")[-1]
    functions = ("_to_f32(", "f32_to_", "round_", "code_", "s4_to_i8(", "low_bits_")
    assert any(function in inside for function in functions) is not is_moved
    bits = {"bf16": np.uint16, "f16": np.uint16}.get(kind, np.uint8)
    dtype = ElementType.from_text(kind).dtype
    patterns = np.arange(6, dtype=bits) + (bits(0) if kind == "s4" else np.array(-3).astype(bits))
    x = patterns.view(dtype)
    arguments = [np.array([True, False] * 3), x, x[::-1].copy(), x[0]]
    for ours, expected in zip(
        on_cpu(module, arguments), interpreted(module, arguments), strict=True
    ):
        assert not is_moved or ours.tobytes() == expected.tobytes()


@pytest.mark.parametrize("kind", ["bf16", "f8e5m2", "f8e4m3fn", "s4", "u4"])
def test_a_computed_element_is_rounded_and_converted_at_once(kind: str) -> None:
    module = stated([f"{kind}[256]", f"{kind}[256]"], f"{kind}[256] maximum(x0, x1)")
    dtype = ElementType.from_text(kind).dtype
    codes = np.arange(256, dtype={2: np.uint16}.get(dtype.itemsize, np.uint8))
    codes *= 257 if dtype.itemsize == 2 else 1
    x = (codes & 15 if kind[1] == "4" else codes).view(dtype)
    (kernel,) = kernels_of(lower(module, LOWERINGS, TARGET))
    assert "round_" not in kernel.source.split("store_")[-1]
    (found,) = on_cpu(module, [x, x[::-1].copy()])
    (expected,) = interpreted(module, [x, x[::-1].copy()])
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("root", ["add(x0, x1)", "maximum(x0, x1)"])
def test_bits_above_a_narrow_integer_are_zero_in_memory(root: str) -> None:
    x = np.array([-8, 7, -1, 3], ElementType.S4.dtype)
    module = stated(["s4[4]", "s4[4]"], f"s4[4] {root}")
    (found,) = on_cpu(module, [x, x])
    (expected,) = interpreted(module, [x, x])
    assert found.tobytes() == expected.tobytes()
