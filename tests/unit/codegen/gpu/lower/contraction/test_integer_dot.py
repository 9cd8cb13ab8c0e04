"""Products of s8 for a GPU, whose operands kernels prepare for a library."""

from typing import Any

import numpy as np
import pytest
from jax import lax

from tests.corpus.jax.programs import lower
from tests.cuda_twin.lowered import compiled, grids
from tests.cuda_twin.rows import plans, results_of
from tests.unit.codegen.compiled import imported, interpreted

CASES = {
    "rows by columns": (((32, 144), (144, 64)), (((1,), (0,)), ((), ())), 1),
    "along the sums": (((32, 144), (64, 144)), (((1,), (1,)), ((), ())), 0),
    "left transposed": (((144, 32), (64, 144)), (((0,), (1,)), ((), ())), 1),
    "padded": (((17, 131), (131, 21)), (((1,), (0,)), ((), ())), 2),
    "of a batch": (((3, 16, 132), (3, 132, 30)), (((2,), (1,)), ((0,), (0,))), 2),
}
"""Sizes of operands, dimension numbers, and kernels beside the library's product."""


def product(sizes: Any, numbers: Any) -> tuple[Any, list[Any]]:
    drawn = np.random.default_rng(3)
    given = [drawn.integers(-128, 128, each).astype(np.int8) for each in sizes]
    function = lambda a, b: lax.dot_general(a, b, numbers, preferred_element_type=np.int32)  # noqa: E731
    return imported(lower(function, *given)), given


@pytest.mark.parametrize("name", CASES)
def test_products_of_integers_are_the_librarys(name: str) -> None:
    sizes, numbers, kernels = CASES[name]
    module, given = product(sizes, numbers)
    code = compiled(module)
    assert (len(plans(code)), len(grids(code))) == (1, kernels)
    (ours,), (wanted,) = results_of(code, given), interpreted(module, given)
    np.testing.assert_array_equal(ours, wanted)


@pytest.mark.parametrize("sizes", [((15, 48), (48, 64)), ((32, 128), (128, 64))])
def test_small_products_stay_loops(sizes: Any) -> None:
    module, _ = product(sizes, (((1,), (0,)), ((), ())))
    assert plans(compiled(module)) == []
