"""Programs as they are compiled, and compiled again."""

import dataclasses
from typing import Any

from xla_client.programs.computation import Computation
from xla_client.runs.donation import donated_parameters
from xla_client.runs.executable import Executable
from xla_client.session.session import Session
from xla_contract.shape import ProgramShape
from xla_contract.shape_proto import shape_to_proto
from xla_contract.stubs import xla_pb2


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """A program with its options, kept to be compiled anew if the server loses it."""

    computation: Computation
    shape: ProgramShape
    options: xla_pb2.ExecutionOptions

    def request(self) -> xla_pb2.CompileRequest:
        """The request that compiles it."""
        request = xla_pb2.CompileRequest(
            execution_options=self.options,
            input_shape_with_layout=[shape_to_proto(each) for each in self.shape.parameters],
        )
        self.computation.write_to(request.computation)
        return request

    def executable(
        self, session: Session, request: xla_pb2.CompileRequest, response: xla_pb2.CompileResponse
    ) -> Executable[Any]:
        """The executable of the answer to a request."""
        donated = donated_parameters(request.computation)
        handle = response.handle.handle
        return Executable(session, handle, self.computation.name, self.shape, self.request, donated)
