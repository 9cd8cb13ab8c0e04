"""Cancellation points of kernels.

The executor polls the cancellation flag between chunks of work items. A kernel whose work items
exceed the time in which a cancellation must take effect has the flag (CANCELLATION) among its
arguments, polls it, and returns once it is not 0. Its unfinished results are never read, because
the execution ends with it.

Calls that cannot be cancelled while they run: LAPACK's for eigenvalues, singular values, pivoted QR
factors, products with reflectors, Schur, Hessenberg and tridiagonal forms and tridiagonal systems;
and functions that the server's operator registered. Other LAPACK calls process large matrices in
blocks (matrix_blocks.py); long Fourier transforms are cut into work items of at most a few thousand
elements (fft_plan.py).
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence

from xla_server.codegen.kernel_ir.builder import Body, Loop
from xla_server.codegen.kernel_ir.expressions import Buffer, Expression, integer_op, plus
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Stop

LONG_WORK_ITEM = 3 << 22
"""Time of a long work item, in additions: some milliseconds. Shorter ones do not poll the flag."""

SPAN = 1 << 14
"""Elements between two polls of the flag, if each element may take a microsecond."""


def is_long(kernel: Kernel, items: int = 1) -> bool:
    """Return whether work items are so long that they have to poll the cancellation flag.

    `items` is the number of work items whose work a single one may have to do.
    """
    item, prologue = kernel.work.times
    return items * item + prologue >= LONG_WORK_ITEM


def polling_if_long(build: Callable[[bool], Kernel]) -> Kernel:
    """Return `build(polls)`, where `polls` says whether the kernel's work items are long."""
    kernel = build(False)
    return build(True) if is_long(kernel) else kernel


@contextlib.contextmanager
def watched_loop(
    outside: Body,
    name: str,
    high: Expression,
    low: Expression,
    iterations: float,
    flag: Buffer | None,
    span: int,
) -> Iterator[Loop]:
    """Begin a loop that polls the cancellation flag, if any, every `span` iterations."""
    if flag is None:
        with Loop(outside, name, high, low, iterations=iterations) as loop:
            yield loop
        return
    with Loop(
        outside, f"{name}_begin", high, low, step=span, iterations=iterations / span
    ) as spans:
        spans.add(Stop(flag))
        end = integer_op("minimum", plus(spans.axis, span), high)
        with Loop(spans, name, end, spans.axis, iterations=span) as loop:
            yield loop


def span_of(sizes: Sequence[int], inside: int = 1) -> tuple[int, int]:
    """Return the number of the nested loop that polls, and its iterations between two polls.

    `sizes` are the loops' lengths, outermost first; `inside` is the number of elements in one
    iteration of the last. The innermost loop with at least SPAN elements polls, else the outermost.
    """
    for number in reversed(range(len(sizes))):
        if inside * sizes[number] >= SPAN or number == 0:
            return number, max(1, SPAN // inside)
        inside *= sizes[number]
    return 0, 1
