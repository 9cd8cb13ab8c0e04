"""Devices of the server and their feeds."""

from collections.abc import Iterable, Iterator

from xla_client._session import Session, device_handle
from xla_client.arguments import Argument, as_literal
from xla_contract.literal import Nested
from xla_contract.literal_proto import literal_from_proto, literal_to_proto
from xla_contract.shape import Shape
from xla_contract.shape_proto import shape_to_proto
from xla_contract.stubs import xla_pb2


class Device:
    """One device. Its infeed and outfeed are queues, first in, first out."""

    def __init__(self, session: Session, ordinal: int) -> None:
        self._session = session
        self._ordinal = ordinal

    @property
    def ordinal(self) -> int:
        """The number of the device, from 0."""
        return self._ordinal

    def to_infeed(
        self, value: Argument, shape: Shape | None = None, *, timeout: float | None = None
    ) -> None:
        """Queue one value, an array or a flat tuple of arrays, for the program's infeed.

        `shape` gives types to Python numbers and lists. Waits while the queue is full.
        """
        request = xla_pb2.TransferToInfeedRequest(
            literal=literal_to_proto(as_literal(value, shape)),
            device_handle=device_handle(self._ordinal),
        )
        self._session.call("TransferToInfeed", request, timeout)

    def infeed(
        self,
        values: Iterable[Argument],
        shape: Shape | None = None,
        *,
        timeout: float | None = None,
    ) -> int:
        """Queue every value of an iterable; gives their number.

        Waits while the queue is full, so a stream of any length goes in with little memory; run
        it on a thread of its own beside `outfeed`. `timeout` is for each value.
        """
        count = 0
        for value in values:
            self.to_infeed(value, shape, timeout=timeout)
            count += 1
        return count

    def from_outfeed(self, shape: Shape, *, timeout: float | None = None) -> Nested:
        """Wait for the next value of the program's outfeed.

        Raises InvalidArgumentError when the program has fed a value of another shape, which then
        stays in the queue.
        """
        request = xla_pb2.TransferFromOutfeedRequest(
            shape_with_layout=shape_to_proto(shape.with_default_layout()),
            device_handle=device_handle(self._ordinal),
        )
        response = self._session.call("TransferFromOutfeed", request, timeout)
        return literal_from_proto(response.literal).to_numpy()

    def outfeed(
        self, shape: Shape, count: int | None = None, *, timeout: float | None = None
    ) -> Iterator[Nested]:
        """The next `count` values of the outfeed as they come, or all there will ever be.

        Without `count` the iteration ends only with the loop that drives it. `timeout` is for
        each value.
        """
        received = 0
        while count is None or received < count:
            yield self.from_outfeed(shape, timeout=timeout)
            received += 1

    def __repr__(self) -> str:
        return f"Device({self._ordinal})"
