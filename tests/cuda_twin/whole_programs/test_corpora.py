"""Every program of the corpora is lowered for a GPU: to kernels that it takes, and no fault."""

import pytest

from tests.conformance.sweep.draws.depth import FULL
from tests.cuda_twin.device.twin import DEVICE
from tests.cuda_twin.lowered import compiled, grids
from tests.kernels.corpora import CORPORA
from xla_server.codegen.gpu.emit.emitter import grid_module
from xla_server.codegen.lower.fusion_faults import FUSION_FAULTS
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes


@pytest.mark.parametrize("corpus", CORPORA if FULL else ["golden", "hlo"])
def test_programs_are_lowered(corpus: str) -> None:
    for name, module in CORPORA[corpus]():
        if has_dynamic_shapes(module):
            continue
        before = FUSION_FAULTS.count
        code = compiled(module)
        assert FUSION_FAULTS.count == before, name
        kernels = {f"k{number}": grid for number, grid in enumerate(grids(code))}
        assert not any(grid.kernel.stack for grid in kernels.values()), name
        grid_module(kernels, DEVICE)
