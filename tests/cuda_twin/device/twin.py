"""Kernels of a GPU on the host: the text that becomes PTX, compiled for the processor.

Registers of a thread become variables, which a loop over the blocks and threads of a launch sets.
The order of blocks and threads is free on a GPU, so results must be the same in any.
"""

import ctypes
import hashlib
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from tests.corpus.kept import kept
from tests.cuda_twin.device.guarded import Guarded
from tests.cuda_twin.device.runtime import CONTEXT_BYTES, MISSES, RUN, RUNTIME, STACK_BYTES
from xla_server.codegen.compiler.kernel_compiler import object_of_module
from xla_server.codegen.compiler.llvm_text import ModuleText
from xla_server.codegen.compiler.loader import Loader
from xla_server.codegen.gpu.emit.emitter import grid_module
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.codegen.kernel_ir.expressions import Usage
from xla_server.codegen.kernel_ir.statements import Barrier, Shuffle
from xla_server.codegen.kernel_ir.walk import walk
from xla_server.target.machine import Machine

HOST = Machine.host()
DEVICE = Machine.cuda("sm_90")

ORDERS = ("forward", "backward", "shuffled")
"""The orders of blocks and threads that every launch is repeated in."""

_REGISTER = r'@"llvm\.nvvm\.read\.ptx\.sreg\.([a-z.]+)"\(\)'
_SHUFFLE = '@"llvm.nvvm.shfl.sync.bfly.i32"'
_BARRIER = '@"llvm.nvvm.barrier.cta.sync.aligned.all"'
_SHARED = re.compile(r'^@"(\w+)" = internal addrspace\(3\) global \[(\d+) x i8\]', re.MULTILINE)
_DECLARED = re.compile(r'^declare \w+ @"llvm\.nvvm\..*$', re.MULTILINE)
_TARGET = re.compile(r"^target .*$", re.MULTILINE)


def host_text(text: str, kernels: Mapping[str, GridKernel]) -> str:
    """Return the text of a module for a GPU as one of a processor, with what launches its kernels.

    Registers are variables, a shuffle and a barrier functions of the runtime; shared arrays are
    filled with a pattern. All else is as it was.
    """
    text = _TARGET.sub("", text.replace("ptx_kernel ", "").replace('"nvvm.', 'noinline "nvvm.'))
    text = re.sub(f"call i32 {_REGISTER}", r"load i32, ptr @twin_\1", _DECLARED.sub("", text))
    text = text.replace(f"call i32 {_SHUFFLE}", "call i32 @twin_shuffle")
    text = text.replace(f"call void {_BARRIER}", "call void @twin_barrier")
    filled = [
        f"  call void @llvm.memset.p0.i64(ptr addrspacecast (ptr addrspace(3) @{name} to ptr), "
        f"i8 -1, i64 {size}, i1 false)"
        for name, size in _SHARED.findall(text)
    ]
    forget = ["define internal void @twin_forget() {", *filled, "  ret void", "}"]
    labels = " ".join(f"i64 {number}, label %kernel{number}" for number in range(len(kernels)))
    cases = [_case(number, symbol, grid) for number, (symbol, grid) in enumerate(kernels.items())]
    launch = [_LAUNCH.format(labels=labels), *cases, "}"]
    return "\n".join([text, RUNTIME, *forget, *launch])


_LAUNCH = """
define internal void @twin_launch() {{
  %kernel = load i64, ptr @twin_kernel
  %table = load ptr, ptr @twin_table
  switch i64 %kernel, label %end [{labels}]
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
    lines += [f'  call void @"{symbol}"({", ".join(given)})', "  ret void"]
    return "\n".join(lines)


def object_code(text: str, effort: Effort) -> bytes:
    """Return the object code of a module's text, which one test of a session compiles."""
    name = hashlib.sha256(f"{effort} {text}".encode()).hexdigest()
    return kept(f"twin-{name}", lambda: object_of_module(ModuleText(text), HOST, effort))


class Twin:
    """The kernels of one module, compiled for the host."""

    def __init__(self, kernels: Mapping[str, GridKernel], effort: Effort = Effort.PLAIN) -> None:
        self.text = str(grid_module(kernels, DEVICE))
        self._kernels = dict(kernels)
        code = object_code(host_text(self.text, kernels), effort)
        self._loader = Loader(HOST)
        address = self._loader.load(code, RUN)
        self._run = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 7)(address)

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
        made = [unwritten(dtype, sizes) for dtype, sizes in results]
        return self.launched(symbol, [*arguments, *made])[len(arguments) :]

    def launched(
        self, symbol: str, arrays: Sequence[Any], over: Mapping[int, int] = MappingProxyType({})
    ) -> list[Any]:
        """Return what buffers have after a launch, which is the same in every order.

        `arrays` are what they have before, by their numbers. Those that `over` has are in the
        memory of another one. Raises AssertionError as `run` does.
        """
        given = [np.asarray(array) for array in arrays]
        found = [self._launch(symbol, given, order, over) for order in ORDERS]
        for order, others in zip(ORDERS[1:], found[1:], strict=True):
            for number, (one, other) in enumerate(zip(found[0], others, strict=True)):
                assert one.tobytes() == other.tobytes(), f"{symbol}: buffer {number}, {order}"
        return found[0]

    def _launch(
        self, symbol: str, given: Sequence[Any], order: str, over: Mapping[int, int]
    ) -> list[Any]:
        grid = self._kernels[symbol]
        memory = [Guarded(array.nbytes) for array in given]
        for guarded, array in zip(memory, given, strict=True):
            guarded.put(array)
        for result, operand in over.items():
            memory[result] = memory[operand]
        table = np.array([memory[each.number].address for each in grid.kernel.buffers], np.int64)
        orders = [in_order(order, count) for count in (grid.blocks, grid.threads)]
        places = [array.ctypes.data for array in (table, *orders)]
        number = list(self._kernels).index(symbol)
        fibers = fiber_memory(grid.threads) if has_fibers(grid) else None
        begin = 0 if fibers is None else fibers.ctypes.data
        missed = self._run(number, places[0], grid.blocks, grid.threads, *places[1:], begin)
        for bit, what in MISSES.items():
            assert not missed & bit, f"{symbol}: a thread missed {what}"
        for buffer in grid.kernel.buffers:
            assert memory[buffer.number].is_intact, f"{symbol}: stored around {buffer.name}"
            if buffer.usage is Usage.READ and buffer.number not in over.values():
                kept = given[buffer.number].tobytes() == memory[buffer.number].bytes.tobytes()
                assert kept, f"{symbol}: stored to {buffer.name}"
        found = zip(given, memory, strict=True)
        return [each.bytes.copy().view(array.dtype).reshape(array.shape) for array, each in found]


def unwritten(dtype: Any, sizes: Sequence[int]) -> Any:
    """Return an array that nothing was stored to: a pattern that is a NaN of every float."""
    array = np.empty(tuple(sizes), dtype)
    array.reshape(-1).view(np.uint8)[:] = 0xFF
    return array


def has_fibers(grid: GridKernel) -> bool:
    """Return whether the threads of a kernel wait for each other."""
    return any(isinstance(each, Shuffle | Barrier) for each, _ in walk(grid.kernel.body))


def fiber_memory(threads: int) -> Any:
    """Return memory for the contexts of a block's threads and their stacks."""
    return np.empty(((threads + 1) * CONTEXT_BYTES + threads * STACK_BYTES) // 8, np.int64)


def in_order(order: str, count: int) -> Any:
    """Return the numbers of so many blocks or threads in one of the orders."""
    numbers = np.arange(count, dtype=np.int32)
    if order == "backward":
        return numbers[::-1].copy()
    return np.random.default_rng(count).permutation(numbers) if order == "shuffled" else numbers
