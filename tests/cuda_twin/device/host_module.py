"""Modules of the twin as bytes: object code of the host, and what its launches must be like.

A module is a line of JSON, which has the facts of each kernel, and an object.
"""

import ctypes
import dataclasses
import json
import threading
from collections.abc import Mapping, Sequence

import numpy as np

from tests.cuda_twin.device.runtime import MISSES, RUN
from tests.cuda_twin.device.twin import (
    HOST,
    ORDERS,
    fiber_memory,
    has_fibers,
    host_text,
    in_order,
    object_code,
)
from xla_server.codegen.compiler.loader import Loader
from xla_server.codegen.gpu.emit.emitter import grid_module
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.target.machine import Machine

MAX_SHUFFLED_BLOCKS = 1 << 14
"""Blocks of a launch that are put in random order; of more, the order is forward or backward."""


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """A kernel of a module: its buffers, the threads of its blocks, and whether they wait."""

    symbol: str
    buffers: int
    threads: int
    has_fibers: bool


def written(
    kernels: Mapping[str, GridKernel],
    machine: Machine,
    effort: Effort = Effort.PLAIN,
) -> bytes:
    """Return a module of kernels for a GPU by their symbols, compiled for the host."""
    code = object_code(host_text(str(grid_module(kernels, machine)), kernels), effort)
    facts = [
        Facts(symbol, len(grid.kernel.buffers), grid.threads, has_fibers(grid))
        for symbol, grid in kernels.items()
    ]
    return json.dumps(list(map(dataclasses.asdict, facts))).encode() + b"\n" + code


class HostModule:
    """A loaded module. Its kernels are launched one at a time, as their registers are variables."""

    def __init__(self, module: bytes) -> None:
        head, _, code = module.partition(b"\n")
        self._facts = [Facts(**each) for each in json.loads(head)]
        self._loader = Loader(HOST)
        address = self._loader.load(code, RUN)
        self._run = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 7)(address)
        self._lock = threading.Lock()
        self._launches = 0

    def kernel(self, symbol: str) -> "LoadedKernel":
        """Return a kernel by its symbol. Raises KeyError where there is none."""
        for number, facts in enumerate(self._facts):
            if facts.symbol == symbol:
                return LoadedKernel(self, number, facts)
        raise KeyError(symbol)

    def launch(self, number: int, blocks: int, threads: int, addresses: Sequence[int]) -> str:
        """Launch a kernel by its number, each time in the next order of blocks and threads.

        Returns what a thread missed that another one came to; nothing where there is none.
        """
        with self._lock:
            order = ORDERS[self._launches % len(ORDERS)]
            self._launches += 1
            of_blocks = (
                "backward" if order == "shuffled" and blocks > MAX_SHUFFLED_BLOCKS else order
            )
            table = np.array(addresses, np.int64)
            orders = in_order(of_blocks, blocks), in_order(order, threads)
            fibers = fiber_memory(threads) if self._facts[number].has_fibers else None
            begin = 0 if fibers is None else fibers.ctypes.data
            first, second = (array.ctypes.data for array in orders)
            missed = self._run(number, table.ctypes.data, blocks, threads, first, second, begin)
            return " and ".join(what for bit, what in MISSES.items() if missed & bit)


@dataclasses.dataclass(frozen=True, slots=True)
class LoadedKernel:
    """A kernel of a loaded module, which it keeps loaded."""

    module: HostModule
    number: int
    facts: Facts

    def launch(self, blocks: int, threads: int, addresses: Sequence[int]) -> None:
        """Launch it. Raises ValueError for what no driver takes, or a launch of another form.

        Raises RuntimeError where a GPU would wait for ever.
        """
        facts = self.facts
        if blocks < 1 or threads != facts.threads or len(addresses) != facts.buffers:
            raise ValueError(
                f"{facts.symbol} must be launched in blocks of {facts.threads} threads with "
                f"{facts.buffers} addresses, got {blocks} of {threads} with {len(addresses)}"
            )
        missed = self.module.launch(self.number, blocks, threads, addresses)
        if missed:
            raise RuntimeError(f"{facts.symbol}: a thread missed {missed}")
