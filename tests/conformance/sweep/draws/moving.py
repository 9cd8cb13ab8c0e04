"""Checks of operations that move elements and never look at them: any bits, all types."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.conformance.oracle import assert_equal_bits, evaluated, run_on_xla
from tests.conformance.sweep.draws import drawing
from tests.conformance.sweep.draws.program import built
from xla_client import Op
from xla_contract.types.element_type import ElementType as E

UNKNOWN_TO_THE_ORACLE = (E.S1, E.U1, E.F6E3M2FN, E.F6E2M3FN)
"""Types that jaxlib's CPU backend cannot take as arguments: XLA gets their bytes instead."""

ROUNDED = (E.F8E5M2FNUZ,)
"""XLA moves these through f16 where it fuses moves of a loop, and its way back rounds subnormal
numbers (7 comes back as 8): it gets bytes for them too.
"""

PACKED = (E.S1, E.U1, E.S2, E.U2, E.S4, E.U4, E.F4E2M1FN, E.F6E3M2FN, E.F6E2M3FN)
"""Types of less than a byte: XLA's process aborts where some operations meet them."""

MOVABLE = (*drawing.EVERY, E.S2, E.U2, *UNKNOWN_TO_THE_ORACLE)
INDICES = (E.S8, E.S16, E.S32, E.S64, E.U8, E.U16, E.U32, E.U64)


def types() -> st.SearchStrategy[E]:
    """Any element type."""
    return st.sampled_from(MOVABLE)


def bits(element_type: E, shape: Sequence[int], seed: int) -> Any:
    """Values of any bits, NaNs of every payload among them."""
    dtype = element_type.dtype
    random = np.random.default_rng(seed)
    count = math.prod(shape)
    if element_type is E.PRED:
        return random.integers(0, 2, count).astype(dtype).reshape(shape)
    if element_type.bit_width < 8 and element_type.is_integer:
        low = -(2 ** (element_type.bit_width - 1)) if element_type.is_signed_integer else 0
        numbers = random.integers(low, low + 2**element_type.bit_width, count)
        return numbers.astype(np.int8).astype(dtype).reshape(shape)
    if element_type.bit_width < 8:
        codes = random.integers(0, 2**element_type.bit_width, count).astype(np.uint8)
        return codes.view(dtype).reshape(shape)
    return np.frombuffer(random.bytes(count * dtype.itemsize), dtype).reshape(shape)


def assert_moves_alike(
    function: Callable[..., Op],
    arrays: Sequence[Any],
    *,
    as_bytes: Sequence[E] = (*UNKNOWN_TO_THE_ORACLE, *ROUNDED),
    by_xla: Callable[..., Op] | None = None,
) -> None:
    """Both sides give the same bits, payloads of NaNs included where XLA keeps them.

    It moves floats of 16 bits and fewer through wider ones now and then and comes back with another
    NaN. XLA gets bytes for the types `as_bytes`; it runs `by_xla` instead of a program that it
    cannot run.
    """
    ours = evaluated(built(function, arrays).proto, arrays)
    placed = [_stand_in(array, as_bytes) for array in arrays]
    theirs = run_on_xla(built(by_xla or function, placed).proto, placed)
    for mine, wanted in zip(ours, theirs, strict=True):
        assert mine.shape == wanted.shape
        assert _stand_in(mine, as_bytes).dtype == wanted.dtype
        if E.from_dtype(wanted.dtype) in (*drawing.NARROW, E.BF16, E.F16):
            assert_equal_bits(mine, wanted)
        else:
            assert mine.tobytes() == wanted.tobytes(), (mine, wanted)


def _stand_in(array: Any, as_bytes: Sequence[E]) -> Any:
    return array.view(np.uint8) if E.from_dtype(array.dtype) in as_bytes else array
