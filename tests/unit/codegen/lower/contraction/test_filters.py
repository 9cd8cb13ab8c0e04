"""Convolutions of one feature, whose windows are unrolled in loops over the results."""

from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

from tests.conformance.oracle import assert_equal_bits
from tests.processors import TARGET
from tests.unit.codegen.compiled import imported, interpreted, on_cpu
from tests.unit.codegen.lower.contraction.test_convolution import agrees, normal
from xla_server.buffers.code import KernelThunk
from xla_server.codegen.lower.lowering import lower
from xla_server.codegen.lower.lowerings import LOWERINGS


@pytest.mark.parametrize(
    ("taps", "features", "padding", "is_direct"),
    [
        (16, 1, "SAME", False),
        (17, 1, "SAME", True),
        (64, 1, "VALID", False),
        (65, 1, "VALID", True),
        (8, 2, "SAME", True),
    ],
)
def test_one_feature_of_few_taps_is_a_loop(
    taps: int, features: int, padding: str, is_direct: bool
) -> None:
    x, w = normal(4, 5000, 1, dtype="f4"), normal(taps, 1, features, dtype="f4")

    def convolve(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x, w, (1,), padding, dimension_numbers=("NWC", "WIO", "NWC")
        )

    computation: Any = jax.jit(convolve).lower(x, w).compiler_ir("hlo")
    rows = lower(imported(computation.as_serialized_hlo_module_proto()), LOWERINGS, TARGET).thunks
    sources = [row.source for row in rows if isinstance(row, KernelThunk)]
    assert any("direct_block" in source for source in sources) == is_direct
    # The loop between the edges of the padding has no tests.
    tests = ("bit_and", "lt(", "select(")
    loops = [loop for source in sources for loop in source.split(" for ") if "= mul(v" in loop]
    assert is_direct or any(not any(test in loop for test in tests) for loop in loops)
    agrees(convolve, x, w)


@pytest.mark.parametrize(
    "attributes",
    [
        {"padding": [(2, 1), (1, 3)]},
        {"padding": [(1, 1), (0, 2)], "lhs_dilation": (2, 1)},
        {"padding": [(0, 0), (0, 0)], "rhs_dilation": (2, 3), "window_strides": (2, 1)},
    ],
    ids=["padding", "holes", "neither"],
)
def test_unrolled_windows_are_exact(attributes: dict[str, Any]) -> None:
    """Padding and holes take no part: the infinite element would make NaN of their zeros."""
    random = np.random.default_rng(0)
    x = random.integers(-9, 9, (2, 40, 50)).astype("f8")
    w = random.integers(-9, 9, (3, 4)).astype("f8")
    w[0, 1] = np.inf

    def convolve(x: Any, w: Any) -> Any:
        rest = {"window_strides": (1, 1), **attributes}
        return lax.conv_general_dilated(x[:, None], w[None, None], **rest)

    with jax.enable_x64(True):
        computation: Any = jax.jit(convolve).lower(x, w).compiler_ir("hlo")
    module = imported(computation.as_serialized_hlo_module_proto())
    for ours, expected in zip(on_cpu(module, [x, w]), interpreted(module, [x, w]), strict=True):
        assert_equal_bits(ours, expected)
