"""The numba source of kernels in numba's simulator beside their machine code on the host.

`python -m tests.cuda_twin.numba_source.compared [CLASS...] [CORPUS...]` runs programs of classes
(`programs.py`) and of corpora, with NUMBA_ENABLE_CUDASIM=1. It prints a line of JSON for each
kernel: what differs, nothing where all bits are the same, and the classes of its program.
"""

import dataclasses
import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from tests.command_line import command_line
from tests.conformance.sweep.draws import drawing
from tests.cuda_twin.lowered import grids, results_of
from tests.cuda_twin.numba_source.programs import CLASSES, program, with_classes
from tests.cuda_twin.numba_source.simulator import run
from xla_contract.types.element_type import ElementType as E
from xla_server.buffers.code import HostThunk, KernelThunk
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes
from xla_server.ir.module import HloModule

INDICES = (E.S32, E.S64, E.U32)
"""Types of parameters that are mostly indices of elements and counters of loops."""

BOUNDS = (5, 1)
"""Bounds of indices: the second one is for programs that have not launched all kernels."""

VARIABLE = "NUMBA_ENABLE_CUDASIM"
"""The variable that makes numba.cuda its simulator."""


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """A kernel of a program: its launch, what was stored, and what differs from machine code.

    `left_out` is the reason where it was not executed.
    """

    program: str
    kernel: str
    launch: str
    classes: list[str]
    stored_bytes: int = 0
    differs: str = ""
    left_out: str = ""


def compared(name: str, module: HloModule) -> Iterator[Comparison]:
    """Compare each kernel of a program once, in the first and last block of its launch."""
    code, classes = with_classes(module)
    if any(isinstance(thunk, HostThunk) for thunk in code.thunks):
        left = dict.fromkeys(grids(code), "the program calls Python")
    else:
        found = _Observed(name, sorted(classes))
        for bound in BOUNDS:
            if found.seen.keys() < {grid.key for grid in grids(code)}:
                results_of(module, code, _arguments(module, bound), found.observe)
        yield from found.seen.values()
        left = {g: "no row launched it" for g in grids(code) if g.key not in found.seen}
    for grid, reason in left.items():
        yield Comparison(name, "", _launch(grid), sorted(classes), left_out=reason)


class _Observed:
    """The kernels that a run of a program launches."""

    def __init__(self, program: str, classes: list[str]) -> None:
        self._program, self._classes = program, classes
        self.seen: dict[str, Comparison] = {}

    def observe(self, row: KernelThunk, before: Sequence[Any], after: Sequence[Any]) -> None:
        grid = row.kernel
        assert isinstance(grid, GridKernel)
        if grid.key in self.seen:
            return
        facts = self._program, row.name, _launch(grid), self._classes
        if row.name.endswith(".addresses"):
            self.seen[grid.key] = Comparison(*facts, left_out="addresses differ")
            return
        found = [array.copy() for array in before]
        blocks = {0, grid.blocks - 1}
        try:
            stored = run(grid, found, blocks)
        except Exception as error:
            self.seen[grid.key] = Comparison(*facts, differs=f"{type(error).__name__}: {error}")
            return
        # Where all blocks run, nothing else may be stored to either.
        masks = stored if len(blocks) < grid.blocks else dict.fromkeys(stored, slice(None))
        different = [n for n, m in masks.items() if (found[n][m] != after[n][m]).any()]
        count = sum(int(mask.sum()) for mask in stored.values())
        differs = f"buffers {different}" if different else ""
        self.seen[grid.key] = Comparison(*facts, stored_bytes=count, differs=differs)


def _launch(grid: GridKernel) -> str:
    return f"{grid.blocks} x {grid.threads}"


def _arguments(module: HloModule, bound: int) -> list[Any]:
    """Return drawn arguments, with numbers below a bound as indices."""
    found = []
    for number, parameter in enumerate(module.entry.parameters):
        kind, dimensions = parameter.shape.element_type, parameter.shape.dimensions
        array = drawing.array(kind, dimensions, number, special=False)
        found.append(array % bound if kind in INDICES else array)
    return found


def _chosen(names: Sequence[str]) -> Iterator[tuple[str, HloModule]]:
    for name in names:
        if name in CLASSES:
            yield name, program(name)
        else:
            # Not above: it imports jax.
            from tests.kernels.corpora import CORPORA

            yield from (each for each in CORPORA[name]() if not has_dynamic_shapes(each[1]))


if __name__ == "__main__":
    parser = command_line("tests.cuda_twin.numba_source.compared", __doc__)
    known = f"one of {', '.join(CLASSES)}, or a corpus of tests.kernels; by default all classes"
    parser.add_argument("names", metavar="name", nargs="*", help=known)
    names = parser.parse_args().names or list(CLASSES)
    if os.environ.get(VARIABLE) != "1":
        parser.error(f"{VARIABLE} must be 1")
    for name, module in _chosen(names):
        for comparison in compared(name, module):
            print(json.dumps(dataclasses.asdict(comparison)), flush=True)
