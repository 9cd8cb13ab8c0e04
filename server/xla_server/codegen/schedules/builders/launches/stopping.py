"""Cancellation points of kernels.

The executor polls between chunks of work items. A kernel whose work items take longer than a client
may wait has the cancellation flag (CANCELLATION) among its arguments, polls it, and returns once it
is not 0. Results left unfinished are not read: the execution ends with the kernel.

Not cancellable inside are: one call of LAPACK for eigenvalues, singular values, pivoted QR factors,
products with reflectors, Schur, Hessenberg and tridiagonal forms and tridiagonal systems; and a
function that an operator registered. Large matrices of other calls of LAPACK are done by blocks
(matrix_blocks.py), long lines of a Fourier transform by work items of at most a few thousand
elements (fft_plan.py).
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence

from xla_server.codegen.kernel_ir.builder import Body, Loop
from xla_server.codegen.kernel_ir.expressions import Buffer, Expression, integer_op, plus
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Stop

LONG_WORK_ITEM = 3 << 22
"""Time in additions from which a work item is long: some milliseconds."""

SPAN = 1 << 14
"""Elements between two polls, if each element may cost a microsecond."""


def is_long(kernel: Kernel, items: int = 1) -> bool:
    """Return whether work items are so long that they have to poll the cancellation flag.

    In the worst case one work item does the work of all `items`.
    """
    item, prologue = kernel.work.times
    return items * item + prologue >= LONG_WORK_ITEM


def looking(build: Callable[[bool], Kernel]) -> Kernel:
    """Build a kernel, which polls the cancellation flag if work items are long."""
    kernel = build(False)
    return build(True) if is_long(kernel) else kernel


@contextlib.contextmanager
def watched_loop(
    outside: Body,
    name: str,
    high: Expression,
    low: Expression,
    iterations: float,
    word: Buffer | None,
    span: int,
) -> Iterator[Loop]:
    """Begin a loop that polls the cancellation flag, if any, before each span of iterations."""
    if word is None:
        with Loop(outside, name, high, low, iterations=iterations) as loop:
            yield loop
        return
    with Loop(
        outside, f"{name}_begin", high, low, step=span, iterations=iterations / span
    ) as spans:
        spans.add(Stop(word))
        end = integer_op("minimum", plus(spans.axis, span), high)
        with Loop(spans, name, end, spans.axis, iterations=span) as loop:
            yield loop


def span_of(sizes: Sequence[int], inside: int = 1) -> tuple[int, int]:
    """Return which of nested loops, outermost first, polls, and after how many iterations.

    It is the innermost one with at least SPAN elements per iteration, else the outermost; `inside`
    is the number of elements of an iteration of the last loop.
    """
    for number in reversed(range(len(sizes))):
        if inside * sizes[number] >= SPAN or number == 0:
            return number, max(1, SPAN // inside)
        inside *= sizes[number]
    return 0, 1
