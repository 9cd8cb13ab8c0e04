"""Known differences: where another answer is right too, or jaxlib's is wrong.

Each has its reason and is as narrow as can be. A difference that is none of these is reported.
"""

import dataclasses
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.conformance.sweep.draws.bounds_reductions import info, wide
from tests.fuzz.answers.shrinking.alone import is_inexact
from xla_contract.ops.contraction.convolution import ConvolutionAttributes
from xla_contract.ops.reduction.reduce_window import ReduceWindowAttributes
from xla_contract.ops.reduction.select_and_scatter import SelectAndScatterAttributes
from xla_contract.types.opcode import Opcode
from xla_server.ir.analysis.splat import splat
from xla_server.ir.module import HloInstruction

if TYPE_CHECKING:
    from tests.fuzz.answers.judging.judge import Judgement


@dataclasses.dataclass(frozen=True)
class Known:
    """A difference: on which side (all if empty), why, and which elements it explains.

    `explains` gives one bool for all elements, or one for each.
    """

    side: str
    reason: str
    explains: "Callable[[Judgement], Any]"


def explained(judgement: "Judgement") -> Any:
    """Return which elements of a value may differ, as one array."""
    found = np.zeros(judgement.expected.shape, np.bool_)
    for one in KNOWN:
        if one.side in ("", judgement.side):
            found |= one.explains(judgement)
    return found


def is_padded(judgement: "Judgement") -> bool:
    """Return True for a value of dynamic size from jaxlib: it is padded, its size is unknown."""
    return judgement.side == "jaxlib" and not judgement.instruction.shape.is_static


def _reduces_single_elements(j: "Judgement") -> Any:
    return any(
        part.opcode is Opcode.REDUCE
        and (
            math.prod(
                part.operands[0].shape.dimensions[number] for number in part.attributes.dimensions
            )
            == 1
            or _is_joined(part.operands[0], part.attributes.dimensions)
        )
        for part in _inside(j.instruction)
    )


def _is_joined(operand: HloInstruction, dimensions: Sequence[int]) -> bool:
    """Return True for elements put together, which jaxlib reduces one by one.

    It writes the states of random bits as such, too.
    """
    if operand.opcode is Opcode.GET_TUPLE_ELEMENT:
        return operand.operands[0].opcode is Opcode.RNG_BIT_GENERATOR
    if operand.opcode is not Opcode.CONCATENATE or operand.attributes.dimension not in dimensions:
        return False
    along = operand.attributes.dimension
    return any(part.shape.dimensions[along] == 1 for part in operand.operands)


def _counts_zeros_of_negatives(j: "Judgement") -> Any:
    return any(
        part.opcode is Opcode.COUNT_LEADING_ZEROS
        and part.operands[0].shape.element_type.is_signed_integer
        for part in _inside(j.instruction)
    )


def _differs_in_signs_of_zeros(j: "Judgement") -> Any:
    if j.instruction.opcode not in (Opcode.ADD, Opcode.SUBTRACT):
        return False
    return (j.actual == 0) & (j.expected == 0)


def _adds_to_zero(j: "Judgement") -> Any:
    """Where an exact value is a subnormal number or a zero, which is lost in adding 0 to it."""
    if j.instruction.opcode is not Opcode.REDUCE_SCATTER or not is_inexact(j.expected):
        return False
    number = wide(j.expected)
    smallest = np.minimum(np.abs(number.real), np.abs(number.imag)) if j.kind.is_complex else number
    return np.abs(smallest) < 4 * float(info(j.expected.dtype).smallest_normal)


def _scatters_without_indices(j: "Judgement") -> Any:
    if j.instruction.opcode is not Opcode.SCATTER:
        return False
    return not j.instruction.attributes.dimension_numbers.scatter_dims_to_operand_dims


def _walks_padded_windows(j: "Judgement") -> Any:
    """Where an element may be selected in one order alone: it has an equal one, or NaN is there."""
    if j.instruction.opcode is not Opcode.SELECT_AND_SCATTER:
        return False
    attributes: SelectAndScatterAttributes = j.instruction.attributes
    dimensions = attributes.window.dimensions
    is_padded = any(max(d.padding_low, d.padding_high) > 0 for d in dimensions)
    if not is_padded or sum(d.size > 1 for d in dimensions) < 2:
        return False
    operand = wide(j.operands[0])
    _, at, counts = np.unique(operand, return_inverse=True, return_counts=True)
    return np.isnan(operand).any() | (counts[at].reshape(operand.shape) > 1)


def _multiplies_padding(j: "Judgement") -> Any:
    if j.instruction.opcode is not Opcode.CONVOLUTION or np.isfinite(wide(j.operands[1])).all():
        return False
    attributes: ConvolutionAttributes = j.instruction.attributes
    has_none = all(
        max(d.padding_low, d.padding_high) <= 0 and d.base_dilation == 1
        for d in attributes.window.dimensions
    )
    return np.isnan(wide(j.actual)) & (not has_none)


def _multiplies_other_groups(j: "Judgement") -> Any:
    if j.instruction.opcode is not Opcode.CONVOLUTION or np.isfinite(wide(j.operands[0])).all():
        return False
    return (j.instruction.attributes.feature_group_count > 1) & np.isnan(wide(j.actual))


def _multiplies_weights_of_other_groups(j: "Judgement") -> Any:
    if j.instruction.opcode is not Opcode.CONVOLUTION or np.isfinite(wide(j.operands[1])).all():
        return False
    return (j.instruction.attributes.batch_group_count > 1) & np.isnan(wide(j.actual))


def _adds_the_start_of_long_sums(j: "Judgement") -> Any:
    if len(j.operands) != 2:
        return False
    if j.instruction.opcode is Opcode.REDUCE:
        sizes = j.operands[0].shape
        is_long = any(sizes[number] > 32 for number in j.instruction.attributes.dimensions)
        return is_long and bool(j.operands[1] != 0)
    if j.instruction.opcode is not Opcode.REDUCE_WINDOW:
        return False
    attributes: ReduceWindowAttributes = j.instruction.attributes
    is_long = any(d.size > 16 for d in attributes.window.dimensions)
    return is_long and bool(j.operands[1] != 0)


def _divides_by_a_constant_inside(j: "Judgement") -> Any:
    """Where results of what an instruction calls are few units off."""
    divides = any(
        part.opcode is Opcode.DIVIDE and splat(part.operands[1]) is not None
        for called in j.instruction.called
        for inner in called.instructions
        for part in _inside(inner)
    )
    return divides and _is_a_few_units_off(j)


def _divides_by_a_repeated_number(j: "Judgement") -> Any:
    """Where a quotient is few units off."""
    if j.instruction.opcode is not Opcode.DIVIDE:
        return False
    return j.instruction.operands[1].opcode is Opcode.BROADCAST and _is_a_few_units_off(j)


def _is_a_few_units_off(j: "Judgement") -> Any:
    if not is_inexact(j.expected):
        return False
    with np.errstate(all="ignore"):
        distance = np.abs(wide(j.actual) - wide(j.expected))
        return distance <= 4 * float(info(j.expected.dtype).eps) * np.abs(wide(j.expected))


def _scales_fractions_to_nan(j: "Judgement") -> Any:
    """Where a fraction is cut off, as 2 to the width of its type is a NaN of that type."""
    if j.instruction.opcode is not Opcode.STOCHASTIC_CONVERT:
        return False
    operand, drawn = j.operands
    scale = np.float64(2.0 ** (8 * drawn.dtype.itemsize)).astype(operand.dtype)
    return np.isnan(wide(scale)) & (j.actual == np.trunc(wide(operand)))


def _folds_large_powers(j: "Judgement") -> Any:
    if j.instruction.opcode is not Opcode.POWER or not j.kind.is_integer:
        return False
    return (j.operands[1] < 0) | (j.operands[1] > 63)


def _rounds_the_logarithm_of_a_power(j: "Judgement") -> Any:
    """Where the error is that of a rounded logarithm, which the exponent multiplies."""
    if j.instruction.opcode is not Opcode.POWER or not j.kind.is_complex:
        return False
    base, exponent = (wide(operand) for operand in j.operands)
    with np.errstate(all="ignore"):
        distance = np.abs(wide(j.actual) - wide(j.expected)) / np.abs(wide(j.expected))
        return distance <= 4 * float(info(j.expected.dtype).eps) * np.abs(exponent * np.log(base))


def _is_complex_product(j: "Judgement") -> Any:
    opcode = j.instruction.opcode
    is_product = opcode in _PRODUCTS or (
        opcode in _REDUCTIONS and j.instruction.called[-1].root.opcode is Opcode.MULTIPLY
    )
    if not j.kind.is_complex or not is_product:
        return False
    return ~(np.isfinite(j.actual) & np.isfinite(j.expected))


_PRODUCTS = frozenset({Opcode.CONVOLUTION, Opcode.DOT, Opcode.RAGGED_DOT, Opcode.SCALED_DOT})
_REDUCTIONS = frozenset({Opcode.REDUCE, Opcode.REDUCE_WINDOW})


def _inside(instruction: HloInstruction) -> Iterator[HloInstruction]:
    yield instruction
    for computation in instruction.called:
        for part in computation.instructions:
            yield from _inside(part)


KNOWN = (
    Known(
        "jaxlib",
        "a reduction of single elements, put together or not, leaves its initial value out, as if "
        "it were neutral",
        _reduces_single_elements,
    ),
    Known(
        "jaxlib",
        "folding of constants counts leading zeros of a negative number as minus its width",
        _counts_zeros_of_negatives,
    ),
    Known(
        "jaxlib",
        "x + 0 is simplified to x, which keeps the sign of -0",
        _differs_in_signs_of_zeros,
    ),
    Known(
        "jaxlib",
        "reductions of dimensions above 32 are made of windows of 32, and long windows of shorter "
        "ones; each takes an initial value that is not 0 anew",
        _adds_the_start_of_long_sums,
    ),
    Known(
        "jaxlib",
        "a division by a constant is a product with its reciprocal, which is rounded twice",
        _divides_by_a_constant_inside,
    ),
    Known(
        "jaxlib",
        "a division by a number that is repeated is a product with its reciprocal, which is "
        "rounded twice",
        _divides_by_a_repeated_number,
    ),
    Known(
        "jaxlib",
        "a stochastic-convert scales fractions by 256 in their own type, which is NaN in types of "
        "eight bits that end below it and have no infinities",
        _scales_fractions_to_nan,
    ),
    Known(
        "jaxlib",
        "folding of constants computes integer powers that compiled code computes in 6 bits",
        _folds_large_powers,
    ),
    Known(
        "jaxlib",
        "some convolutions multiply padding with infinite weights, which makes NaN",
        _multiplies_padding,
    ),
    Known(
        "jaxlib",
        "convolutions with feature groups multiply infinities of other groups with 0",
        _multiplies_other_groups,
    ),
    Known(
        "jaxlib",
        "convolutions with batch groups multiply infinite weights of other groups with 0",
        _multiplies_weights_of_other_groups,
    ),
    Known(
        "jaxlib",
        "select-and-scatter walks a padded window of several dimensions in an order of its own, "
        "which shows among equal elements and where one is NaN",
        _walks_padded_windows,
    ),
    Known(
        "jaxlib",
        "a reduce-scatter of one replica adds 0, which loses subnormal numbers and -0",
        _adds_to_zero,
    ),
    Known(
        "jaxlib",
        "a scatter whose index vectors are empty does one update and leaves out the others",
        _scatters_without_indices,
    ),
    Known(
        "jaxlib",
        "complex powers multiply a rounded logarithm, and with it its error, by a large exponent",
        _rounds_the_logarithm_of_a_power,
    ),
    Known(
        "",
        "complex products of numbers that are not finite, and their sums, follow from the formula "
        "of the product and the order of the terms",
        _is_complex_product,
    ),
)
