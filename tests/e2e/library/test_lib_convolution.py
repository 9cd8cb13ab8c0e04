"""The gradients of convolutions on a real server, against jax."""

from functools import partial

import jax
import numpy as np
import pytest

from xla_client import ops
from xla_client.lib import convolution
from xla_contract.types.dimension_numbers import ConvolutionDimensionNumbers

RANDOM = np.random.default_rng(0)
NHWC = ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))


@pytest.mark.parametrize(
    ("strides", "padding", "dilation"),
    [
        ((1, 1), [(0, 0), (0, 0)], None),
        ((2, 1), [(1, 1), (0, 2)], None),
        ((3, 2), [(2, 0), (1, 1)], (1, 2)),
        ((2, 2), [(-1, 0), (0, -2)], (2, 1)),
    ],
)
def test_gradients_of_convolutions(run, strides, padding, dilation):
    x = RANDOM.standard_normal((2, 9, 8, 3)).astype(np.float32)
    kernel = RANDOM.standard_normal((3, 2, 3, 4)).astype(np.float32)
    forward = partial(
        jax.lax.conv_general_dilated,
        window_strides=strides,
        padding=padding,
        rhs_dilation=dilation,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    expected, pull = jax.vjp(forward, x, kernel)
    gradient = RANDOM.standard_normal(expected.shape).astype(np.float32)
    result, by_input, by_kernel = run(
        lambda x, k, g: [
            ops.conv_general_dilated(x, k, strides, padding, None, dilation, NHWC),
            convolution.conv_input_grad(g, k, x.shape.dimensions, strides, padding, NHWC, dilation),
            convolution.conv_kernel_grad(
                x, g, k.shape.dimensions, strides, padding, NHWC, dilation
            ),
        ],
        x,
        kernel,
        gradient,
    )
    slopes = pull(gradient)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(by_input, slopes[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(by_kernel, slopes[1], rtol=1e-4, atol=1e-4)
