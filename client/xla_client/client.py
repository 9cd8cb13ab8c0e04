"""A connection to an XLA service."""

import asyncio
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, Self, overload

from xla_client.coercion.parameters import brief, parameter_class
from xla_client.device import Device
from xla_client.pipelines.pipeline import Pipeline
from xla_client.programs.compile_options import LayoutChoice, compiled_shape, execution_options
from xla_client.programs.computation import Computation, ProgramLike, as_computation
from xla_client.runs.arguments import Argument, as_literal
from xla_client.runs.executable import Executable
from xla_client.runs.execution import Execution, LaunchedExecution, adopted_buffers
from xla_client.runs.launch import Launch, execute_launches
from xla_client.runs.program import Program, Returns, require_returns
from xla_client.runs.sharded import Mesh
from xla_client.session.buffer import Buffer
from xla_client.session.contents import (
    count_devices,
    describe_handle,
    describe_session,
    has_devices,
)
from xla_client.session.description import SessionDescription
from xla_client.session.public_methods import public, public_coroutine
from xla_client.session.session import Session
from xla_client.transfers.progress import Progress
from xla_client.transport.transport import Transport
from xla_contract.errors import UnimplementedError
from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.targets import ROUTING_KEY
from xla_contract.types.layout import Layout
from xla_contract.wire.shape_proto import (
    layout_to_proto,
    program_shape_from_proto,
    shape_from_proto,
)

_MESSAGE_BYTES = 1 << 18
"""Largest value, in bytes, that coroutines send in one message; larger ones are sent in a
thread."""


@dataclasses.dataclass(frozen=True, slots=True)
class ComputationStats:
    """An estimate of the work in a computation, before optimisation."""

    flop_count: float
    transcendental_count: float


@dataclasses.dataclass(frozen=True, slots=True)
class ChannelHandle:
    """A channel made by the server; `type` is a number of ChannelHandle.ChannelType."""

    handle: int
    type: int


@parameter_class
class Client:
    """A connection, from `connect`. Safe to use from several threads.

    Every method that calls the server takes `timeout`, the seconds until DeadlineExceededError;
    None means the client's own. Closing ends the session and frees everything it has on the server;
    `detach` leaves it, so that a process with its token can resume it.
    """

    def __init__(self, transport: Transport, shared_memory: bool | None = None) -> None:
        self._session = Session(transport, shared_memory)

    @property
    def target(self) -> str:
        """The address the client is connected to."""
        return self._session.transport.target

    @property
    def session_token(self) -> str:
        """The token with which `connect` resumes this session, also from another process.

        It gives access to everything in the session: keep it secret.

        Raises:
            UnimplementedError: The server has sessions for connections only.
        """
        opened = self._session.transport.session
        if opened is None:
            raise UnimplementedError(
                "a server must have sessions with tokens to give one, got one that has none",
                op="OpenSession",
            )
        # Other clients may end the session from here on.
        self._session.is_shared = True
        return opened.token

    @property
    def routing_key(self) -> str:
        """The key by which a load balancer chooses the server of all calls of this client."""
        return str(dict(self._session.transport.metadata)[ROUTING_KEY])

    @overload
    def compile(
        self,
        computation: ProgramLike,
        *,
        returns: type[Buffer] | None = None,
        argument_layouts: Sequence[LayoutChoice] | None = None,
        result_layout: LayoutChoice = None,
        seed: int = 0,
        debug_options: Mapping[str, Any] | None = None,
        mesh: Mesh | None = None,
        timeout: float | None = None,
    ) -> Executable[Buffer]: ...

    @overload
    def compile(
        self,
        computation: ProgramLike,
        *,
        returns: type[tuple[Any, ...]],
        argument_layouts: Sequence[LayoutChoice] | None = None,
        result_layout: LayoutChoice = None,
        seed: int = 0,
        debug_options: Mapping[str, Any] | None = None,
        mesh: Mesh | None = None,
        timeout: float | None = None,
    ) -> Executable[tuple[Buffer, ...]]: ...

    @public
    def compile(
        self,
        computation: ProgramLike,
        *,
        returns: Returns = None,
        argument_layouts: Sequence[LayoutChoice] | None = None,
        result_layout: LayoutChoice = None,
        seed: int = 0,
        debug_options: Mapping[str, Any] | None = None,
        mesh: Mesh | None = None,
        timeout: float | None = None,
    ) -> Executable[Any]:
        """Return a program compiled for the default device, or for those of a mesh.

        It may be a Computation, HLO text, a serialized module, StableHLO, or what JAX lowers and
        exports: all that `xla_client.programs.computation.as_computation` takes, which raises
        TypeError.
        `returns` says what a call gives, for type checkers and for readers: `tuple` for a program
        whose result is a tuple, Buffer for any other; raises InvalidArgumentError if it is not
        so. Parameters whose layouts are not chosen have those of the computation's signature, and a
        result is row-major unless `result_layout` says otherwise. `seed` starts its random
        numbers (0: the server picks), `debug_options` are fields of DebugOptions. Without
        `mesh` it has the replicas and partitions that it states. Raises
        InvalidArgumentError or UnimplementedError naming the instruction that cannot be compiled.
        """
        kept = as_computation(computation, self)
        require_returns(returns, kept.result)
        program = _program(kept, argument_layouts, result_layout, seed, debug_options, mesh)
        request = program.request()
        response = self._session.call("Compile", request, timeout)
        return program.executable(self._session, request, response)

    @overload
    async def acompile(
        self,
        computation: ProgramLike,
        *,
        returns: type[Buffer] | None = None,
        argument_layouts: Sequence[LayoutChoice] | None = None,
        result_layout: LayoutChoice = None,
        seed: int = 0,
        debug_options: Mapping[str, Any] | None = None,
        mesh: Mesh | None = None,
        timeout: float | None = None,
    ) -> Executable[Buffer]: ...

    @overload
    async def acompile(
        self,
        computation: ProgramLike,
        *,
        returns: type[tuple[Any, ...]],
        argument_layouts: Sequence[LayoutChoice] | None = None,
        result_layout: LayoutChoice = None,
        seed: int = 0,
        debug_options: Mapping[str, Any] | None = None,
        mesh: Mesh | None = None,
        timeout: float | None = None,
    ) -> Executable[tuple[Buffer, ...]]: ...

    @public_coroutine
    async def acompile(
        self,
        computation: ProgramLike,
        *,
        returns: Returns = None,
        argument_layouts: Sequence[LayoutChoice] | None = None,
        result_layout: LayoutChoice = None,
        seed: int = 0,
        debug_options: Mapping[str, Any] | None = None,
        mesh: Mesh | None = None,
        timeout: float | None = None,
    ) -> Executable[Any]:
        """Compile as `compile` does, without blocking the event loop."""
        kept = await asyncio.to_thread(as_computation, computation, self)
        require_returns(returns, kept.result)
        program = _program(kept, argument_layouts, result_layout, seed, debug_options, mesh)
        request = program.request()
        response = await self._session.acall("Compile", request, timeout)
        return program.executable(self._session, request, response)

    def pipeline(self) -> Pipeline:
        """A new pipeline: several executions in one call of the server."""
        return Pipeline(self._session)

    @public
    def execute(
        self,
        computation: ProgramLike,
        *arguments: Argument,
        device: int = 0,
        timeout: float | None = None,
    ) -> Any:
        """Return the result of a program that is compiled and run once, on any device.

        It may be all that `compile` takes. The result stays on the server: a Buffer, or a tuple of
        them for a flat tuple.
        """
        return execute_launches(
            self._session, self, [Launch(computation, arguments, device)], timeout
        )[0]

    @public
    def execute_parallel(
        self, launches: Sequence[Launch], *, timeout: float | None = None
    ) -> list[Buffer | tuple[Buffer, ...]]:
        """Compile and run programs at the same time, each on its own device."""
        return execute_launches(self._session, self, launches, timeout)

    @public
    def to_device(
        self,
        value: Argument,
        device: int = 0,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Buffer:
        """Return a Buffer that keeps an array, a Literal or a tuple of them on a device.

        A Literal keeps its layout and its type; an array is stored row-major, in its type. Python's
        numbers and lists of them become pred, s32, f32 and c64: see `xla_client.coercion.literals`.
        `progress` is called now and then with the number of bytes sent, and of all.
        """
        literal = as_literal(value)
        handle = self._session.upload(literal, device, timeout, progress)
        return Buffer(self._session, handle, literal.shape)

    @public_coroutine
    async def ato_device(
        self,
        value: Argument,
        device: int = 0,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Buffer:
        """Keep a value as `to_device` does, without blocking the event loop."""
        literal = as_literal(value)
        if literal.shape.byte_size > _MESSAGE_BYTES:
            handle = await asyncio.to_thread(
                self._session.upload, literal, device, timeout, progress
            )
        else:
            handle = await self._session.aupload(literal, device, timeout)
            if progress is not None:
                progress(literal.shape.byte_size, literal.shape.byte_size)
        return Buffer(self._session, handle, literal.shape)

    @public
    def adopt(self, handle: int, *, timeout: float | None = None) -> Buffer:
        """A Buffer for a data handle got by other means; it is freed like any other."""
        data = xla_data_pb2.GlobalDataHandle(handle=handle)
        response = self._session.call("GetShape", xla_pb2.GetShapeRequest(data=data), timeout)
        return Buffer(self._session, handle, shape_from_proto(response.shape))

    @public
    def adopt_executable(self, handle: int, *, timeout: float | None = None) -> Executable:
        """Return an Executable for an execution handle that Compile gave to this session.

        It is for a client that has resumed a session; the executable is freed like any other.
        Raises NotFoundError and InvalidArgumentError for handles that are none or were freed.
        """
        description = describe_handle(self._session, handle, "executable", timeout).executable
        shape = program_shape_from_proto(description.program_shape)
        return Executable(self._session, handle, description.name, shape)

    @public
    def adopt_execution(self, handle: int, *, timeout: float | None = None) -> Execution[Any]:
        """Return a run that Launch began in this session (`Execution.handle`), as from `submit`.

        `timeout` is for the call. The returned object owns the run and its buffers. Raises
        NotFoundError for other handles, and for a run whose result was awaited before, as it is
        from the start for a run with a timeout. The values of such a run still exist.
        """
        description = describe_handle(self._session, handle, "execution", timeout).execution
        buffers: Any = adopted_buffers(self._session, description)
        return LaunchedExecution(self._session, handle, buffers, None)

    @public
    def describe(self, *, timeout: float | None = None) -> SessionDescription:
        """Return the session's values, executables and executions, and the use of its quotas.

        Raises UnimplementedError if the server cannot tell.
        """
        return describe_session(self._session, timeout)

    @public
    def unpack(self, buffer: Buffer, *, timeout: float | None = None) -> tuple[Buffer, ...]:
        """The elements of a tuple, as from `Buffer.deconstruct`, by the older rpc."""
        data = xla_data_pb2.GlobalDataHandle(handle=buffer.handle)
        response = self._session.call("Unpack", xla_pb2.UnpackRequest(data=data), timeout)
        return tuple(
            Buffer(self._session, element.handle, shape)
            for element, shape in zip(response.tied_data, buffer.shape.tuple_shapes, strict=True)
        )

    @brief
    def devices(self) -> tuple[Device, ...]:
        """Return the devices of the server, the same objects at each call."""
        return self._devices

    @functools.cached_property
    def _devices(self) -> tuple[Device, ...]:
        return tuple(self.device(ordinal) for ordinal in range(self._count_devices()))

    @public
    def _count_devices(self) -> int:
        return count_devices(functools.partial(has_devices, self._session))

    @brief
    def device(self, ordinal: int = 0) -> Device:
        """The device with this number, unchecked; using one that does not exist raises."""
        return Device(self._session, ordinal)

    @brief
    def mesh(
        self,
        sizes: Sequence[int],
        names: Sequence[str],
        *,
        ordinals: Sequence[int] = (),
        replicas: int = 1,
    ) -> Mesh:
        """Return a mesh of devices to compile programs for.

        Its axes have these sizes and names, and its devices, row by row, these `ordinals`: by
        default 0, 1, 2 and so on. `replicas` of them are copies of the program, which collectives
        without a channel join; each has as many partitions as are left, of which JAX's programs
        consist. Raises InvalidArgumentError for numbers that do not go together.
        """
        return Mesh(sizes, names, ordinals, replicas)

    @public
    def compute_constant(
        self,
        computation: ProgramLike,
        layout: Layout | None = None,
        *,
        timeout: float | None = None,
    ) -> Any:
        """Evaluate a computation without parameters by the server's interpreter."""
        request = xla_pb2.ComputeConstantGraphRequest()
        as_computation(computation, self).write_to(request.computation)
        if layout is not None:
            request.output_layout.CopyFrom(layout_to_proto(layout))
        return self._session.receive("ComputeConstantGraph", request, timeout).to_numpy()

    @public
    def graph_stats(
        self, computation: ProgramLike, *, timeout: float | None = None
    ) -> ComputationStats:
        """Estimate the work in a computation."""
        request = xla_pb2.ComputationGraphStatsRequest()
        as_computation(computation, self).write_to(request.computation)
        stats = self._session.call("GetComputationGraphStats", request, timeout).stats
        return ComputationStats(stats.flop_count, stats.transcendental_count)

    @public
    def create_channel_handle(self, type: int, *, timeout: float | None = None) -> ChannelHandle:
        """Make a channel: 1 device to device, 2 device to host, 3 host to device.

        Programs name it by the number `handle`, and so do `Device.outfeed` (2) and `Device.infeed`
        (3). On each device it has a queue of its own.

        Returns:
            The channel.
        """
        request = xla_pb2.CreateChannelHandleRequest()
        request.channel_type = type  # type: ignore[assignment]
        channel = self._session.call("CreateChannelHandle", request, timeout).channel
        return ChannelHandle(channel.handle, channel.type)

    @public
    def reset_device(self, *, timeout: float | None = None) -> None:
        """Empty the feeds and channels of all devices."""
        self._session.call("ResetDevice", xla_pb2.ResetDeviceRequest(), timeout)

    def free_unused(self) -> None:
        """Tell the server at once of everything that was garbage collected.

        Otherwise this waits until there is enough of it to be worth a message.
        """
        self._session.reclaimer.free()

    def detach(self) -> str:
        """Return the session's token, and disconnect; the server keeps the session.

        The server keeps all of it for its grace period (60 s unless the operator sets another one),
        in which `connect(target, session=token)` resumes it: values, executables, launched
        executions, feeds. Objects of this client cannot be used any more; what was garbage
        collected is freed. Raises UnimplementedError as `session_token`, and does nothing then.
        """
        token = self.session_token
        self._session.detach()
        return token

    def close(self) -> None:
        """End the session, which frees everything it has on the server, and disconnect."""
        self._session.close()

    async def aclose(self) -> None:
        """Close as `close` does, without blocking the event loop."""
        await asyncio.to_thread(self.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def convert_module(
        self, source: extension_pb2.ModuleSource, form: extension_pb2.ModuleFormat
    ) -> extension_pb2.ConvertModuleResponse:
        """Have the server write a module in another form: the rpc behind `Computation.to_text`.

        Args:
            source: The module, as HLO text or serialized.
            form: The form to write it in.

        Returns:
            The module in that form.

        Raises:
            InvalidArgumentError: The module is malformed.
            UnimplementedError: The server is from before this rpc.
        """
        if extension_pb2.CAPABILITY_MODULES not in self._session.transport.capabilities:
            raise UnimplementedError(
                "a server must have CAPABILITY_MODULES to read and write HLO text, got one without"
            )
        request = extension_pb2.ConvertModuleRequest(module=source, format=form)
        answer: extension_pb2.ConvertModuleResponse = self._session.call("ConvertModule", request)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a Client is a connection and cannot be pickled or copied, got {self!r}: connect "
            "again, or pickle Client.session_token, which resumes the session"
        )

    def __repr__(self) -> str:
        return f"Client({self.target!r})"


def _program(
    computation: Computation,
    argument_layouts: Sequence[LayoutChoice] | None,
    result_layout: LayoutChoice,
    seed: int,
    debug_options: Mapping[str, Any] | None,
    mesh: Mesh | None,
) -> Program:
    """A computation with the options that `Client.compile` was given."""
    shape = compiled_shape(computation.program_shape, argument_layouts, result_layout)
    options = execution_options(shape.result, seed, debug_options)
    if mesh is not None:
        mesh.write_to(options)
    elif computation.grid is not None:
        options.num_replicas = computation.grid.replicas
        options.num_partitions = computation.grid.partitions
    return Program(computation, shape, options)
