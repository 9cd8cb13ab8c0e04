"""Queues of infeed and outfeed."""

from typing import Protocol

from xla_contract.errors import FailedPreconditionError
from xla_contract.types.shape import Shape
from xla_server.execution.cancellation import Cancellation
from xla_server.ops.evaluation import Value


class Feeds(Protocol):
    """The two queues of one device, as a run sees them."""

    def take_infeed(self, shape: Shape, cancellation: Cancellation, instruction: str) -> Value:
        """Wait for the next item of infeed, which must have this shape, and take it.

        `instruction` is the name of the one that asks. Raises what `cancellation` raises, and
        InvalidArgumentError for another shape.
        """

    def put_outfeed(
        self, value: Value, shape: Shape, cancellation: Cancellation, instruction: str
    ) -> None:
        """Append an item of this shape to outfeed, waiting while there is no room.

        `instruction` is the name of the one that asks. Raises what `cancellation` raises.
        """


class NoFeeds:
    """The feeds of a run without a device, such as the evaluation of a constant."""

    def take_infeed(self, shape: Shape, cancellation: Cancellation, instruction: str) -> Value:
        """Raise FailedPreconditionError."""
        raise FailedPreconditionError(f"infeed needs a device, got none to read {shape} from")

    def put_outfeed(
        self, value: Value, shape: Shape, cancellation: Cancellation, instruction: str
    ) -> None:
        """Raise FailedPreconditionError."""
        raise FailedPreconditionError(f"outfeed needs a device, got none to write {shape} to")
