"""Devices of the server, their feeds, and channels."""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, cast

from xla_client.coercion.parameters import brief, parameter_class
from xla_client.coercion.shapes import ShapeLike, as_shape, optional_shape
from xla_client.feeds.infeed import Infeed
from xla_client.feeds.outfeed import DEFAULT_PREFETCH, Outfeed
from xla_client.feeds.state import FeedAddress, FeedStates, states_from_proto
from xla_client.runs.arguments import Argument, as_literal
from xla_client.runs.execution import Execution
from xla_client.runs.sharded import Mesh
from xla_client.session.contents import count_devices, has_devices
from xla_client.session.public_methods import public
from xla_client.session.session import Session, device_handle
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.stubs import xla_pb2
from xla_contract.types.literal import Array
from xla_contract.wire.shape_proto import shape_to_proto


@parameter_class
class Device:
    """One device. Its infeed and outfeed are queues, first in, first out."""

    def __init__(self, session: Session, ordinal: int) -> None:
        self._session = session
        self._ordinal = ordinal

    @property
    def ordinal(self) -> int:
        """The number of the device, from 0."""
        return self._ordinal

    @public
    def to_infeed(
        self, value: Argument, shape: ShapeLike | None = None, *, timeout: float | None = None
    ) -> None:
        """Queue one value for the program's infeed; wait while the queue is full.

        Args:
            value: An array or a flat tuple of arrays.
            shape: The shape of the value, which gives Python numbers and lists their types.
            timeout: Seconds until DeadlineExceededError; None for the client's own.

        Raises:
            InvalidArgumentError: The value does not fit the shape, or what the program waits for.
        """
        request = xla_pb2.TransferToInfeedRequest(device_handle=device_handle(self._ordinal))
        self._session.send(
            "TransferToInfeed", request, as_literal(value, optional_shape(shape)), timeout
        )

    @brief
    def infeed(
        self,
        shape: ShapeLike | None = None,
        *,
        channel_id: int | None = None,
        timeout: float | None = None,
    ) -> Infeed:
        """A stream into the program's infeed: `with device.infeed() as feed: feed.send(values)`.

        Where the server has streams of feeds, many values are on the way at once.

        Args:
            shape: The shape of every value, if they have one.
            channel_id: The number of a channel of type 3 (host to device), for what
                `ops.recv_from_host` receives on this device; None for infeed.
            timeout: Seconds for each value; None for the client's own.

        Returns:
            The stream.

        Raises:
            UnimplementedError: The server has no streams of channels.
        """
        address = FeedAddress(self._ordinal, channel_id)
        return Infeed(self._session, address, optional_shape(shape), timeout)

    @public
    def from_outfeed(self, shape: ShapeLike, *, timeout: float | None = None) -> Array:
        """Wait for the next value of the program's outfeed.

        Args:
            shape: The shape of the value.
            timeout: Seconds until DeadlineExceededError; None for the client's own.

        Returns:
            The value.

        Raises:
            InvalidArgumentError: The program has fed a value of another shape, which stays in the
                queue.
        """
        request = xla_pb2.TransferFromOutfeedRequest(
            shape_with_layout=shape_to_proto(as_shape(shape).with_default_layout()),
            device_handle=device_handle(self._ordinal),
        )
        value: Any = self._session.receive("TransferFromOutfeed", request, timeout).to_numpy()
        return cast(Array, value)

    @brief
    def outfeed(
        self,
        shape: ShapeLike | None = None,
        count: int | None = None,
        *,
        channel_id: int | None = None,
        run: Execution[Any] | None = None,
        timeout: float | None = None,
        prefetch: int = DEFAULT_PREFETCH,
    ) -> Outfeed:
        """The values of the outfeed as they come: `for value in device.outfeed(run=run)`.

        Args:
            shape: The shape of every value; needed where the server has no streams of feeds.
            count: The number of values after which they end.
            channel_id: The number of a channel of type 2 (device to host), for what
                `ops.send_to_host` sends on this device; None for outfeed.
            run: The run, from `Executable.submit`, with which they end if all its values have come.
            timeout: Seconds for each value; None for the client's own.
            prefetch: The number of arrays to fetch ahead of the consumer, from 1.

        Returns:
            The values, without end where there is neither `count` nor `run`. See `Outfeed`.

        Raises:
            UnimplementedError: The server has no streams of channels.
        """
        address = FeedAddress(self._ordinal, channel_id)
        declared = optional_shape(shape)
        return Outfeed(self._session, address, declared, count, timeout, prefetch, run)

    @public
    def feeds(self, *, channel_id: int | None = None, timeout: float | None = None) -> FeedStates:
        """The contents of both queues, and the instructions that wait for them.

        Args:
            channel_id: The number of a channel from or to the host, whose queue is described as
                infeed, or outfeed; None for infeed and outfeed.
            timeout: Seconds until DeadlineExceededError; None for the client's own.

        Returns:
            The states of the queues.

        Raises:
            UnimplementedError: The server has no streams of feeds.
        """
        address = FeedAddress(self._ordinal, channel_id)
        address.require(self._session)
        request = extension_pb2.DescribeFeedsRequest(**address.fields)
        return states_from_proto(self._session.call("DescribeFeeds", request, timeout))

    def __repr__(self) -> str:
        return f"Device({self._ordinal})"


@dataclasses.dataclass(frozen=True, slots=True)
class ChannelHandle:
    """A channel made by the server.

    `type` is 1 (device to device), 2 (device to host) or 3 (host to device).
    """

    handle: int
    type: int


class Devices:
    """The methods of `Client` about the devices of its server, and the channels between them."""

    _session: Session

    @brief
    def devices(self) -> tuple[Device, ...]:
        """Return the devices of the server, the same objects at each call."""
        return self._devices

    @functools.cached_property
    def _devices(self) -> tuple[Device, ...]:
        return tuple(self.device(ordinal) for ordinal in range(self._count_devices()))

    @public
    def _count_devices(self) -> int:
        opened = self._session.generation
        if opened is not None and opened.device_count:
            return opened.device_count
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

        Args:
            sizes: The size of each axis.
            names: The name of each axis.
            ordinals: The numbers of the devices, row by row; 0, 1, 2 and so on by default.
            replicas: The number of copies of the program, which collectives without a channel join.
                Each copy has the same number of partitions, of which JAX's programs consist.

        Returns:
            The mesh.

        Raises:
            InvalidArgumentError: There are more or fewer names or ordinals than the mesh has, or
                `replicas` does not divide the number of its devices.
        """
        return Mesh(sizes, names, ordinals, replicas)

    @public
    def create_channel_handle(self, type: int, *, timeout: float | None = None) -> ChannelHandle:
        """Make a channel.

        Args:
            type: 1 for device to device, 2 for device to host, 3 for host to device.
            timeout: Seconds until DeadlineExceededError; None for the client's own.

        Returns:
            The channel. Programs name it by its number, `handle`, and so do `Device.outfeed` (for
            type 2) and `Device.infeed` (3). On each device it has a queue of its own.

        Raises:
            InvalidArgumentError: There is no such type.
        """
        request = xla_pb2.CreateChannelHandleRequest()
        request.channel_type = type  # type: ignore[assignment]
        channel = self._session.call("CreateChannelHandle", request, timeout).channel
        return ChannelHandle(channel.handle, channel.type)

    @public
    def reset_device(self, *, timeout: float | None = None) -> None:
        """Empty the feeds and channels of all devices."""
        self._session.call("ResetDevice", xla_pb2.ResetDeviceRequest(), timeout)
