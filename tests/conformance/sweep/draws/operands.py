"""The operands that elementwise operations are drawn on, and what XLA's CPU backend cannot run."""

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from tests.conformance.sweep.draws import drawing
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode

SIX_BITS = (E.F6E2M3FN, E.F6E3M2FN)
ONE_BIT = (E.S1, E.U1)
REFUSED = (*SIX_BITS, *ONE_BIT)
"""jaxlib's CPU compiler fails or aborts on floats of 6 bits, and StableHLO has no 1-bit integers;
test_narrow.py has other references for these."""

BY_JAX = {
    Opcode.ACOS: "acos",
    Opcode.ACOSH: "acosh",
    Opcode.ASIN: "asin",
    Opcode.ASINH: "asinh",
    Opcode.ATAN: "atan",
    Opcode.ATANH: "atanh",
    Opcode.COSH: "cosh",
    Opcode.SINH: "sinh",
}
"""Opcodes that XLA's CPU compiler answers with UNIMPLEMENTED in some types; the reference there is
what JAX lowers its function of this name to, run by XLA."""


def reference(opcode: Opcode, element_type: E) -> str | None:
    """The name in jax.lax of the reference, None where XLA runs the opcode itself."""
    wide = element_type in (E.F16, E.F32, E.F64) or element_type.is_complex
    return BY_JAX.get(opcode) if wide or opcode is Opcode.ATAN else None


WITHOUT_SUBNORMALS = (Opcode.ATAN2, Opcode.CBRT, Opcode.POWER)
"""XLA writes these as programs of its own, in which some steps take subnormal operands for zeros
and others do not; ours take all of them for zeros."""

FINITE = (*BY_JAX, Opcode.ATAN2)
"""Complex functions whose expansions by JAX and XLA say nothing where a part is 0, infinite or
NaN: on the cuts rounding decides the side, and infinities become NaN as the formulas fall."""


LOWEST = {(Opcode.LOGISTIC, E.F16): -11.0}
"""Smallest operands of an opcode and a type: XLA's logistic of F16 computes exp(-x) in F16, where
it overflows from x = -11.1 on, and gives 0 for 1.5e-5 and less."""


def operands(opcode: Opcode, element_type: E, shape: Sequence[int], seed: int) -> list[Any]:
    """Arrays of `element_type` that XLA's answer to `opcode` is defined on."""
    arrays = []
    for number in range(opcode.arity):
        if element_type.is_complex:
            plain = opcode in FINITE
            arrays.append(complexes(element_type, shape, seed + number, finite=plain))
        else:
            array = drawing.array(element_type, shape, seed + number)
            if (opcode, element_type) in LOWEST:
                array = np.maximum(array, array.dtype.type(LOWEST[opcode, element_type]))
            arrays.append(normal(array) if _needs_normal(opcode, element_type) else array)
    return arrays


def complexes(element_type: E, shape: Sequence[int], seed: int, *, finite: bool = False) -> Any:
    """Complex numbers with parts up to 4, some of them 0, infinite or NaN unless `finite`.

    Larger ones overflow inside XLA's expansions, and subnormal ones are zeros to it.
    """
    random = np.random.default_rng(seed)
    result = np.empty(tuple(shape), element_type.dtype)
    special = np.array([0.0, -0.0, 1, -1, 0.5, 2.5, -1.5, np.inf, -np.inf, np.nan])
    for name in ("real", "imag"):
        part = random.standard_normal(shape) * np.exp(random.standard_normal(shape))
        part = np.asarray(np.clip(part, -4, 4))
        if not finite:
            part = np.where(random.random(shape) < 0.2, random.choice(special, shape), part)
        setattr(result, name, part)
    return result


def _needs_normal(opcode: Opcode, element_type: E) -> bool:
    if element_type is E.F8E8M0FNU:
        return True  # Its smallest number is a subnormal one of the F32 XLA computes in.
    return opcode in WITHOUT_SUBNORMALS and element_type in (E.BF16, E.F32, E.F64)


def normal(array: Any) -> Any:
    """Replace subnormal numbers by ones."""
    numbers: Any = ml_dtypes
    scale = 2 if array.dtype == E.F8E8M0FNU.dtype else 1
    wide = np.abs(array.astype(np.float64))
    small = (wide < scale * float(numbers.finfo(array.dtype).smallest_normal)) & (wide != 0)
    return np.where(small, np.ones_like(array), array)
