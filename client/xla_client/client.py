"""A connection to an XLA service."""

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from xla_client._session import Session, device_handle
from xla_client._transport import ChannelCredentials, Metadata, Transport
from xla_client.arguments import Argument, as_literal, on_device
from xla_client.buffer import Buffer, unpacked
from xla_client.computation import Computation
from xla_client.device import Device
from xla_client.executable import Executable
from xla_client.options import LayoutChoice, compiled_shape, execution_options
from xla_client.transfers import Progress
from xla_contract import malloc
from xla_contract.errors import ResourceExhaustedError
from xla_contract.layout import Layout
from xla_contract.literal import Nested
from xla_contract.shape_proto import layout_to_proto, shape_from_proto, shape_to_proto
from xla_contract.stubs import xla_data_pb2, xla_pb2

MAX_DEVICES = 1 << 16
"""Where counting the devices of a server ends."""


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


@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """One program of `Client.execute_parallel` with its arguments and its device."""

    computation: Computation
    arguments: Sequence[Argument] = ()
    device: int = 0


class Client:
    """A connection, from `connect`. Safe to use from several threads.

    Every method that calls the server takes `timeout`, the seconds until DeadlineExceededError;
    None means the client's own. Closing frees everything the client holds on the server.
    """

    def __init__(self, transport: Transport, shared_memory: bool | None = None) -> None:
        self._session = Session(transport, shared_memory)

    @property
    def target(self) -> str:
        """The address the client is connected to."""
        return self._session.transport.target

    def compile(
        self,
        computation: Computation,
        *,
        argument_layouts: Sequence[LayoutChoice] | None = None,
        result_layout: LayoutChoice = None,
        seed: int = 0,
        debug_options: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Executable:
        """Compile a computation for the default device.

        Layouts not said are those of the computation's signature. `seed` starts its random
        numbers (0: the server picks), `debug_options` are fields of DebugOptions. Raises
        InvalidArgumentError or UnimplementedError naming the instruction that cannot be compiled.
        """
        shape = compiled_shape(computation.program_shape, argument_layouts, result_layout)
        request = xla_pb2.CompileRequest(
            execution_options=execution_options(shape.result, seed, debug_options),
            input_shape_with_layout=[shape_to_proto(each) for each in shape.parameters],
        )
        computation.write_to(request.computation)
        response = self._session.call("Compile", request, timeout)
        return Executable(self._session, response.handle.handle, computation.name, shape)

    def execute(
        self,
        computation: Computation,
        *arguments: Argument,
        device: int = 0,
        timeout: float | None = None,
    ) -> Buffer | tuple[Buffer, ...]:
        """Compile and run a computation once, on any device; the result stays on the server."""
        return self.execute_parallel([Launch(computation, arguments, device)], timeout=timeout)[0]

    def execute_parallel(
        self, launches: Sequence[Launch], *, timeout: float | None = None
    ) -> list[Buffer | tuple[Buffer, ...]]:
        """Compile and run programs at the same time, each on its own device."""
        request = xla_pb2.ExecuteGraphParallelRequest()
        alive = []
        for launch in launches:
            parameters = launch.computation.parameters
            buffers = on_device(self._session, launch.arguments, parameters, launch.device, timeout)
            alive.append(buffers)
            part = request.requests.add(
                arguments=[xla_data_pb2.GlobalDataHandle(handle=each.handle) for each in buffers],
                execution_options=execution_options(launch.computation.result),
            )
            part.execution_options.device_handles.add().CopyFrom(device_handle(launch.device))
            launch.computation.write_to(part.computation)
        response = self._session.call("ExecuteGraphParallel", request, timeout)
        outputs = [
            Buffer(self._session, each.output.handle, launch.computation.result)
            for each, launch in zip(response.responses, launches, strict=True)
        ]
        return [unpacked(output, timeout=timeout) for output in outputs]

    def to_device(
        self,
        value: Argument,
        device: int = 0,
        *,
        timeout: float | None = None,
        progress: Progress | None = None,
    ) -> Buffer:
        """Keep an array, a Literal or a tuple of them on a device.

        A Literal keeps its layout; arrays are kept row by row, in the type numpy gives them.
        `progress` is told, now and then, how many bytes have been sent, and of how many.
        """
        literal = as_literal(value)
        handle = self._session.upload(literal, device, timeout, progress)
        return Buffer(self._session, handle, literal.shape)

    def adopt(self, handle: int, *, timeout: float | None = None) -> Buffer:
        """A Buffer for a data handle got by other means; it is freed like any other."""
        data = xla_data_pb2.GlobalDataHandle(handle=handle)
        response = self._session.call("GetShape", xla_pb2.GetShapeRequest(data=data), timeout)
        return Buffer(self._session, handle, shape_from_proto(response.shape))

    def unpack(self, buffer: Buffer, *, timeout: float | None = None) -> tuple[Buffer, ...]:
        """The elements of a tuple, as `Buffer.deconstruct` gives them, by the older rpc."""
        data = xla_data_pb2.GlobalDataHandle(handle=buffer.handle)
        response = self._session.call("Unpack", xla_pb2.UnpackRequest(data=data), timeout)
        return tuple(
            Buffer(self._session, element.handle, shape)
            for element, shape in zip(response.tied_data, buffer.shape.tuple_shapes, strict=True)
        )

    @functools.cached_property
    def devices(self) -> tuple[Device, ...]:
        """The devices of the server."""
        # There is no rpc that counts devices, only one that refuses to name too many.
        most = 1
        while most < MAX_DEVICES and self._has_devices(most * 2):
            most *= 2
        too_many = most * 2
        while too_many - most > 1:
            middle = (most + too_many) // 2
            if self._has_devices(middle):
                most = middle
            else:
                too_many = middle
        return tuple(self.device(ordinal) for ordinal in range(most))

    def device(self, ordinal: int = 0) -> Device:
        """The device with this number, unchecked; using one that is not there raises."""
        return Device(self._session, ordinal)

    def compute_constant(
        self,
        computation: Computation,
        layout: Layout | None = None,
        *,
        timeout: float | None = None,
    ) -> Nested:
        """Evaluate a computation without parameters by the server's interpreter."""
        request = xla_pb2.ComputeConstantGraphRequest()
        computation.write_to(request.computation)
        if layout is not None:
            request.output_layout.CopyFrom(layout_to_proto(layout))
        return self._session.receive("ComputeConstantGraph", request, timeout).to_numpy()

    def graph_stats(
        self, computation: Computation, *, timeout: float | None = None
    ) -> ComputationStats:
        """Estimate the work in a computation."""
        request = xla_pb2.ComputationGraphStatsRequest()
        computation.write_to(request.computation)
        stats = self._session.call("GetComputationGraphStats", request, timeout).stats
        return ComputationStats(stats.flop_count, stats.transcendental_count)

    def create_channel_handle(self, type: int, *, timeout: float | None = None) -> ChannelHandle:
        """Make a channel: 1 device to device, 2 device to host, 3 host to device."""
        request = xla_pb2.CreateChannelHandleRequest()
        request.channel_type = type  # type: ignore[assignment]
        channel = self._session.call("CreateChannelHandle", request, timeout).channel
        return ChannelHandle(channel.handle, channel.type)

    def reset_device(self, *, timeout: float | None = None) -> None:
        """Empty the feeds of all devices."""
        self._session.call("ResetDevice", xla_pb2.ResetDeviceRequest(), timeout)

    def free_unused(self) -> None:
        """Tell the server at once of everything that was garbage collected.

        Otherwise this waits until there is enough of it to be worth a message.
        """
        self._session.reclaimer.free()

    def close(self) -> None:
        """Free everything this client holds on the server, and disconnect."""
        self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.target!r})"

    def _has_devices(self, count: int) -> bool:
        request = xla_pb2.GetDeviceHandlesRequest(device_count=count)
        try:
            self._session.call("GetDeviceHandles", request)
        except ResourceExhaustedError:
            return False
        return True


def connect(
    target: str,
    *,
    credentials: ChannelCredentials | None = None,
    metadata: Metadata = (),
    timeout: float | None = None,
    connect_timeout: float = 10.0,
    shared_memory: bool | None = None,
) -> Client:
    """Connect to a server, usually as a context manager: `with connect("host:1685") as client`.

    `target` is "host:port" or "unix:/path". `credentials` (from grpc) turn on TLS, `metadata` is
    sent with every call, `timeout` is the deadline of calls that state none (None: no deadline).
    `shared_memory` says whether large values may pass through memory shared with a server on this
    host, which is tried by default (unless XLA_CLIENT_SHARED_MEMORY is 0 in the environment).
    Raises UnavailableError when there is no connection after `connect_timeout` seconds.
    """
    malloc.tune()
    transport = Transport(target, credentials=credentials, metadata=metadata, timeout=timeout)
    try:
        transport.open(connect_timeout)
    except BaseException:  # Ctrl-C while waiting must not leave the channel open either.
        transport.close()
        raise
    return Client(transport, shared_memory)
