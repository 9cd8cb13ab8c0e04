"""Queues of infeed and outfeed."""

from typing import NamedTuple, Protocol

from xla_contract.errors import FailedPreconditionError
from xla_contract.types.shape import Shape
from xla_server.execution.cancellation import Cancellation
from xla_server.ops.evaluation import Value


class FeedUse(NamedTuple):
    """The name of an instruction that uses a queue, and the channel from or to the host.

    Without a channel the queue is infeed or outfeed.
    """

    instruction: str
    channel_id: int | None = None


class Feeds(Protocol):
    """The queues of one device, as a run sees them: infeed, outfeed, and those of channels."""

    def take_infeed(self, shape: Shape, cancellation: Cancellation, use: FeedUse, /) -> Value:
        """Wait for the next item of the queue, which must have this shape, and take it.

        Raises what `cancellation` raises,
        InvalidArgumentError for another shape, and FailedPreconditionError for an unknown channel.
        """

    def put_outfeed(
        self, value: Value, shape: Shape, cancellation: Cancellation, use: FeedUse, /
    ) -> None:
        """Append an item of this shape to the queue, waiting while it is full.

        Raises what `cancellation` raises, and
        FailedPreconditionError for an unknown channel.
        """


class NoFeeds:
    """The feeds of a run without a device, such as the evaluation of a constant."""

    def take_infeed(self, shape: Shape, *_: object) -> Value:
        """Raise FailedPreconditionError."""
        raise FailedPreconditionError(f"infeed needs a device, got none to read {shape} from")

    def put_outfeed(self, value: Value, shape: Shape, *_: object) -> None:
        """Raise FailedPreconditionError."""
        raise FailedPreconditionError(f"outfeed needs a device, got none to write {shape} to")
