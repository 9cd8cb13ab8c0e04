"""A connection to an XLA service."""

import asyncio
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self, cast, overload

from xla_client.coercion.parameters import brief, parameter_class
from xla_client.device import Devices
from xla_client.pipelines.pipeline import Pipeline
from xla_client.programs.compile_options import LayoutChoice
from xla_client.programs.computation import ProgramLike, as_computation
from xla_client.runs.arguments import Argument, as_literal
from xla_client.runs.executable import Executable
from xla_client.runs.execution import Execution, LaunchedExecution, adopted_buffers
from xla_client.runs.launch import Launching
from xla_client.runs.program import Program, Returns, require_returns
from xla_client.runs.sharded import Mesh
from xla_client.session.buffer import Buffer
from xla_client.session.contents import (
    describe_handle,
    describe_session,
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

if TYPE_CHECKING:
    from xla_client.runs.jax_function import JaxFunction

_MESSAGE_BYTES = 1 << 18
"""Largest value, in bytes, that coroutines send in one message; larger ones are sent in a
thread."""


@dataclasses.dataclass(frozen=True, slots=True)
class ComputationStats:
    """An estimate of the work in a computation, before optimisation."""

    flop_count: float
    transcendental_count: float


@parameter_class
class Client(Devices, Launching):
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
        """Compile a program for the default device, or for the devices of a mesh.

        Args:
            computation: A Computation, a Builder, an Op, HLO text, a serialized module, StableHLO,
                or what JAX lowers and exports.
            returns: The type of a call's result, for type checkers and readers: `tuple` if it is a
                tuple, else Buffer; with None it is not checked.
            argument_layouts: A Layout for each parameter, or None for that of the computation.
            result_layout: The layout of the result; row-major by default.
            seed: The seed of each run's random numbers; with 0 every run has others.
            debug_options: Fields of XLA's DebugOptions and their values.
            mesh: The devices, from `mesh`; by default the replicas and partitions that the program
                states run on the first devices.
            timeout: Seconds until DeadlineExceededError; None for the client's own.

        Returns:
            The compiled program.

        Raises:
            ArgumentTypeError: `computation` is no program.
            InvalidArgumentError: The program is wrong, which names the instruction, or an option.
            UnimplementedError: The server cannot compile an instruction, which is named.
        """
        kept = as_computation(computation, self)
        require_returns(returns, kept.result)
        program = Program.made(kept, argument_layouts, result_layout, seed, debug_options, mesh)
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
        program = Program.made(kept, argument_layouts, result_layout, seed, debug_options, mesh)
        request = program.request()
        response = await self._session.acall("Compile", request, timeout)
        return program.executable(self._session, request, response)

    @brief
    def jit(
        self,
        fun: Any = None,
        /,
        *,
        static_argnums: int | Sequence[int] = (),
        static_argnames: str | Sequence[str] = (),
        donate_argnums: int | Sequence[int] = (),
        donate_argnames: str | Sequence[str] = (),
        mesh: Mesh | None = None,
    ) -> "JaxFunction":
        """Return a function of JAX that runs on the server, as `jax.jit` does on this machine.

        Programs are compiled, and kept, as `jax.jit` does it: by trees, shapes and types of
        arguments, static ones, and JAX's settings. Transform before: `client.jit(jax.grad(f))`.
        Calls back into Python (`jax.debug.print`, `io_callback`) are refused.

        Args:
            fun: The function, or a `jax.export.Exported`. Without it, the result is a decorator.
            static_argnums: Numbers of parameters whose values are part of the program.
            static_argnames: Names of such parameters.
            donate_argnums: Numbers of parameters whose Buffers end with the call, so that results
                take their memory.
            donate_argnames: Names of such parameters.
            mesh: The devices, from `mesh`; by default as many as the meshes in `fun` have.

        Returns:
            The function. It takes trees of Buffers, arrays and numbers, and returns the tree that
            `fun` does, with Buffers: they stay on the server, and `jax.device_get` fetches them.

        Raises:
            ArgumentTypeError: `fun` is no function.
            InvalidArgumentError: A number or name is that of no parameter.
            UnimplementedError: JAX is not installed.
        """
        from xla_client.runs.jax_function import JaxFunction  # Most clients do without JAX.

        static, donated = (static_argnums, static_argnames), (donate_argnums, donate_argnames)
        make = functools.partial(JaxFunction, self, mesh, static, donated)
        # Without a function it is a decorator.
        return make(fun) if fun is not None else cast(Any, make)

    def pipeline(self) -> Pipeline:
        """A new pipeline: several executions in one call of the server."""
        return Pipeline(self._session)

    @public
    def to_device(
        self,
        value: Argument,
        device: int = 0,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Buffer:
        """Upload a value.

        Args:
            value: An array, which keeps its type and is stored row-major; a Literal, which keeps
                its layout, too; a tuple of them; or Python's numbers and lists of them, which
                become pred, s32, f32 and c64.
            device: The number of the device, or a Device.
            timeout: Seconds until DeadlineExceededError; None for the client's own.
            progress: A function that is called repeatedly with the bytes sent so far and in total;
                through shared memory, from another thread.

        Returns:
            The value on the device.

        Raises:
            ArgumentTypeError: The value is no number or array of numbers.
            InvalidArgumentError: XLA has no such type, or there is no such device.
            ResourceExhaustedError: The session's memory does not suffice.
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
        """Return a Buffer for a data handle of this session, as `describe` or `Buffer.handle` tell.

        It is freed like any other. Raises NotFoundError for handles that are none or were freed.
        """
        data = xla_data_pb2.GlobalDataHandle(handle=handle)
        response = self._session.call("GetShape", xla_pb2.GetShapeRequest(data=data), timeout)
        return Buffer(self._session, handle, shape_from_proto(response.shape))

    @public
    def adopt_executable(self, handle: int, *, timeout: float | None = None) -> Executable:
        """Return an Executable for a program that was compiled in this session.

        It is for a client that has resumed a session. The executable is freed like any other.

        Args:
            handle: The handle, as `describe` or `Executable.handle` tell.
            timeout: Seconds until DeadlineExceededError; None for the client's own.

        Returns:
            The program.

        Raises:
            NotFoundError: The session has no such handle, or it was freed.
            InvalidArgumentError: The handle is that of a value or an execution.
        """
        description = describe_handle(self._session, handle, "executable", timeout).executable
        shape = program_shape_from_proto(description.program_shape)
        return Executable(self._session, handle, description.name, shape)

    @public
    def adopt_execution(self, handle: int, *, timeout: float | None = None) -> Execution[Any]:
        """Return an Execution for a run that was submitted in this session.

        The returned object owns the run and its buffers.

        Args:
            handle: The handle, as `describe` or `Execution.handle` tell.
            timeout: Seconds that the call may take; None for the client's own.

        Returns:
            The run, as from `submit`.

        Raises:
            NotFoundError: The session has no such handle, or another client has waited for the run,
                which it does from the start for a run with a timeout. The values still exist.
            InvalidArgumentError: The handle is that of a value or an executable.
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
        """Return the elements of a tuple, as `Buffer.deconstruct` does, by XLA's older rpc."""
        data = xla_data_pb2.GlobalDataHandle(handle=buffer.handle)
        response = self._session.call("Unpack", xla_pb2.UnpackRequest(data=data), timeout)
        return tuple(
            Buffer(self._session, element.handle, shape)
            for element, shape in zip(response.tied_data, buffer.shape.tuple_shapes, strict=True)
        )

    @public
    def compute_constant(
        self,
        computation: ProgramLike,
        layout: Layout | None = None,
        *,
        timeout: float | None = None,
    ) -> Any:
        """Evaluate a computation without parameters by the server's interpreter.

        Args:
            computation: A program, as for `compile`.
            layout: The layout in which the server sends the result; row-major by default.
            timeout: Seconds until DeadlineExceededError; None for the client's own.

        Returns:
            The result: an array, or a tuple of arrays.

        Raises:
            InvalidArgumentError: The computation has parameters, or depends on its run.
        """
        request = xla_pb2.ComputeConstantGraphRequest()
        as_computation(computation, self).write_to(request.computation)
        if layout is not None:
            request.output_layout.CopyFrom(layout_to_proto(layout))
        return self._session.receive("ComputeConstantGraph", request, timeout).to_numpy()

    @public
    def graph_stats(
        self, computation: ProgramLike, *, timeout: float | None = None
    ) -> ComputationStats:
        """Estimate the work in a computation, before optimisation."""
        request = xla_pb2.ComputationGraphStatsRequest()
        as_computation(computation, self).write_to(request.computation)
        stats = self._session.call("GetComputationGraphStats", request, timeout).stats
        return ComputationStats(stats.flop_count, stats.transcendental_count)

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
