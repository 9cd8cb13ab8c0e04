"""Rpcs that read programs end at the next instruction when their caller gives up."""

from typing import Any

import pytest

from xla_contract.errors import CancelledError
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_server.execution.cancellation import Cancellation
from xla_server.ir.exporter import export_module
from xla_server.ir.text.parser import parse_module
from xla_server.rpc.calls.method_table import Unary
from xla_server.rpc.methods import programs, xla_service
from xla_server.sessions.session import Session

LENGTH = 12
LINES = [f"  x{n} = f32[] add(x{n - 1}, x{n - 1})\n" for n in range(1, LENGTH)]
TEXT = f"HloModule long\n\nENTRY e {{\n  x0 = f32[] constant(1)\n{''.join(LINES)}}}\n"
SOURCE = extension_pb2.ModuleSource(hlo_text=TEXT)
PROTO = export_module(parse_module(TEXT))
METHODS = {**programs.METHODS, **xla_service.METHODS}


class CancelledAfter(Cancellation):
    """Is cancelled at the check after so many."""

    def __init__(self, max_checks: int = 1 << 30) -> None:
        super().__init__()
        self.max_checks = max_checks
        self.checks = 0

    def check(self) -> None:
        self.checks += 1
        if self.checks > self.max_checks:
            self.cancel(CancelledError("enough"))
        super().check()


def request(service: Session, name: str) -> Any:
    match name:
        case "CompileModule":
            return extension_pb2.CompileModuleRequest(module=SOURCE)
        case "ConvertModule":
            return extension_pb2.ConvertModuleRequest(module=SOURCE)
        case "AnalyzeExecutable":
            made = call(service, "CompileModule", Cancellation())
            handle = xla_data_pb2.ExecutionHandle(handle=made.handle.handle)
            return extension_pb2.AnalyzeExecutableRequest(executable=handle)
        case "GetComputationGraphStats":
            return xla_pb2.ComputationGraphStatsRequest(computation=PROTO)
        case _:
            return xla_pb2.ComputeConstantGraphRequest(computation=PROTO)


def call(service: Session, name: str, cancellation: Cancellation) -> Any:
    row = METHODS[name]
    assert isinstance(row, Unary)
    return row.method(service, request(service, name), cancellation)


@pytest.mark.parametrize(
    ("name", "walks"),
    [
        # Text is read, verified and written as a message, which is read and verified.
        ("CompileModule", ("parse", "verify", "export", "import", "verify", "plan", "memory")),
        ("ConvertModule", ("parse", "verify", "export", "import", "verify", "print")),
        ("AnalyzeExecutable", ("import",)),
        ("GetComputationGraphStats", ("import", "verify")),
        ("ComputeConstantGraph", ("import", "verify", "plan", "memory")),
    ],
)
def test_reading_ends_at_the_next_instruction(
    service: Session, name: str, walks: tuple[str, ...]
) -> None:
    count = len(walks) * LENGTH
    for max_checks in range(LENGTH // 2, count, LENGTH):
        caller = CancelledAfter(max_checks)
        with pytest.raises(CancelledError, match="enough"):
            call(service, name, caller)
        assert caller.checks == max_checks + 1
    patient = CancelledAfter()
    call(service, name, patient)
    assert patient.checks >= count
