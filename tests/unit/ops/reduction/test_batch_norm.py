from typing import Any

import numpy as np
import pytest

from tests.corpus.single_op import inferred, result_of
from xla_contract.errors import ShapeError
from xla_contract.ops.reduction.batch_norm import BatchNormAttributes
from xla_contract.types.opcode import Opcode

EPSILON = 0.125
BY_COLUMN = BatchNormAttributes(EPSILON, 1)
X = np.array([[1, 10], [3, 30], [5, 20], [7, 40]], np.float32)
SCALE, OFFSET = np.array([2, 3], np.float32), np.array([-1, 1], np.float32)
MEAN, VARIANCE = X.mean(0), X.var(0)


def normalised(x: Any) -> Any:
    return (x - MEAN) / np.sqrt(VARIANCE + np.float32(EPSILON))


def test_training_gives_the_normalised_and_the_batch_s_mean_and_variance() -> None:
    values = result_of(Opcode.BATCH_NORM_TRAINING, X, SCALE, OFFSET, attributes=BY_COLUMN)
    expected = (normalised(X) * SCALE + OFFSET, MEAN, VARIANCE)
    for found, wanted in zip(values, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_inference_normalises_with_the_statistics_it_is_given() -> None:
    operands = (X[:2], SCALE, OFFSET, MEAN, VARIANCE)
    found = result_of(Opcode.BATCH_NORM_INFERENCE, *operands, attributes=BY_COLUMN)
    np.testing.assert_allclose(found, normalised(X[:2]) * SCALE + OFFSET, rtol=1e-6)


def test_grad_is_the_gradient_of_training() -> None:
    weights = np.array([[1, 2], [-1, 0.5], [0.25, 1], [2, -3]], np.float32)
    operands = (X, SCALE, MEAN, VARIANCE, weights)
    found = result_of(Opcode.BATCH_NORM_GRAD, *operands, attributes=BY_COLUMN)

    def loss(x: Any, scale: Any, offset: Any) -> Any:
        deviation = np.sqrt(x.var(0) + EPSILON)
        return (((x - x.mean(0)) / deviation * scale + offset) * weights).sum()

    wide = [operand.astype(np.float64) for operand in (X, SCALE, OFFSET)]
    for number, gradient in enumerate(found):
        for place in np.ndindex(gradient.shape):
            step = np.zeros_like(wide[number])
            step[place] = 1e-4
            ends = [
                loss(*(one + sign * step if n == number else one for n, one in enumerate(wide)))
                for sign in (1, -1)
            ]
            assert gradient[place] == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-3, abs=1e-4)


def test_shapes_and_refusals() -> None:
    column = ["f32[4,2]", "f32[2]", "f32[2]"]
    result = "(f32[4,2], f32[2], f32[2])"
    assert inferred(Opcode.BATCH_NORM_TRAINING, column, BY_COLUMN) == result
    with pytest.raises(ShapeError, match=r"f32\[2\] for feature dimension 1 .*f32\[3\]"):
        inferred(Opcode.BATCH_NORM_TRAINING, [*column[:2], "f32[3]"], BY_COLUMN)
    with pytest.raises(ShapeError, match=r"range \[0, 2\), got 2"):
        inferred(Opcode.BATCH_NORM_TRAINING, column, BatchNormAttributes(EPSILON, 2))
    gradient = ["f32[4,2]", *["f32[2]"] * 3, "f32[4,3]"]
    with pytest.raises(ShapeError, match=r"operand's shape, got f32\[4,3\]"):
        inferred(Opcode.BATCH_NORM_GRAD, gradient, BY_COLUMN)
