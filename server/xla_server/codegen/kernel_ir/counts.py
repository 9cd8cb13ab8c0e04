"""Counts of a kernel's evaluations of each value, from its statements.

An instruction of HLO has each of its elements once. A kernel may evaluate an element again: for
each chunk of work items, for each row, for each reader that asks at another index. The count is
exact for given sizes, whatever decided to put the instruction there.
"""

import math
from collections.abc import Mapping

from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import (
    Accumulate,
    For,
    Let,
    Part,
    Set,
    Statement,
    Store,
    While,
)
from xla_server.codegen.kernel_ir.walk import walk


def evaluations(kernel: Kernel, calls: int) -> Mapping[int, float]:
    """Return how often a launch of so many calls evaluates each origin."""
    found: dict[int, float] = {}
    # Paths end with the statement directly around, so the one before them is known already.
    times: dict[int, float] = {}
    for statement, path in walk(kernel.body):
        around = times[id(path[-1])] if path else float(calls)
        if isinstance(statement, For | While | Part):
            times[id(statement)] = _executions(statement, around, calls)
        else:
            times[id(statement)] = around
        if isinstance(statement, Let | Set | Accumulate | Store) and statement.origin is not None:
            found[statement.origin] = found.get(statement.origin, 0.0) + around
    return found


def _executions(loop: Statement, around: float, calls: int) -> float:
    """Return how often a launch executes the body of a loop that is executed `around` times."""
    match loop:
        case For(iterations=iterations) | While(expected=iterations):
            return around * iterations
        case Part(is_range=True):
            return around
        case Part(items=items, step=1):
            return float(items)
        case Part(items=items, step=step):
            return around * math.ceil(math.ceil(items / calls) / step)
    return around
