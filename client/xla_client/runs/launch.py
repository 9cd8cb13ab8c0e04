"""Programs that are compiled and run once, at the same time, each on its own device."""

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any

from xla_client.coercion.parameters import arguments_of_run, ordinal, parameter_class
from xla_client.programs.compile_options import execution_options
from xla_client.programs.computation import ProgramLike, as_computation
from xla_client.programs.conversions import ModuleConverter
from xla_client.runs.arguments import Argument, on_device
from xla_client.session.buffer import Buffer, unpacked
from xla_client.session.public_methods import public
from xla_client.session.session import Session, device_handle
from xla_contract.errors import XlaError
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2


@parameter_class
@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """One program of `Client.execute_parallel` with its arguments and its device.

    The program may be all that `Client.compile` takes.
    """

    computation: ProgramLike
    arguments: Sequence[Argument] = ()
    device: int = 0


class Launching(abc.ABC):
    """The methods of `Client` that compile programs and run them once."""

    _session: Session

    @abc.abstractmethod
    def convert_module(
        self, source: extension_pb2.ModuleSource, form: extension_pb2.ModuleFormat
    ) -> extension_pb2.ConvertModuleResponse:
        """Return a module in another form, which the server writes."""

    @public
    def execute(
        self,
        computation: ProgramLike,
        *arguments: Argument,
        device: int = 0,
        timeout: float | None = None,
    ) -> Any:
        """Compile a program and run it once, on any device.

        Args:
            computation: A program, as for `compile`.
            arguments: Its arguments, as in a call of an Executable.
            device: The number of the device, or a Device.
            timeout: Seconds until DeadlineExceededError; None for the client's own.

        Returns:
            The result, which stays on the server: a Buffer, or a tuple of them for a flat tuple.
        """
        return execute_launches(
            self._session, self, [Launch(computation, arguments, device)], timeout
        )[0]

    @public
    def execute_parallel(
        self, launches: Sequence[Launch], *, timeout: float | None = None
    ) -> list[Buffer | tuple[Buffer, ...]]:
        """Compile and run programs at the same time, each on its own device.

        Args:
            launches: The programs with their arguments and devices.
            timeout: Seconds until DeadlineExceededError; None for the client's own.

        Returns:
            The result of each, as of `execute`.
        """
        return execute_launches(self._session, self, launches, timeout)


def execute_launches(
    session: Session,
    client: ModuleConverter,
    launches: Sequence[Launch],
    timeout: float | None,
) -> list[Buffer | tuple[Buffer, ...]]:
    """Compile and run programs in one call.

    Args:
        session: The session that runs them.
        client: Its client, which reads programs that are HLO text.
        launches: The programs with their arguments and devices.
        timeout: Seconds for each call; None for the client's own.

    Returns:
        The result of each: a Buffer, or a tuple of them for a flat tuple.

    Raises:
        XlaError: A program or an argument is none; the message has the number of the launch if
            there are several.
    """
    request = xla_pb2.ExecuteGraphParallelRequest()
    alive, results = [], []
    for number, launch in enumerate(launches):
        try:
            computation = as_computation(launch.computation, client)
            device = ordinal("device", launch.device)
            parameters = computation.parameters
            passed = arguments_of_run("arguments", launch.arguments)
            buffers = on_device(session, passed, parameters, device, timeout)
        except XlaError as error:
            if len(launches) == 1:
                raise
            raise error.at(f"launch {number}") from error.__cause__
        alive.append(buffers)
        results.append(computation.result.without_layout().with_default_layout())
        part = request.requests.add(
            arguments=[xla_data_pb2.GlobalDataHandle(handle=each.handle) for each in buffers],
            execution_options=execution_options(results[-1]),
        )
        part.execution_options.device_handles.add().CopyFrom(device_handle(device))
        computation.write_to(part.computation)
    response = session.call("ExecuteGraphParallel", request, timeout)
    outputs = [
        Buffer(session, each.output.handle, result)
        for each, result in zip(response.responses, results, strict=True)
    ]
    return [unpacked(output, timeout=timeout) for output in outputs]
