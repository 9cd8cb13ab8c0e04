"""Cancellation points of kernels for a GPU.

A kernel in which the work of a thread may reach UNSEEN_WORK polls the cancellation flag in its
loops, once per SPAN_WORK, and returns once it is set. Where only the threads that one lane executes
in sequence reach it together, each polls before it begins. The run ends with the kernel, and none
of its results is read. Other kernels have no flag among their arguments.

A loop of unknown bounds counts with its mean number of iterations. Loops of a program that may be
endless poll by themselves (codegen/schedules/nests/scalar_loop.py). Threads with barriers or
exchanges must return together, so they poll only in loops that all of them execute alike.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from xla_server.codegen.kernel_ir import expressions as ir
from xla_server.codegen.kernel_ir import statements as stmt
from xla_server.codegen.kernel_ir.analysis.counts import Work, work_of_loops
from xla_server.codegen.kernel_ir.analysis.verify import varies, varying_in
from xla_server.codegen.kernel_ir.builder import Names
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.kernel_ir.walk import meets, walk
from xla_server.target.gpu.properties import (
    ACCESS_ADDITIONS,
    COUNTED_LANES,
    ENTRY_WORK,
    FLAG_BYTES,
    SPAN_WORK,
    STATIC_SHARED_BYTES,
    UNSEEN_WORK,
)


def stoppable(kernel: Kernel, argument: int) -> Kernel:
    """Return a kernel that polls the flag, argument number `argument`, if threads may be long."""
    shared = sum(array.byte_size for array in kernel.shared)
    if (
        any(isinstance(each, stmt.Stop) for each, _ in walk(kernel.body))
        or shared + FLAG_BYTES > STATIC_SHARED_BYTES
    ):
        return kernel
    flag, names = ir.Buffer(argument, ir.Usage.FLAG), Names("span")
    body = tuple(
        _Watched(each, flag, names).part if isinstance(each, stmt.ParallelFor) else each
        for each in kernel.body
    )
    if body == kernel.body:
        return kernel
    return dataclasses.replace(kernel, buffers=(*kernel.buffers, flag), body=body)


class _Watched:
    """A parallel loop with polls in its serial loops, if a work item may take long."""

    def __init__(self, part: stmt.ParallelFor, flag: ir.Buffer, names: Names) -> None:
        self._part, self._flag, self._names = part, flag, names
        self._work: Mapping[int, tuple[float, Work]] = work_of_loops(part)
        self._meets = meets(part)
        self._varying = varying_in(part) if self._meets else set()
        self.part = part
        _, work = self._work[id(part)]
        if _additions(work) >= UNSEEN_WORK:
            self.part = dataclasses.replace(part, body=self._all(part.body))
        if self._is_wide(work):
            self.part = dataclasses.replace(part, body=(stmt.Stop(flag), *self.part.body))

    def _is_wide(self, work: Work) -> bool:
        """Return whether threads that wait for others to end poll before they begin."""
        all_threads = _additions(work) * self._part.items
        return (
            all_threads >= UNSEEN_WORK * COUNTED_LANES
            and work.operations + work.accesses >= ENTRY_WORK
            # Most threads may leave a loop long before its end.
            and not any(isinstance(each, stmt.Break) for each, _ in walk(self._part.body))
        )

    def _all(self, body: Sequence[stmt.Statement]) -> tuple[stmt.Statement, ...]:
        return tuple(new for each in body for new in self._watched(each))

    def _watched(self, statement: stmt.Statement) -> Iterator[stmt.Statement]:
        """Yield a statement with polls inside."""
        if not self._is_alike(statement):
            yield statement
            return
        match statement:
            case stmt.If(test=test, body=body, orelse=orelse, share=share):
                yield stmt.If(test, self._all(body), self._all(orelse), share)
            case stmt.For() if self._total(statement) >= 2 * SPAN_WORK:
                inner = dataclasses.replace(statement, body=self._all(statement.body))
                polls = statement.unrolled or any(map(self._always_polls, statement.body))
                yield from (inner,) if polls else self._in_spans(statement, inner)
            case _:
                yield statement

    def _is_alike(self, statement: stmt.Statement) -> bool:
        """Return whether threads with barriers or exchanges execute a branch or loop alike."""
        read = stmt.expressions_of(statement)
        return not any(varies(each, self._varying, self._part) for each in read)

    def _always_polls(self, statement: stmt.Statement) -> bool:
        """Return whether each iteration of the loop around it reaches a poll of this statement."""
        return (
            isinstance(statement, stmt.For)
            and self._total(statement) >= 2 * SPAN_WORK
            and self._is_alike(statement)
            and not _breaks(statement.body)
        )

    def _total(self, loop: stmt.For) -> float:
        iterations, work = self._work[id(loop)]
        return iterations * _additions(work)

    def _in_spans(self, loop: stmt.For, inner: stmt.For) -> Iterator[stmt.Statement]:
        """Yield a loop in spans of SPAN_WORK, with a poll after each but the last."""
        is_left = _breaks(loop.body)
        if is_left and self._meets:
            # A thread may leave the loop before others.
            yield loop
            return
        iterations, work = self._work[id(loop)]
        span = max(1, int(SPAN_WORK / _additions(work))) * loop.step
        begin, going = ir.Value(self._names(""), Type.I64), ir.Cell(self._names("_going"), Type.B1)
        behind = ir.plus(begin, span)
        end = ir.integer_op("minimum", behind, loop.high)
        body: list[stmt.Statement] = []
        if is_left:
            yield stmt.Declare(going, ir.Const(Type.B1, (1,)))
            inner = dataclasses.replace(inner, body=_flagged(inner.body, going))
        body.append(dataclasses.replace(inner, low=ir.Index(0, ((begin, 1),)), high=end))
        if is_left:
            body.append(stmt.If(ir.condition("bit_not", going), (stmt.Break(),)))
        body.append(stmt.If(ir.condition("lt", behind, loop.high), (stmt.Stop(self._flag),)))
        spans = iterations * loop.step / span
        yield stmt.For(begin, loop.low, loop.high, tuple(body), spans, span)


def _additions(work: Work) -> float:
    return max(1.0, work.operations + ACCESS_ADDITIONS * work.accesses)


def _breaks(body: Sequence[stmt.Statement]) -> bool:
    """Return whether a loop is left by a Break of its body."""
    return any(
        isinstance(each, stmt.Break) and not any(isinstance(s, stmt.For | stmt.While) for s in path)
        for each, path in walk(body)
    )


def _flagged(body: Sequence[stmt.Statement], going: ir.Cell) -> tuple[stmt.Statement, ...]:
    """Return the body of a loop that clears a flag where it is left."""
    found: list[stmt.Statement] = []
    for each in body:
        if isinstance(each, stmt.Break):
            found.append(stmt.Set(going, ir.Const(Type.B1, (0,))))
        if isinstance(each, stmt.If):
            each = stmt.If(
                each.test, _flagged(each.body, going), _flagged(each.orelse, going), each.share
            )
        found.append(each)
    return tuple(found)
