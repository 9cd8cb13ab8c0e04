"""Lowering of while for a GPU: a small loop of a known number of turns is done by one thread.

A loop that may be without end must be one that can be stopped: the host executes it where it is
small, and its iterations are rows otherwise.
"""

import dataclasses
from typing import Any

from xla_server.buffers.code import KernelThunk
from xla_server.codegen.gpu.lower.thunks.thread_thunks import thread_thunk
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import Part
from xla_server.codegen.lower.control import control
from xla_server.codegen.lower.control.small_loop import CountedLoop
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloInstruction
from xla_server.passes.loops.while_analysis import loop_of, trip_count
from xla_server.target.gpu import WARP


def lower_while(lowering: Lowering, i: HloInstruction) -> Deep[Tree]:
    """One kernel for a loop of few turns over few numbers, or as on a processor."""
    loop = loop_of(i)
    turns = None if loop is None else trip_count(loop)
    counted = None if turns is None else CountedLoop(turns, _by_one_thread)
    return control.lower_while(lowering, i, counted)


def _by_one_thread(name: str, kernel: Kernel, *given: Any, **options: Any) -> KernelThunk:
    """Return the thunk of a kernel whose statements are one work item."""
    alone = dataclasses.replace(kernel, body=(Part(None, 1, kernel.body),))
    return thread_thunk(name, alone, *given, threads=WARP, **options)
