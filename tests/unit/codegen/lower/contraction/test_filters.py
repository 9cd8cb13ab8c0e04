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
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.lower.lowering import kernels_of, lower
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
    code = lower(imported(computation.as_serialized_hlo_module_proto()), LOWERINGS, TARGET)
    kernels = kernels_of(code)
    assert any("direct_block" in kernel.source for kernel in kernels) == is_direct
    if not is_direct:
        # Most work items are those between the edges of the padding, which have no tests.
        (kernel,) = (each.kernel for each in kernels)
        assert isinstance(kernel, Kernel)
        _, *loops = kernel.text.split("\n    for ")
        items = [part.items for part in kernel.parts]
        longest = max(zip(items, loops, strict=True))[1]
        assert 2 * max(items) > sum(items)
        assert not any(test in longest for test in ("bit_and", "lt(", "select("))
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
