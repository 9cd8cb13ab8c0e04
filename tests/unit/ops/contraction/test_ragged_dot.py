import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from jax import lax

from tests.conformance.oracle import by_jax, evaluated
from tests.corpus.jax.programs import lower
from xla_contract.stubs import hlo_pb2


def _numbers(contracting: Any, batch: Any, ragged: int, group: int | None) -> Any:
    return lax.RaggedDotDimensionNumbers(
        (contracting, batch), [ragged], [group] * (group is not None)
    )


NONE = ((), ())
CASES = {
    "free": ((11, 5), (3, 5, 7), [4, 0, 6], ((1,), (1,)), NONE, 0, 0),
    "free_sizes_beyond_the_end": ((6, 5), (3, 5, 7), [4, 4, 6], ((1,), (1,)), NONE, 0, 0),
    "free_in_a_batch": (
        (5, 4, 11),
        (4, 7, 3, 5),
        [[3, 3, 5], [11, 0, 0], [0, 0, 0], [1, 2, 3]],
        ((0,), (3,)),
        ((1,), (0,)),
        2,
        2,
    ),
    "free_with_others_before": (
        (2, 11, 5),
        (5, 3, 7),
        [[3, 3, 5], [1, 0, 9]],
        ((2,), (0,)),
        NONE,
        1,
        1,
    ),
    "contracting": ((5, 11), (11, 7), [4, 3, 2], ((1,), (0,)), NONE, 1, None),
    "contracting_two": (
        (5, 2, 11),
        (11, 7, 2),
        [[4, 3, 2], [0, 11, 0]],
        ((1, 2), (2, 0)),
        NONE,
        2,
        None,
    ),
    "batch": ((9, 5, 4), (9, 4, 7), [4, 3, 1], ((2,), (1,)), ((0,), (0,)), 0, None),
}


@pytest.mark.parametrize("dtype", ["f4", "i2"])
@pytest.mark.parametrize("name", CASES)
def test_gives_jax_s_numbers(name: str, dtype: str) -> None:
    lhs, rhs, sizes, *dimensions = CASES[name]
    random = np.random.default_rng(0)
    given = [(random.standard_normal(part) * 9).astype(dtype) for part in (lhs, rhs)]
    given.append(np.array(sizes, np.int32))
    function: Callable[..., Any] = lambda *operands: lax.ragged_dot_general(  # noqa: E731
        *operands, ragged_dot_dimension_numbers=_numbers(*dimensions)
    )
    proto = hlo_pb2.HloModuleProto.FromString(lower(function, *given, platform="tpu"))
    ((ours,), (theirs,)) = evaluated(proto, given), by_jax(function, given)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    if dtype == "i2":
        np.testing.assert_array_equal(ours, theirs)
        return
    # Terms may cancel, in any order of addition: a sum of n of them, each rounded, is off by at
    # most n/2 ULPs of the sum of their sizes.
    sizes_of_terms = [np.abs(part).astype(np.float64) for part in given[:2]]
    (size,) = by_jax(function, [*sizes_of_terms, given[2]])
    (contracted, _), *_ = dimensions
    terms = math.prod(lhs[dimension] for dimension in contracted)
    error = np.abs(ours.astype(np.float64) - theirs)
    assert (error <= terms * np.finfo(np.float32).eps * size).all(), (error / size).max()


def test_what_another_group_has_does_not_leak() -> None:
    lhs, rhs = np.ones((4, 2), np.float32), np.ones((2, 2, 3), np.float32)
    rhs[1] = np.nan
    given = [lhs, rhs, np.array([2, 1], np.int32)]
    proto = hlo_pb2.HloModuleProto.FromString(lower(lax.ragged_dot, *given, platform="tpu"))
    (found,) = evaluated(proto, given)
    np.testing.assert_array_equal(found, [[2] * 3] * 2 + [[np.nan] * 3] + [[0] * 3])
