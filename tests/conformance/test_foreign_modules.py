"""Modules of XLA's own tools are read, verified, and written again without a difference."""

from collections.abc import Callable

import pytest

from tests.corpus.hlo_text import print_hlo
from tests.corpus.jax.programs import OPTIMIZED, PROGRAMS
from xla_contract.errors import UnimplementedError
from xla_contract.stubs import hlo_pb2
from xla_server.ir.exporter import export_module
from xla_server.ir.importer import import_module
from xla_server.ir.verification.verifier import verify

NOT_OFFERED: dict[str, str] = {}


def instructions(proto: hlo_pb2.HloModuleProto) -> list[hlo_pb2.HloInstructionProto]:
    return [part for computation in proto.computations for part in computation.instructions]


def check(make: Callable[[], bytes], missing: str | None) -> None:
    proto = hlo_pb2.HloModuleProto.FromString(make())
    if missing is not None:
        with pytest.raises(UnimplementedError, match=rf"^{missing} %.*, got opcode {missing}$"):
            import_module(proto)
        return
    module = import_module(proto)
    verify(module)
    written = export_module(module)
    assert instructions(written) == instructions(proto)
    assert print_hlo(written) == print_hlo(proto)


@pytest.mark.parametrize("name", PROGRAMS)
def test_lowered(name: str) -> None:
    check(PROGRAMS[name], NOT_OFFERED.get(name))


@pytest.mark.parametrize("name", OPTIMIZED)
def test_optimized(name: str) -> None:
    check(OPTIMIZED[name], None)
