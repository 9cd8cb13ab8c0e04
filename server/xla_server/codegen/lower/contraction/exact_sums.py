"""Calls that recompute results of a convolution that zeros of padding or holes made NaN."""

import dataclasses
import math
from collections.abc import Sequence

from xla_server.codegen.kernel_ir.builder import Body
from xla_server.codegen.kernel_ir.expressions import Expression
from xla_server.codegen.kernel_ir.routine import Operands, Routine
from xla_server.codegen.lower.loop_nests.epilogue import Ends
from xla_server.codegen.routines.contraction.exact_sums import (
    EXACT_SUMS,
    SPATIAL,
    FeatureCounts,
    Positions,
    Spatial,
)
from xla_server.ir.analysis.affine import dense_strides
from xla_server.ir.module import HloInstruction

UNBOUNDED = 1 << 62
"""Upper bound of a range that the routine clamps: more than the elements of any array."""


def is_exact(i: HloInstruction) -> bool:
    """Return whether no window meets padding or a hole, so that no result needs recomputation."""
    return all(
        d.base_dilation == 1 and _inside(n, i, skips_holes=True) == (0, _result_size(n, i))
        for n, d in enumerate(i.attributes.window.dimensions)
    )


def can_sum_exactly(i: HloInstruction) -> bool:
    """Return whether a convolution is exact, or `exact_sums` supports its number of dimensions."""
    return len(i.attributes.window.dimensions) <= SPATIAL or is_exact(i)


@dataclasses.dataclass(frozen=True, slots=True)
class ExactSums:
    """The call that recomputes results of a convolution, with its sizes and strides."""

    routine: Routine
    sizes: Operands

    def emit(
        self,
        body: Body,
        addresses: tuple[Expression, Expression, Expression],
        positions: Ends,
        features: Ends,
    ) -> None:
        """Append the call for ranges of positions, counted without features, and of features.

        `addresses` are those of input, weights and result.
        """
        operands = dict(zip(("source", "weights", "result"), addresses, strict=True))
        ends = dict(zip(("p0", "p1", "f0", "f1"), (*positions, *features), strict=True))
        body.call(self.routine, {**self.sizes, **operands, **ends})


def exact_sums_of(
    i: HloInstruction,
    orders: tuple[Sequence[int], Sequence[int], Sequence[int]],
    *,
    skips_holes: bool = False,
) -> ExactSums | None:
    """Return the call that recomputes results; None if no window meets padding or a hole.

    Args:
        i: the convolution, with up to three spatial dimensions.
        orders: the dimensions of input, kernel and result as they are in memory.
        skips_holes: whether holes of a dilated input were not multiplied.
    """
    if is_exact(i):
        return None
    base_order, kernel_order, result_order = orders
    numbers, window = i.attributes.dimension_numbers, i.attributes.window.dimensions
    base, kernel = (operand.shape.dimensions for operand in i.operands)
    result = i.shape.dimensions
    read, weights = dense_strides(base, base_order), dense_strides(kernel, kernel_order)
    feature, batch = numbers.output_feature_dimension, numbers.output_batch_dimension
    positions = [d for d in result_order if d != feature]
    apart = dense_strides(result, positions)
    after = math.prod(result[d] for d in result_order[list(result_order).index(feature) + 1 :])
    inputs = kernel[numbers.kernel_input_feature_dimension]
    by_batch = i.attributes.batch_group_count
    groups = i.attributes.feature_group_count * by_batch
    group_read = inputs * read[numbers.input_feature_dimension]
    if by_batch > 1:
        group_read = result[batch] * read[numbers.input_batch_dimension]
    last = positions[-1]
    last_low, last_high, first_weight = 0, result[last], 0
    spatial = []
    for n, d in enumerate(window):
        to = numbers.output_spatial_dimensions[n]
        source = numbers.input_spatial_dimensions[n]
        tap = weights[numbers.kernel_spatial_dimensions[n]]
        if d.window_reversal:
            first_weight += (d.size - 1) * tap
            tap = -tap
        low, high = _inside(n, i, skips_holes=skips_holes)
        if to == last:
            last_low, last_high = low, high
            low, high = 0, UNBOUNDED
        spatial.append(
            Spatial(
                apart=apart[to],
                results=result[to],
                low=low,
                high=high,
                start=-d.padding_low,
                stride=d.stride,
                taps=d.size,
                reach=d.window_dilation,
                size=base[source],
                gap=d.base_dilation,
                read=read[source],
                tap=tap,
            )
        )
    spatial += [_MISSING] * (SPATIAL - len(window))
    values: Operands = {
        "positions": Positions(after, result[feature], result[last], last_low, last_high),
        "channels": FeatureCounts(
            group=result[feature] // groups,
            group_read=group_read,
            batch_apart=apart[batch],
            batches=result[batch],
            batch_read=read[numbers.input_batch_dimension],
            inputs=inputs,
            input_read=read[numbers.input_feature_dimension],
            input_weights=weights[numbers.kernel_input_feature_dimension],
            output_weights=weights[numbers.kernel_output_feature_dimension],
            first_weight=first_weight,
        ),
        **{f"d{n}": d for n, d in enumerate(spatial)},
    }
    return ExactSums(EXACT_SUMS[f"exact_sums_{i.shape.element_type.text}"].routine, values)


_MISSING = Spatial(1, 1, 0, 1, start=0, stride=0, taps=1, reach=0, size=1, gap=1, read=0, tap=0)
"""A dimension of one position."""


def _result_size(n: int, i: HloInstruction) -> int:
    return int(i.shape.dimensions[i.attributes.dimension_numbers.output_spatial_dimensions[n]])


def _inside(n: int, i: HloInstruction, *, skips_holes: bool) -> tuple[int, int]:
    """Return the first result whose window is inside the input, and the end of that range."""
    d, results = i.attributes.window.dimensions[n], _result_size(n, i)
    if d.base_dilation > 1 and not skips_holes:
        return 0, 0
    source = i.attributes.dimension_numbers.input_spatial_dimensions[n]
    end = (i.operands[0].shape.dimensions[source] - 1) * d.base_dilation
    low = max(0, -(-d.padding_low // d.stride))
    last_start = end + d.padding_low - (d.size - 1) * d.window_dilation
    high = min(results, last_start // d.stride + 1) if last_start >= 0 else 0
    return (low, high) if low < high else (0, 0)
