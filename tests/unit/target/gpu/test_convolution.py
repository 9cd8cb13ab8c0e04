"""Convolutions of libraries: what they may be, and where their elements lie."""

import dataclasses
from typing import Any

import pytest

from tests.cuda.checks.convolution_checks import SQUARE, convolution_plans
from xla_contract.types.element_type import ElementType as E
from xla_server.codegen.gpu.plans.convolution_plans import ConvolutionPlan
from xla_server.target.gpu.convolution import Direction
from xla_server.target.gpu.gpu_capability import GpuCapability

BY_LIBRARY = GpuCapability(has_convolutions=True, min_products=1)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"element": E.S32}, "must be f16, bf16, f32 or f64, got s32"),
        ({"element": E.F64, "rounds_operands": True}, "operands to round must be f32, got f64"),
        ({"image": (12,)}, "2 or 3 spatial dimensions, got 1"),
        ({"groups": 3}, r"must divide features, got 3 groups of \(16, 24\)"),
        ({"groups": 0}, "must divide features, got 0 groups"),
        ({"batch": 0}, r"x must have 1 to 2147483647 elements, got \[0, 16, 12, 9\]"),
        ({"batch": 1 << 24}, "x must have 1 to 2147483647 elements"),
        ({"outputs": 1 << 28}, "w must have 1 to 2147483647 elements"),
        ({"strides": (0, 1)}, r"must be positive, got \(0, 1\), \(1, 1\)"),
        ({"dilations": (1, 0)}, "strides and dilations must be positive"),
        ({"low": (-1, 0)}, r"padding must not cut off, got \(-1, 0\), \(0, 0\)"),
        ({"high": (0, 1)}, r"y must have \(10, 8\), got \(10, 7\)"),
    ],
)
def test_what_no_library_has_is_said(fields: dict[str, Any], problem: str) -> None:
    form = dataclasses.replace(SQUARE, **fields)
    assert not BY_LIBRARY.convolves(form)
    with pytest.raises(ValueError, match=problem):
        raise ValueError(form.problem or "")


def test_every_plan_is_a_librarys_and_has_a_key_of_its_own() -> None:
    plans = list(convolution_plans())
    assert all(plan.problem is None for plan in plans)
    assert len({plan.key for plan in plans}) == len(plans)


def test_a_library_computes_what_it_is_there_for() -> None:
    assert BY_LIBRARY.convolves(SQUARE)
    others = (
        GpuCapability(),
        GpuCapability(has_convolutions=True),
        dataclasses.replace(BY_LIBRARY, refused=frozenset({SQUARE})),
    )
    assert not any(capability.convolves(SQUARE) for capability in others)
    depthwise = dataclasses.replace(SQUARE, inputs=8, outputs=8, groups=8)
    assert depthwise.problem is None
    assert not BY_LIBRARY.convolves(depthwise)


def test_elements_are_contiguous_with_channels_last_or_first() -> None:
    sizes = 4, 16, 12, 9
    assert SQUARE.distances(sizes) == (16 * 12 * 9, 1, 9 * 16, 16)
    first = dataclasses.replace(SQUARE, is_channels_last=False)
    assert first.distances(sizes) == (16 * 12 * 9, 12 * 9, 9, 1)


def test_plans_say_what_they_do_and_how_else_it_is_done() -> None:
    grouped = dataclasses.replace(SQUARE, groups=4, direction=Direction.DATA_GRADIENT)
    plan = ConvolutionPlan(dataclasses.replace(grouped, rounds_operands=True))
    assert plan.text == (
        "convolution data gradient of f32, x * w -> y of [4, 16, 12, 9] * [24, 4, 3, 3] * "
        "[4, 24, 10, 7], strides (1, 1), dilations (1, 1), pad (0, 0) (0, 0), 4 groups, channels "
        "last, in TF32; im2col or a loop nest where the library has none"
    )
    assert plan.operations == 2 * 4 * 24 * 70 * 4 * 9
    large = ConvolutionPlan(dataclasses.replace(SQUARE, batch=1 << 16))
    assert (plan.workspace_bytes, large.workspace_bytes) == (
        (1 << 20) + 2 * grouped.bytes,
        256 << 20,
    )
