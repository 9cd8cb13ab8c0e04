"""Convolutions with weights that are not finite: padding and holes take no part in sums."""

import itertools
import re
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

from tests.conformance.sweep.draws.depth import paired
from tests.unit.codegen.compiled import interpreted, pairs
from tests.unit.passes.passing import imported
from xla_server.codegen.lower.contraction.exact_sums import is_exact
from xla_server.ir.module import HloModule

DTYPES: dict[str, Any] = {
    "f32": np.float32,
    "f64": np.float64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "c64": np.complex64,
}


class Case(NamedTuple):
    """The text of a convolution's operands and attributes."""

    base: str
    kernel: str
    window: str
    labels: str = "b01f_01io->b01f"
    groups: str = ""


CASES = {
    "a loop": Case("[1,5,5,2]", "[3,3,2,3]", "size=3x3 pad=1_1x1_1"),
    "Winograd": Case("[2,20,18,16]", "[3,3,16,32]", "size=3x3 pad=1_1x1_1"),
    "tiles": Case("[2,16,16,8]", "[5,3,8,16]", "size=5x3 pad=2_2x1_1"),
    "features first": Case("[2,8,16,16]", "[16,8,3,3]", "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01"),
    "batch inside": Case("[8,9,9,4]", "[3,3,8,16]", "size=3x3 pad=1_1x1_1", "f01b_01io->01bf"),
    "batch last": Case("[8,9,9,4]", "[3,3,8,16]", "size=3x3 pad=1_1x1_1", "f01b_01io->f01b"),
    "strides": Case("[2,17,17,8]", "[3,3,8,16]", "size=3x3 stride=2x2 pad=1_2x0_1"),
    "holes": Case("[2,9,9,8]", "[3,3,8,16]", "size=3x3 pad=2_2x2_2 lhs_dilate=2x2"),
    "few features": Case("[2,9,9,8]", "[3,3,8,3]", "size=3x3 pad=2_2x2_2 lhs_dilate=2x2"),
    "dilated window": Case("[2,16,16,8]", "[3,3,8,16]", "size=3x3 pad=2_2x2_2 rhs_dilate=2x2"),
    "both": Case("[2,9,9,8]", "[3,3,8,16]", "size=3x3 pad=2_2x2_2 lhs_dilate=2x2 rhs_dilate=2x2"),
    "strided holes": Case(
        "[2,9,9,8]", "[3,3,8,16]", "size=3x3 stride=2x1 pad=2_2x2_2 lhs_dilate=3x2"
    ),
    "reversed": Case("[2,16,16,8]", "[3,3,8,16]", "size=3x3 pad=1_1x1_1 rhs_reversal=1x1"),
    "groups": Case(
        "[2,16,16,16]",
        "[3,3,4,32]",
        "size=3x3 pad=1_1x1_1",
        "b01f_01io->b01f",
        "feature_group_count=4",
    ),
    "depthwise": Case(
        "[2,16,16,16]",
        "[3,3,1,16]",
        "size=3x3 pad=1_1x1_1",
        "b01f_01io->b01f",
        "feature_group_count=16",
    ),
    "batch groups": Case(
        "[8,16,16,4]",
        "[3,3,4,16]",
        "size=3x3 pad=1_1x1_1",
        "b01f_01io->b01f",
        "batch_group_count=4",
    ),
    "a line": Case("[3,500,8]", "[9,8,16]", "size=9 pad=4_4", "b0f_0io->b0f"),
    "a line with holes": Case(
        "[3,301,8]", "[9,8,16]", "size=9 pad=7_8 lhs_dilate=2", "b0f_0io->b0f"
    ),
    "three dimensions": Case(
        "[2,6,6,6,4]", "[3,3,3,4,16]", "size=3x3x3 pad=1_1x1_1x1_1", "b012f_012io->b012f"
    ),
    "four dimensions": Case(
        "[2,4,4,4,4,8]",
        "[2,2,2,3,8,16]",
        "size=2x2x2x3 pad=1_0x0_1x1_0x1_1",
        "b0123f_0123io->b0123f",
    ),
    "cut off": Case("[2,16,16,8]", "[3,3,8,16]", "size=3x3 pad=-1_1x1_-2"),
    "wide rows": Case("[2,12,12,8]", "[3,3,8,160]", "size=3x3 pad=1_1x1_1"),
    "products": Case("[2,9,9,8]", "[1,1,8,16]", "size=1x1 pad=1_1x2_2"),
}


def _sizes(text: str) -> list[int]:
    return [int(number) for number in text.strip("[]").split(",")]


def _module(name: str, kind: str, *, with_epilogue: bool = False) -> HloModule:
    base, kernel, window, labels, groups = CASES[name]
    found = re.match(r"(.*)_(.*)->(.*)", labels)
    assert found
    rank = len(found[1]) - 2
    parts = dict(part.split("=") for part in window.split())
    default = {"stride": "1", "pad": "0_0", "lhs_dilate": "1", "rhs_dilate": "1"}
    given = {
        key: (parts.get(key) or "x".join([one] * rank)).split("x") for key, one in default.items()
    }
    result = {"f": _sizes(kernel)[found[2].index("o")], "b": _sizes(base)[found[1].index("b")]}
    if "batch_group" in groups:
        result["b"] //= int(groups.split("=")[1])
    for d in range(rank):
        low, high = map(int, given["pad"][d].split("_"))
        reach = (int(parts["size"].split("x")[d]) - 1) * int(given["rhs_dilate"][d]) + 1
        size = (_sizes(base)[found[1].index(str(d))] - 1) * int(given["lhs_dilate"][d]) + 1
        result[str(d)] = (size + low + high - reach) // int(given["stride"][d]) + 1
    shape = f"{kind}[{','.join(str(result[label]) for label in found[3])}]"
    convolution = (
        f"{shape} convolution(x, w), window={{{window}}}, dim_labels={labels}"
        f"{', ' + groups if groups else ''}"
    )
    lines = [f"x = {kind}{base} parameter(0)", f"w = {kind}{kernel} parameter(1)"]
    if with_epilogue:
        lines += [f"c = {convolution}", f"ROOT r = {shape} negate(c)"]
    else:
        lines.append(f"ROOT r = {convolution}")
    return imported("HloModule m\nENTRY e { " + "\n ".join(lines) + " }")


def _operands(module: HloModule, kind: str, seed: int) -> list[Any]:
    random = np.random.default_rng(seed)
    x, w = (
        random.standard_normal(part.shape.dimensions).astype(DTYPES[kind])
        for part in module.entry.parameters
    )
    some = random.integers(0, w.size, max(1, w.size // 40))
    w.reshape(-1)[some] = random.choice([np.inf, -np.inf, np.nan], some.size, p=[0.5, 0.4, 0.1])
    return [x, w]


def _assert_alike(ours: Any, expected: Any, kind: str) -> None:
    wide = np.complex128 if kind == "c64" else np.float64
    ours, expected = ours.astype(wide), expected.astype(wide)
    tolerance = {"f64": 1e-12, "f16": 2e-2, "bf16": 1e-1}.get(kind, 1e-4)
    if kind == "c64":
        np.testing.assert_array_equal(np.isnan(ours), np.isnan(expected))
        fine = np.isfinite(expected)
        np.testing.assert_allclose(ours[fine], expected[fine], rtol=tolerance, atol=10 * tolerance)
    else:
        np.testing.assert_allclose(ours, expected, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize(("name", "kind"), paired(CASES, DTYPES, 3))
def test_both_platforms_leave_padding_and_holes_out(name: str, kind: str) -> None:
    module = _module(name, kind)
    arguments = _operands(module, kind, 3)
    with np.errstate(all="ignore"):
        ((ours, expected),) = pairs(module, arguments)
    _assert_alike(ours, expected, kind)


@pytest.mark.parametrize("name", CASES)
def test_what_follows_a_convolution_sees_the_sums_without_padding(name: str) -> None:
    module = _module(name, "f32", with_epilogue=True)
    arguments = _operands(module, "f32", 4)
    with np.errstate(all="ignore"):
        ((ours, expected),) = pairs(module, arguments)
    _assert_alike(ours, expected, "f32")


def test_the_interpreter_sums_elements_that_a_window_meets() -> None:
    """The definition of a convolution, element by element."""
    module = _module("few features", "f64")
    x, w = _operands(module, "f64", 5)
    (result,) = interpreted(module, [x, w])
    for y0, y1 in itertools.product(range(result.shape[1]), range(result.shape[2])):
        total = np.zeros((2, 3))
        for t0, t1 in itertools.product(range(3), range(3)):
            p0, p1 = y0 + t0 - 2, y1 + t1 - 2
            if p0 % 2 == 0 and p1 % 2 == 0 and 0 <= p0 < 17 and 0 <= p1 < 17:
                with np.errstate(all="ignore"):
                    total += x[:, p0 // 2, p1 // 2] @ w[t0, t1]
        np.testing.assert_allclose(result[:, y0, y1], total, rtol=1e-12, atol=1e-12)


def test_a_convolution_without_padding_has_nothing_to_sum_again() -> None:
    text = (
        "HloModule m\nENTRY e {{ x = f32[2,16,16,8] parameter(0)\n w = f32[3,3,8,16] parameter(1)\n"
        " ROOT r = f32[2,{0},{0},16] convolution(x, w), window={{size=3x3 pad={1}x{1}}}, "
        "dim_labels=b01f_01io->b01f }}"
    )
    assert is_exact(imported(text.format(14, "0_0")).entry.root)
    assert is_exact(imported(text.format(12, "-1_-1")).entry.root)
    assert not is_exact(imported(text.format(15, "1_0")).entry.root)
    assert not is_exact(imported(text.format(15, "0_1")).entry.root)
