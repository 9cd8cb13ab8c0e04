"""Lowering of while for a GPU: one thread executes a small loop.

A loop that may take long polls the cancellation flag. Other loops become thunks.
"""

import dataclasses
from typing import Any

from xla_server.buffers.code import KernelThunk
from xla_server.codegen.gpu.lower.thunks.thread_thunks import thread_thunk
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.kernel_ir.statements import ParallelFor
from xla_server.codegen.lower.control import control
from xla_server.codegen.lower.control.small_loop import DeviceLoop
from xla_server.codegen.lower.lowering import Lowering, Tree
from xla_server.ir.explicit_stack import Deep
from xla_server.ir.module import HloInstruction
from xla_server.passes.loops.while_analysis import loop_of, trip_count
from xla_server.target.gpu.properties import WARP


def lower_while(lowering: Lowering, i: HloInstruction) -> Deep[Tree]:
    """Add one kernel for a loop over few scalars, or thunks as on a processor."""
    loop = loop_of(i)
    iterations = None if loop is None else trip_count(loop)
    return control.lower_while(lowering, i, DeviceLoop(iterations, _by_one_thread))


def _by_one_thread(name: str, kernel: Kernel, *operands: Any, **options: Any) -> KernelThunk:
    """Return the thunk of a kernel of one work item, which polls cancellation itself."""
    alone = dataclasses.replace(kernel, body=(ParallelFor(None, 1, kernel.body),))
    return thread_thunk(name, alone, *operands, threads=WARP, polls=False, **options)
