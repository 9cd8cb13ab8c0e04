"""Rows of single instructions, lowered for one processor whichever the host is."""

from collections.abc import Sequence

from tests.processors import MACHINES
from tests.unit.passes.passing import stated
from xla_server.buffers.code import Code, KernelThunk
from xla_server.codegen.lower.lowering import lower
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.target.target import Target

AVX2 = Target.of(MACHINES["avx2"])


def lowered(parameters: Sequence[str], root: str, *before: str, target: Target = AVX2) -> Code:
    """Return the rows of HLO text without passes; its parameters are x0 to xn."""
    return lower(stated(parameters, root, *before), LOWERINGS, target)


def kernels(parameters: Sequence[str], root: str, *before: str) -> list[KernelThunk]:
    """Return the rows of `lowered`, all of which call kernels."""
    found = []
    for thunk in lowered(parameters, root, *before).thunks:
        assert isinstance(thunk, KernelThunk)
        found.append(thunk)
    return found


def sizes(thunk: KernelThunk) -> dict[str, tuple[int, ...]]:
    """Return the dimensions of what a kernel writes, by names."""
    return {value.name: value.shape.dimensions for value in thunk.writes}
