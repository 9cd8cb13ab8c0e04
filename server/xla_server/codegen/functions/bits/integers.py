"""Powers and signs of integers.

Semantics: XLA's CPU backend, as the evaluators have them. Integers narrower than a byte are passed
sign- or zero-extended to a byte, and the caller wraps results.
"""

from collections.abc import Mapping
from typing import Any

from xla_server.codegen.functions.bits.words import Word, function
from xla_server.ops.elementwise.rows.exponential import EXPONENT_BITS

_STORAGES = tuple(f"{kind}{width}" for kind in "iu" for width in (8, 16, 32, 64))


def _power(base: Word, exponent: Word) -> Word:
    """Return base to the exponent, wrapped; for negative exponents 0 unless the base is 1 or -1.

    If the exponent is not negative, only its low 6 bits count. Unsigned numbers are interpreted as
    signed.
    """
    result, square = base.constant(1), base
    for position in range(EXPONENT_BITS):
        is_set = ((exponent >> position) & 1).unsigned("!=", 0)
        result = is_set.choose(result * square, result)
        square = square * square
    sign = (exponent & 1).unsigned("!=", 0).choose(base, 1)
    is_unit = base.unsigned("==", 1).choose(base.constant(1), 0) | base.unsigned("==", -1).choose(
        base.constant(1), 0
    )
    reciprocal = is_unit.unsigned("!=", 0).choose(sign, 0)
    return exponent.signed("<", 0).choose(reciprocal, result)


def _sign(number: Word) -> Word:
    positive = number.signed(">", 0).choose(number.constant(1), 0)
    return number.signed("<", 0).choose(number.constant(-1), positive)


FORMULAS: Mapping[str, Any] = {
    **{f"pow_{kind}": function([kind, kind], kind, _power) for kind in _STORAGES},
    **{f"sign_{kind}": function([kind], kind, _sign) for kind in _STORAGES if kind[0] == "i"},
}
"""Every function of this module by its name in kernels."""
