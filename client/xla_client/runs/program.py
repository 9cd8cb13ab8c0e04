"""Programs as they are compiled, and compiled again."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from xla_client.programs.compile_options import LayoutChoice, compiled_shape, execution_options
from xla_client.programs.computation import Computation
from xla_client.runs.donation import donated_parameters
from xla_client.runs.executable import Executable
from xla_client.runs.sharded import Mesh
from xla_client.session.buffer import Buffer
from xla_client.session.session import Session
from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import xla_pb2
from xla_contract.types.shape import ProgramShape, Shape
from xla_contract.wire.shape_proto import shape_to_proto

Returns: TypeAlias = type[Buffer] | type[tuple[Any, ...]] | None
"""The type of a call's result; None leaves it to the program."""


def require_returns(returns: Returns, result: Shape) -> None:
    """Raise InvalidArgumentError unless a program with this result gives what is asked for."""
    is_flat = result.is_tuple and not any(part.is_tuple for part in result.tuple_shapes)
    if returns is None or (returns is tuple) is is_flat:
        return
    wanted = "a tuple of arrays" if returns is tuple else "an array"
    raise InvalidArgumentError(
        f"compile: a program must give {wanted} for returns={returns.__name__}, got {result}"
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Program:
    """A program with its options, kept to be compiled again if the server loses it."""

    computation: Computation
    shape: ProgramShape
    options: xla_pb2.ExecutionOptions

    @classmethod
    def made(
        cls,
        computation: Computation,
        argument_layouts: Sequence[LayoutChoice] | None,
        result_layout: LayoutChoice,
        seed: int,
        debug_options: Mapping[str, Any] | None,
        mesh: Mesh | None,
    ) -> "Program":
        """Return a computation with the options that `Client.compile` was given."""
        shape = compiled_shape(computation.program_shape, argument_layouts, result_layout)
        options = execution_options(shape.result, seed, debug_options)
        if mesh is not None:
            mesh.write_to(options)
        elif computation.grid is not None:
            options.num_replicas = computation.grid.replicas
            options.num_partitions = computation.grid.partitions
        return cls(computation, shape, options)

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
