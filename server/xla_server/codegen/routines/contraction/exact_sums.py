"""Results of a convolution summed again, without the zeros of padding and holes.

Fast kernels multiply those zeros with weights, and an infinite weight makes NaN of them. Only
results whose window leaves the input are looked at, and only those that are NaN are summed again.
"""

from numba import njit

from xla_server.codegen.compiler.shared_functions import PythonFunction, by_name
from xla_server.codegen.functions.table import FUNCTIONS
from xla_server.codegen.instructions.constants import CONSTANTS
from xla_server.codegen.instructions.intrinsics import add, mul, ne, select, whole_div, whole_mod
from xla_server.codegen.instructions.memory import MEMORY
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.routine import Count, Elements, Read, Routine, Update, routine_of

SPATIAL = 3
"""Spatial dimensions, those missing having one position."""


@njit(error_model="numpy")
def _is_between(number, low, high):  # type: ignore[no-untyped-def]
    return select(number >= low, select(number < high, 1, 0), 0)


def _function(kind: str) -> PythonFunction:
    """Return the function that sums results of a type again."""
    load, reload, store = (MEMORY[f"{name}_{kind}"] for name in ("load", "reload", "store"))
    is_complex = kind[0] == "c"
    zero = CONSTANTS[kind](0, 0) if is_complex else CONSTANTS[kind](0)
    multiply, plus, differs = mul, add, ne
    if is_complex:
        multiply, plus, differs = (FUNCTIONS[f"{name}_{kind}"] for name in ("mul", "add", "ne"))

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
        # Positions behind the feature dimension, and features.
        after: Count, features: Count,
        # The last dimension of positions: its size, and where windows are in the input.
        line: Count, last_low: Count, last_high: Count,
        # Features of a group, and from one group of the input to the next.
        group: Count, group_read: Elements,
        # Positions from one image to the next, images, and from one in the input to the next.
        batch_apart: Count, batches: Count, batch_read: Elements,
        # Input features of a group, and from one to the next; weights of an output feature.
        inputs: Count, input_read: Elements, input_weights: Elements,
        output_weights: Elements, first_weight: Elements,
        # Positions from one to the next, their number, and those with windows in the input; where
        # windows begin, from one to the next; elements of a window, between them; the input's size
        # and dilation; strides of input and window.
        apart0: Count, count0: Count, low0: Count, high0: Count, start0: Count, stride0: Count,
        taps0: Count, reach0: Count, size0: Count, gap0: Count, read0: Elements, tap0: Elements,
        apart1: Count, count1: Count, low1: Count, high1: Count, start1: Count, stride1: Count,
        taps1: Count, reach1: Count, size1: Count, gap1: Count, read1: Elements, tap1: Elements,
        apart2: Count, count2: Count, low2: Count, high2: Count, start2: Count, stride2: Count,
        taps2: Count, reach2: Count, size2: Count, gap2: Count, read2: Elements, tap2: Elements,
    ) -> None:  # fmt: skip
        p = p0
        while p < p1:
            within = whole_mod(p, line)
            stop = min(p1, p + line - within)
            inside = _is_between(whole_mod(whole_div(p, apart0), count0), low0, high0)
            inside = inside * _is_between(whole_mod(whole_div(p, apart1), count1), low1, high1)
            inside = inside * _is_between(whole_mod(whole_div(p, apart2), count2), low2, high2)
            # After the first part of a line come the positions whose windows are in the input.
            begin = select(inside > 0, max(min(p - within + last_low, stop), p), stop)
            end = select(inside > 0, max(min(p - within + last_high, stop), begin), stop)
            for half in range(0, 2):
                first = select(half == 0, p, end)
                last = select(half == 0, begin, stop)
                # Neighbours in memory are features, or positions where these come behind them.
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
                            image = whole_mod(whole_div(z, batch_apart), batches)
                            read = image * batch_read + whole_div(g, group) * group_read
                            weight = first_weight + g * output_weights
                            at0 = whole_mod(whole_div(z, apart0), count0) * stride0 + start0
                            at1 = whole_mod(whole_div(z, apart1), count1) * stride1 + start1
                            at2 = whole_mod(whole_div(z, apart2), count2) * stride2 + start2
                            total = zero
                            ends0, ends1, ends2 = size0 * gap0, size1 * gap1, size2 * gap2
                            t0 = 0
                            while t0 < taps0:
                                s0 = at0 + t0 * reach0
                                e0 = whole_div(max(s0, 0), gap0)
                                ok0 = select(e0 * gap0 == s0, _is_between(s0, 0, ends0), 0)
                                t1 = select(ok0 > 0, 0, taps1)
                                while t1 < taps1:
                                    s1 = at1 + t1 * reach1
                                    e1 = whole_div(max(s1, 0), gap1)
                                    ok1 = select(e1 * gap1 == s1, _is_between(s1, 0, ends1), 0)
                                    t2 = select(ok1 > 0, 0, taps2)
                                    while t2 < taps2:
                                        s2 = at2 + t2 * reach2
                                        e2 = whole_div(max(s2, 0), gap2)
                                        ok2 = select(e2 * gap2 == s2, _is_between(s2, 0, ends2), 0)
                                        left = read + e0 * read0 + e1 * read1 + e2 * read2
                                        right = weight + t0 * tap0 + t1 * tap1 + t2 * tap2
                                        for k in range(0, inputs * ok2):
                                            x = load(source, left + k * input_read)
                                            w = load(weights, right + k * input_weights)
                                            total = plus(total, multiply(x, w))
                                        # Once NaN, a sum stays so.
                                        is_nan = differs(total, total)
                                        t2 = select(is_nan, taps2, t2 + 1)
                                    t1 = select(differs(total, total), taps1, t1 + 1)
                                t0 = select(differs(total, total), taps0, t0 + 1)
                            store(result, at + column, total)
            p = stop

    # Results are looked at; few are summed again, if any.
    routine = routine_of(
        f"exact_sums_{kind}", exact, lambda n: (n["p1"] - n["p0"]) * (n["f1"] - n["f0"])
    )
    return PythonFunction(routine, exact, Effort.OPTIMISED)


EXACT_SUMS = by_name(map(_function, ("f32", "f64", "c64", "c128")))
"""Every function of this module by its name in kernels."""


def exact_sums(kind: str) -> Routine:
    """Return the routine that sums results of a type again."""
    return EXACT_SUMS[f"exact_sums_{kind}"].routine
