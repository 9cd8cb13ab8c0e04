"""Bounds of the distance to XLA's CPU backend for each elementwise operation, in ULPs.

One row per opcode, one column per kind of element type; 0 is the same bits. Integers and pred are
always exact. `python -m tests.conformance.sweep.draws.bounds` prints the table of BOUNDS.md.
"""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np

from tests.command_line import command_line
from tests.elementwise_operations import OPERATIONS
from tests.elementwise_operations.operation import EXACT, Ulps
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode

BOUNDS: Mapping[Opcode, Ulps] = MappingProxyType(
    {
        **{opcode: row.ulps for opcode, row in OPERATIONS.items()},
        Opcode.BITCAST_CONVERT: EXACT,
        Opcode.CLAMP: EXACT,
        Opcode.COMPARE: EXACT,
        Opcode.CONVERT: EXACT,
        Opcode.REDUCE_PRECISION: EXACT,
        Opcode.SELECT: EXACT,
        Opcode.STOCHASTIC_CONVERT: EXACT,
    }
)
"""The bound of every elementwise operation."""

FLUSHED = (E.BF16, E.F32, E.F64, E.C64, E.C128)
"""XLA's CPU backend runs programs with the processor's flush-to-zero and denormals-are-zero on,
whatever the compile options. Results of these types this near to zero may differ by that."""

_TINY = 4
"""In smallest normal numbers: where XLA's expansions already meet a flushed intermediate."""


def assert_within(ours: Any, theirs: Any, ulps: int) -> None:
    """Same type and dimensions, same NaNs, infinities and signs of zeros, the rest within `ulps`.

    The signs of zero parts of complex numbers are free.
    """
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    element_type = E.from_dtype(theirs.dtype)
    if element_type.is_complex:
        _assert_complex_within(ours.reshape(-1), theirs.reshape(-1), ulps)
    elif element_type.is_floating:
        _assert_real_within(ours.reshape(-1), theirs.reshape(-1), ulps, element_type)
    else:
        wide = np.uint64 if element_type.is_unsigned_integer else np.int64
        np.testing.assert_array_equal(ours.astype(wide), theirs.astype(wide))


def _assert_real_within(ours: Any, theirs: Any, ulps: int, element_type: E) -> None:
    mine, wanted = ours.astype(np.float64), theirs.astype(np.float64)
    if element_type is E.F8E8M0FNU:
        # XLA makes zero of its smallest number, a subnormal one of F32, and has only NaN for zero.
        mine = np.where((mine == 2.0**-127) & np.isnan(wanted), np.nan, mine)
    _assert_same_kinds(mine, wanted)
    finite = np.isfinite(wanted)
    numbers: Any = ml_dtypes
    tiny = _TINY * float(numbers.finfo(theirs.dtype).smallest_normal)
    apart = np.abs(np.where(finite, mine, 0) - np.where(finite, wanted, 0))
    far = finite & (_distance(ours, theirs, element_type) > ulps)
    far |= (mine == 0) & (wanted == 0) & (np.signbit(mine) != np.signbit(wanted))
    if element_type in FLUSHED:
        far &= (apart > tiny) | (apart == 0)
    assert not far.any(), f"{ours[far][:4]} and {theirs[far][:4]} differ by over {ulps} ulps"


def _distance(ours: Any, theirs: Any, element_type: E) -> Any:
    """Return the distance in numbers of the type."""
    positions = []
    for array in (ours, theirs):
        bits = np.ascontiguousarray(array).view(f"u{array.dtype.itemsize}").astype(np.uint64)
        sign = np.uint64(1 << (element_type.bit_width - 1))
        size = (bits & (sign - np.uint64(1))).astype(np.int64)
        signed = element_type is not E.F8E8M0FNU
        positions.append(np.where(bits & sign, -size, size) if signed else bits.astype(np.int64))
    # The difference of numbers of opposite signs may not fit.
    return np.abs(positions[0].astype(object) - positions[1].astype(object))


def _assert_complex_within(ours: Any, theirs: Any, ulps: int) -> None:
    part = theirs.real.dtype
    sides = [
        (side.real.astype(np.float64), side.imag.astype(np.float64)) for side in (ours, theirs)
    ]
    for mine, wanted in zip(*sides, strict=True):
        _assert_same_kinds(mine, wanted)
    finite = np.isfinite(ours) & np.isfinite(theirs)
    size = np.maximum(np.maximum(np.abs(theirs.real), np.abs(theirs.imag)), part.type(1))
    unit = np.spacing(np.where(finite, size, part.type(1))).astype(np.float64)
    for mine, wanted in zip(*sides, strict=True):
        apart = np.abs(np.where(finite, mine, 0) - np.where(finite, wanted, 0))
        far = apart > ulps * unit
        assert not far.any(), f"{ours[far][:4]} and {theirs[far][:4]} differ by over {ulps} ulps"


def _assert_same_kinds(ours: Any, theirs: Any) -> None:
    different = np.isnan(ours) != np.isnan(theirs)
    different |= (np.isinf(ours) | np.isinf(theirs)) & ~np.isnan(theirs) & (ours != theirs)
    assert not different.any(), f"{ours[different][:4]} must be {theirs[different][:4]}"


def markdown() -> str:
    """The table of BOUNDS.md."""
    names = [field.name for field in dataclasses.fields(Ulps)]
    lines = [f"| operation | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for opcode, row in sorted(BOUNDS.items()):
        cells = [str(getattr(row, name)) for name in names]
        lines.append(f"| {opcode} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    command_line("tests.conformance.sweep.draws.bounds", __doc__).parse_args()
    print(markdown(), end="")
