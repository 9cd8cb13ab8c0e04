"""Tolerance of an instruction's value against the evaluator's, by the size of its terms."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.conformance.oracle import assert_equal_bits
from tests.conformance.sweep.draws.bounds import BOUNDS
from tests.conformance.sweep.draws.bounds import assert_within as assert_within_ulps
from tests.conformance.sweep.draws.bounds_reductions import (
    assert_sums,
    assert_within,
    info,
    magnitudes,
)
from tests.fuzz.answers.judging import known
from tests.fuzz.answers.shrinking.alone import is_inexact, leaves, scale_of
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode
from xla_server.ir.module import HloInstruction

SUMS = frozenset(
    {
        Opcode.CONVOLUTION,
        Opcode.DOT,
        Opcode.RAGGED_DOT,
        Opcode.REDUCE,
        Opcode.REDUCE_WINDOW,
        Opcode.SCALED_DOT,
        Opcode.SCAN,
        Opcode.SCATTER,
        Opcode.SELECT_AND_SCATTER,
    }
)
NORMWISE = {
    Opcode.BATCH_NORM_GRAD: 256.0,
    Opcode.BATCH_NORM_INFERENCE: 64.0,
    Opcode.BATCH_NORM_TRAINING: 256.0,
    Opcode.CHOLESKY: 256.0,
    Opcode.FFT: 64.0,
    Opcode.TRIANGULAR_SOLVE: 1024.0,
}
"""Bounds in eps times the largest magnitude of operands and results."""


@dataclasses.dataclass(frozen=True)
class Judgement:
    """A value of a side, the evaluator's for the same operands, and what it is the value of.

    `element` is its position among the results of an instruction that has several.
    """

    side: str
    instruction: HloInstruction
    operands: Sequence[Any]
    expected: Any
    actual: Any
    element: int = 0

    @property
    def kind(self) -> E:
        """The element type of the value."""
        return E.from_dtype(self.expected.dtype)


def judge(judgement: Judgement) -> str:
    """Return why a value is wrong; nothing if it is within the bounds or known to differ."""
    words = _wrong(judgement)
    if not words or known.is_padded(judgement):
        return ""
    if judgement.actual.shape != judgement.expected.shape:
        return words
    explained = known.explained(judgement)
    if not explained.any():
        return words
    rest = np.where(explained, judgement.expected, judgement.actual)
    return _wrong(dataclasses.replace(judgement, actual=rest))


def _wrong(judgement: Judgement) -> str:
    try:
        _assert_right(judgement)
    except AssertionError as error:
        return " ".join(str(error).split())[:500] or "differs"
    return ""


def _assert_right(j: Judgement) -> None:
    opcode = j.instruction.opcode
    assert (j.actual.dtype, j.actual.shape) == (j.expected.dtype, j.expected.shape)
    assert isinstance(j.expected, np.ndarray | np.generic)
    has_rounding = is_inexact(j.expected)
    if not has_rounding:
        assert_equal_bits(j.actual, j.expected)
    elif opcode in BOUNDS:
        with np.errstate(all="ignore"):
            assert_within_ulps(j.actual, j.expected, BOUNDS[opcode].of(j.kind))
    elif opcode in NORMWISE:
        _assert_normwise(j, NORMWISE[opcode])
    elif opcode in SUMS and _has_rounding(j.instruction):
        _assert_reduced(j)
    else:
        assert_equal_bits(j.actual, j.expected)


def _has_rounding(instruction: HloInstruction) -> bool:
    if not instruction.called:
        return True
    return combiner(instruction) not in (Opcode.MAXIMUM, Opcode.MINIMUM)


def combiner(instruction: HloInstruction) -> Opcode:
    """Return the operation that a reduction does: of a select-and-scatter, its scatter's."""
    root = instruction.called[-1].root
    return root.operands[-1].opcode if root.opcode is Opcode.TUPLE else root.opcode


def _assert_reduced(j: Judgement) -> None:
    """Sums of the terms' magnitudes bound the error; of products, the size of the result."""
    terms = sum(np.size(operand) for operand in leaves(j.operands)) + 1
    accumulated = j.operands[0].dtype if j.expected.dtype != j.operands[0].dtype else None
    if j.instruction.called and combiner(j.instruction) is Opcode.MULTIPLY:
        _assert_product(j, terms)
        return
    scale = scale_of(j.instruction, j.operands, j.element)
    factor = 8 if j.kind.is_complex else 2
    assert_sums(j.actual, j.expected, scale, terms * factor, accumulated)


def _assert_product(j: Judgement, terms: int) -> None:
    eps = float(info(j.expected.dtype).eps)
    sizes = np.concatenate([magnitudes(operand).ravel() for operand in j.operands])
    sizes = sizes[sizes > 0]
    with np.errstate(all="ignore"):
        largest = np.maximum(sizes, 1).prod()
        smallest = np.minimum(sizes, 1).prod()
        limits = info(j.expected.dtype)
        settled = largest < float(limits.max) / 4 and smallest > 4 * float(limits.smallest_normal)
        assert_within(j.actual, j.expected, 4 * terms * eps * largest, settled)


def _assert_normwise(j: Judgement, factor: float) -> None:
    arrays = [a for a in (*j.operands, j.expected) if isinstance(a, np.ndarray)]
    finite = all(np.isfinite(a).all() for a in arrays if is_inexact(a))
    if not finite or not j.expected.size:
        return
    norm = 1.0
    for operand in j.operands:
        norm = max(norm, float(magnitudes(operand).max(initial=0)))
    norm = max(norm * max(1, j.operands[0].size), float(magnitudes(j.expected).max(initial=0)))
    assert_within(j.actual, j.expected, factor * float(info(j.expected.dtype).eps) * norm)
