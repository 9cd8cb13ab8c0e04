"""The table of a GPU: every opcode is a kernel, a plan of a library, rows, or the host's."""

import numpy as np

from tests.cuda_twin.lowered import grids, lowered, through_host
from tests.cuda_twin.programs import TARGET
from tests.unit.codegen.compiled import built
from xla_client import ops
from xla_contract.types.opcode import Opcode
from xla_server.codegen.gpu.grid import GridKernel
from xla_server.codegen.gpu.lower.table import CUDA_LOWERINGS
from xla_server.codegen.gpu.lower.thunks.through_host import ThroughHost, host
from xla_server.codegen.lower.lowering import kernels_of, lower
from xla_server.codegen.lower.lowerings import LOWERINGS

FLOATS = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_every_opcode_that_processors_lower_is_lowered() -> None:
    assert set(CUDA_LOWERINGS) == set(LOWERINGS)


def test_elements_are_computed_on_the_device() -> None:
    code = lowered(built(lambda x: ops.exp(x), (FLOATS,)))
    assert len(grids(code)) == 1
    assert through_host(code) == []


def test_what_the_host_does_is_lowered_as_for_the_host() -> None:
    module = built(lambda x: ops.exp(ops.cholesky(ops.exp(x), lower=True)), (FLOATS[:3, :3],))
    table = {**CUDA_LOWERINGS, Opcode.CHOLESKY: ThroughHost(LOWERINGS[Opcode.CHOLESKY])}
    first, *inside, last = kernels_of(lower(module, table, TARGET))
    assert isinstance(first.kernel, GridKernel)
    assert isinstance(last.kernel, GridKernel)
    expected = kernels_of(lower(module, LOWERINGS, host()))[1:-1]
    assert [row.source for row in inside] == [row.source for row in expected]


def test_an_opcode_of_the_host_is_said_to_be() -> None:
    assert isinstance(CUDA_LOWERINGS[Opcode.INFEED], ThroughHost)
    assert not isinstance(CUDA_LOWERINGS[Opcode.ADD], ThroughHost)
