"""Recomputation of convolution results that the zeros of padding and holes made NaN.

Fast kernels multiply those zeros by weights, and an infinite weight gives NaN. Only results whose
window leaves the input are tested, and only NaNs are recomputed.
"""

from typing import NamedTuple

from numba import njit

from xla_server.codegen.compiler.shared_functions import PythonFunction, by_name
from xla_server.codegen.functions.table import instructions
from xla_server.codegen.instructions.constants import CONSTANTS
from xla_server.codegen.instructions.intrinsics import select, whole_div, whole_mod
from xla_server.codegen.instructions.memory import MEMORY
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.routine import Count, Elements, Read, Update, routine_of

SPATIAL = 3
"""Spatial dimensions, those missing having one position."""


class Positions(NamedTuple):
    """Numbers of result positions behind the feature dimension (`after`), and of features.

    The last dimension has `line` positions, of which those from `last_low` to `last_high` have
    windows inside the input.
    """

    after: Count
    features: Count
    line: Count
    last_low: Count
    last_high: Count


class FeatureCounts(NamedTuple):
    """Output features of a group, images, input features of a group, and distances of all these.

    `batch_apart` is in positions of the result. An output feature has its weights from
    `first_weight` on, `output_weights` from those of the next.
    """

    group: Count
    group_read: Elements
    batch_apart: Count
    batches: Count
    batch_read: Elements
    inputs: Count
    input_read: Elements
    input_weights: Elements
    output_weights: Elements
    first_weight: Elements


class Spatial(NamedTuple):
    """A spatial dimension: the number of `results`, and `apart`, the stride of their positions.

    Those from `low` to `high` have their windows in the input. A window begins at `start` and then
    every `stride`, and has `taps` elements, `reach` from each other. The input has `size` elements
    with `gap` from one to the next, `read` apart in memory; weights are `tap` apart.
    """

    apart: Count
    results: Count
    low: Count
    high: Count
    start: Count
    stride: Count
    taps: Count
    reach: Count
    size: Count
    gap: Count
    read: Elements
    tap: Elements


@njit(error_model="numpy")
def _is_between(number, low, high):  # type: ignore[no-untyped-def]
    return select(number >= low, select(number < high, 1, 0), 0)


@njit(error_model="numpy")
def _index(position, d):  # type: ignore[no-untyped-def]
    """Return the index along a dimension of a position of the result."""
    return whole_mod(whole_div(position, d.apart), d.results)


@njit(error_model="numpy")
def _is_element(at, source, d):  # type: ignore[no-untyped-def]
    """Return whether a window's element is the input's element `source`, not padding or a hole."""
    return select(source * d.gap == at, _is_between(at, 0, d.size * d.gap), 0)


def _function(kind: str) -> PythonFunction:
    """Return the function that recomputes results of a type."""
    load, reload, store = (MEMORY[f"{name}_{kind}"] for name in ("load", "reload", "store"))
    zero = CONSTANTS[kind](0, 0) if kind[0] == "c" else CONSTANTS[kind](0)
    multiply, plus, differs = instructions(kind, "mul", "add", "ne")

    @njit(error_model="numpy")
    def has_nan(result, at, count):  # type: ignore[no-untyped-def]
        found = 0
        for number in range(0, count):
            value = reload(result, at + number)
            found = found | select(differs(value, value), 1, 0)
        return found

    def exact(
        source: Read, weights: Read, result: Update,
        # The results: positions p0 .. p1, counted without features, and features.
        p0: Count, p1: Count, f0: Count, f1: Count,
        positions: Positions, channels: FeatureCounts, d0: Spatial, d1: Spatial, d2: Spatial,
    ) -> None:  # fmt: skip
        after, features, line, last_low, last_high = positions
        p = p0
        while p < p1:
            within = whole_mod(p, line)
            stop = min(p1, p + line - within)
            inside = _is_between(_index(p, d0), d0.low, d0.high)
            inside = inside * _is_between(_index(p, d1), d1.low, d1.high)
            inside = inside * _is_between(_index(p, d2), d2.low, d2.high)
            # The first part of a line is followed by positions whose windows are inside the input.
            begin = select(inside > 0, max(min(p - within + last_low, stop), p), stop)
            end = select(inside > 0, max(min(p - within + last_high, stop), begin), stop)
            for half in range(0, 2):
                first = select(half == 0, p, end)
                last = select(half == 0, begin, stop)
                # Neighbours in memory are features, or positions if these are the last dimensions.
                rows = select(after == 1, last - first, select(last > first, f1 - f0, 0))
                columns = select(after == 1, f1 - f0, last - first)
                for row in range(0, rows):
                    q = select(after == 1, first + row, first)
                    f = select(after == 1, f0, f0 + row)
                    at = (whole_div(q, after) * features + f) * after + whole_mod(q, after)
                    found = has_nan(result, at, columns)
                    for column in range(0, columns * found):
                        value = reload(result, at + column)
                        if differs(value, value):
                            z = select(after == 1, q, q + column)
                            g = select(after == 1, f + column, f)
                            image = whole_mod(whole_div(z, channels.batch_apart), channels.batches)
                            read = image * channels.batch_read
                            read += whole_div(g, channels.group) * channels.group_read
                            weight = channels.first_weight + g * channels.output_weights
                            at0 = _index(z, d0) * d0.stride + d0.start
                            at1 = _index(z, d1) * d1.stride + d1.start
                            at2 = _index(z, d2) * d2.stride + d2.start
                            total = zero
                            t0 = 0
                            while t0 < d0.taps:
                                s0 = at0 + t0 * d0.reach
                                e0 = whole_div(max(s0, 0), d0.gap)
                                t1 = select(_is_element(s0, e0, d0) > 0, 0, d1.taps)
                                while t1 < d1.taps:
                                    s1 = at1 + t1 * d1.reach
                                    e1 = whole_div(max(s1, 0), d1.gap)
                                    t2 = select(_is_element(s1, e1, d1) > 0, 0, d2.taps)
                                    while t2 < d2.taps:
                                        s2 = at2 + t2 * d2.reach
                                        e2 = whole_div(max(s2, 0), d2.gap)
                                        is_there = _is_element(s2, e2, d2)
                                        left = read + e0 * d0.read + e1 * d1.read + e2 * d2.read
                                        right = weight + t0 * d0.tap + t1 * d1.tap + t2 * d2.tap
                                        for k in range(0, channels.inputs * is_there):
                                            x = load(source, left + k * channels.input_read)
                                            w = load(weights, right + k * channels.input_weights)
                                            total = plus(total, multiply(x, w))
                                        # A NaN sum stays NaN.
                                        is_nan = differs(total, total)
                                        t2 = select(is_nan, d2.taps, t2 + 1)
                                    t1 = select(differs(total, total), d1.taps, t1 + 1)
                                t0 = select(differs(total, total), d0.taps, t0 + 1)
                            store(result, at + column, total)
            p = stop

    # All results are tested; few are recomputed, if any.
    routine = routine_of(
        f"exact_sums_{kind}", exact, lambda n: (n["p1"] - n["p0"]) * (n["f1"] - n["f0"])
    )
    return PythonFunction(routine, exact, Effort.OPTIMISED)


EXACT_SUMS = by_name(map(_function, ("f32", "f64", "c64", "c128")))
"""Every function of this module by its name in kernels."""
