"""A program with its arguments and the answer that is known without running it."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from xla_client.programs.computation import Computation


@dataclasses.dataclass(frozen=True)
class Case:
    """A program, what it is run on, and what it must give.

    `expected` has the arrays of the result in order. Floats may differ by `tolerance` absolutely
    and relatively; with 0 the arrays must be equal.
    """

    computation: Computation
    arguments: tuple[Any, ...]
    expected: tuple[Any, ...]
    tolerance: float = 0.0

    def check(self, results: Sequence[Any]) -> None:
        """Compare what a run gave with what is expected."""
        assert len(results) == len(self.expected)
        for result, expected in zip(results, self.expected, strict=True):
            expected = np.asarray(expected)
            assert result.dtype == expected.dtype
            assert result.shape == expected.shape
            if self.tolerance:
                np.testing.assert_allclose(result, expected, self.tolerance, self.tolerance)
            else:
                # assert_allclose compares large integers as floats.
                np.testing.assert_array_equal(result, expected)
