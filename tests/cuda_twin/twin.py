"""Kernels of a GPU on the host: the text that becomes PTX, compiled for the processor.

Registers of a thread become variables, which a loop over the blocks and threads of a launch sets.
The order of blocks and threads is free on a GPU, so results must be the same in any.
"""

import ctypes
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.cuda_twin.guarded import Guarded
from xla_server.codegen.compiler.kernel_compiler import object_of_module
from xla_server.codegen.compiler.llvm_text import ModuleText
from xla_server.codegen.compiler.loader import Loader
from xla_server.codegen.gpu.emitter import grid_module
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.expressions import Role
from xla_server.target.machine import Machine

HOST = Machine.host()
DEVICE = Machine.cuda("sm_90")

ORDERS = ("forward", "backward", "shuffled")
"""The orders of blocks and threads that every launch is repeated in."""

_REGISTERS = ("ctaid.x", "tid.x")
_DECLARED = re.compile(r'^declare i32 @"llvm\.nvvm\.read\.ptx\.sreg\.([a-z.]+)"\(\)', re.MULTILINE)
_TARGET = re.compile(r"^target .*$", re.MULTILINE)
_RUN = "twin_run"


def host_text(text: str, kernels: Mapping[str, GridKernel]) -> str:
    """Return the text of a module for a GPU as one of a processor, with a function that launches.

    `twin_run(kernel, table, blocks, threads, block_order, thread_order)` takes the number of a
    kernel, a table of the addresses of its buffers, and the orders to go through its threads in.
    """
    text = _TARGET.sub("", text.replace("ptx_kernel ", "").replace('"nvvm.', 'noinline "nvvm.'))
    text = _DECLARED.sub(r'define i32 @"llvm.nvvm.read.ptx.sreg.\1"() { ret i32 0 }', text)
    for register in _REGISTERS:
        name = f'@"llvm.nvvm.read.ptx.sreg.{register}"'
        variable = f"@twin_{register}"
        text = text.replace(f"define i32 {name}() {{ ret i32 0 }}", "")
        text = text.replace(f"call i32 {name}()", f"load i32, ptr {variable}")
    cases = [_case(number, symbol, grid) for number, (symbol, grid) in enumerate(kernels.items())]
    labels = " ".join(f"i64 {number}, label %kernel{number}" for number in range(len(kernels)))
    return "\n".join([text, *_VARIABLES, _LOOPS.format(labels=labels), *cases, "}"])


_VARIABLES = [f"@twin_{register} = internal global i32 0" for register in _REGISTERS]
_LOOPS = f"""
define void @{_RUN}(i64 %kernel, ptr %table, i64 %blocks, i64 %threads, ptr %first, ptr %then) {{{{
entry:
  br label %block
block:
  %b = phi i64 [0, %entry], [%next_b, %done]
  %has_block = icmp ult i64 %b, %blocks
  br i1 %has_block, label %thread, label %end
thread:
  %t = phi i64 [0, %block], [%next_t, %after]
  %has_thread = icmp ult i64 %t, %threads
  br i1 %has_thread, label %launch, label %done
launch:
  %at_b = getelementptr i32, ptr %first, i64 %b
  %block_number = load i32, ptr %at_b
  store i32 %block_number, ptr @twin_ctaid.x
  %at_t = getelementptr i32, ptr %then, i64 %t
  %thread_number = load i32, ptr %at_t
  store i32 %thread_number, ptr @twin_tid.x
  switch i64 %kernel, label %end [{{labels}}]
after:
  %next_t = add i64 %t, 1
  br label %thread
done:
  %next_b = add i64 %b, 1
  br label %block
end:
  ret void
"""


def _case(number: int, symbol: str, grid: GridKernel) -> str:
    lines, given = [f"kernel{number}:"], []
    for position in range(len(grid.kernel.buffers)):
        name = f"%k{number}_{position}"
        lines += [
            f"  {name}_at = getelementptr i64, ptr %table, i64 {position}",
            f"  {name} = load ptr addrspace(1), ptr {name}_at",
        ]
        given.append(f"ptr addrspace(1) {name}")
    lines += [f'  call void @"{symbol}"({", ".join(given)})', "  br label %after"]
    return "\n".join(lines)


class Twin:
    """The kernels of one module, compiled for the host."""

    def __init__(self, kernels: Mapping[str, GridKernel], effort: Effort = Effort.PLAIN) -> None:
        self.text = str(grid_module(kernels, DEVICE))
        self._kernels = dict(kernels)
        code = object_of_module(ModuleText(host_text(self.text, kernels)), HOST, effort)
        self._loader = Loader(HOST)
        address = self._loader.load(code, _RUN)
        self._run = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 6)(address)

    def run(
        self, symbol: str, arguments: Sequence[Any], results: Sequence[tuple[Any, Sequence[int]]]
    ) -> list[Any]:
        """Return the results of a launch, which are the same in every order.

        Args:
            symbol: The kernel.
            arguments: The arrays that it reads, by the numbers of its buffers.
            results: The type and dimensions of those that follow them, which it writes.

        Raises:
            AssertionError: An order gave other results, or something else was stored to.
        """
        found = [self._launch(symbol, arguments, results, order) for order in ORDERS]
        for order, others in zip(ORDERS[1:], found[1:], strict=True):
            for number, (one, other) in enumerate(zip(found[0], others, strict=True)):
                assert one.tobytes() == other.tobytes(), f"{symbol}: result {number}, {order}"
        return found[0]

    def _launch(
        self,
        symbol: str,
        arguments: Sequence[Any],
        results: Sequence[tuple[Any, Sequence[int]]],
        order: str,
    ) -> list[Any]:
        grid = self._kernels[symbol]
        given = [np.asarray(argument) for argument in arguments]
        made = [np.empty(tuple(sizes), dtype) for dtype, sizes in results]
        memory = [Guarded(array.nbytes) for array in (*given, *made)]
        for guarded, array in zip(memory, given, strict=False):
            guarded.put(array)
        table = np.array([memory[each.number].address for each in grid.kernel.buffers], np.int64)
        orders = [_in_order(order, count) for count in (grid.blocks, grid.threads)]
        places = [array.ctypes.data for array in (table, *orders)]
        number = list(self._kernels).index(symbol)
        self._run(number, places[0], grid.blocks, grid.threads, *places[1:])
        for buffer in grid.kernel.buffers:
            assert memory[buffer.number].is_intact, f"{symbol}: stored around {buffer.name}"
            if buffer.role is Role.READ:
                kept = given[buffer.number].tobytes() == memory[buffer.number].bytes.tobytes()
                assert kept, f"{symbol}: stored to {buffer.name}"
        found = zip(made, memory[len(given) :], strict=True)
        return [each.bytes.copy().view(array.dtype).reshape(array.shape) for array, each in found]


def _in_order(order: str, count: int) -> Any:
    numbers = np.arange(count, dtype=np.int32)
    if order == "backward":
        return numbers[::-1].copy()
    return np.random.default_rng(count).permutation(numbers) if order == "shuffled" else numbers
