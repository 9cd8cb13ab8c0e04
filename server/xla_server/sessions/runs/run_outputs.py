"""Outputs of a run's steps and their parts: kept, sent back, or dropped."""

import dataclasses
import functools

from xla_contract.errors import InvalidArgumentError, ResourceExhaustedError
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_server.backends.platform import Buffer
from xla_server.sessions.runs.requests import OutputRequest, PartRequest
from xla_server.sessions.values.donation_check import Path
from xla_server.sessions.values.value_table import checked_layout

MAX_PARTS = 16384
"""Largest number of parts of one step, as the contract states."""


@dataclasses.dataclass(frozen=True, slots=True)
class StepPart:
    """Checked request for a part of a result."""

    path: Path
    shape: Shape
    keep: bool
    fetch_as: Shape | None
    """The shape, with layout, in which the part is sent back; None if it is not."""


@dataclasses.dataclass(frozen=True, slots=True)
class StepOutput:
    """Checked request for a result."""

    keep: bool
    fetch_as: Shape | None
    """The shape, with layout, in which the result is sent back; None if it is not."""
    flatten: bool
    parts: tuple[StepPart, ...] = ()

    @property
    def is_used(self) -> bool:
        """True if the result, or a part of it, is kept or sent back."""
        return self.uses_whole or bool(self.parts)

    @property
    def uses_whole(self) -> bool:
        """True if the whole result is kept or sent back."""
        return self.keep or self.fetch_as is not None

    def shapes(self, result: Shape) -> tuple[Shape, ...]:
        """The shapes of the values that get handles; those of parts come last."""
        parts = tuple(part.shape for part in self.parts if part.keep)
        if not self.keep:
            return parts
        return (*(result.tuple_shapes if self.flatten and result.is_tuple else (result,)), *parts)

    def buffers(self, result: Buffer) -> tuple[Buffer, ...]:
        """The values that get handles; parts come last."""
        parts = tuple(part_of(result, part.path) for part in self.parts if part.keep)
        if not self.keep:
            return parts
        return (*(result.elements if self.flatten and result.shape.is_tuple else (result,)), *parts)


@dataclasses.dataclass(frozen=True, slots=True)
class PartOutcome:
    """Outcome for a part of a result: whether it is kept, and the value sent back, if any."""

    is_kept: bool
    value: Literal | None


class OutputReader:
    """Checks requested outputs; counts the bytes that are sent back over all steps."""

    def __init__(self, max_message_bytes: int) -> None:
        self._max_message_bytes = max_message_bytes
        self.sent_back = 0
        """Bytes to send back, of all requests that were read."""

    def read(self, output: OutputRequest, result: Shape) -> StepOutput:
        """Return the checked request for a result of this shape.

        Raises InvalidArgumentError for a request that does not fit the shape,
        ResourceExhaustedError if the values to send exceed a message.
        """
        if len(output.parts) > MAX_PARTS:
            raise InvalidArgumentError(
                f"a step must have at most {MAX_PARTS} parts to be kept or sent back, got "
                f"{len(output.parts)}"
            )
        keep, fetch_as = self._checked_use(output, result)
        parts = tuple(self._part(part, result) for part in output.parts)
        return StepOutput(keep, fetch_as, output.flatten, parts)

    def _part(self, part: PartRequest, result: Shape) -> StepPart:
        shape = part_shape(result, part.path)
        return StepPart(part.path, shape, *self._checked_use(part, shape))

    def _checked_use(
        self, output: OutputRequest | PartRequest, result: Shape
    ) -> tuple[bool, Shape | None]:
        """Return whether a result or a part is kept, and the shape in which it is sent back."""
        if output.fetch_bytes < 0:
            raise InvalidArgumentError(
                f"fetch_bytes must not be negative, got {output.fetch_bytes}"
            )
        fetch_as = output.fetch_as
        if fetch_as is not None:
            checked_layout(fetch_as, result, "result")
        if not output.fetch_bytes:
            return output.keep, None
        if fetch_as is None:
            fetch_as = _row_major(result)
        # Bytes on the wire count: a requested layout may have any padding.
        if fetch_as.byte_size > output.fetch_bytes:
            return True, None
        self.sent_back += fetch_as.byte_size
        limit = self._max_message_bytes
        if self.sent_back > limit:
            raise ResourceExhaustedError(
                f"a message may take {limit} bytes, got results of {self.sent_back} to be sent "
                "back",
                hint="Keep large results and download them.",
            )
        return output.keep, fetch_as


def part_shape(result: Shape, path: Path) -> Shape:
    """The shape of a part; InvalidArgumentError for a path that does not exist."""
    shape = result
    for index in path:
        if not shape.is_tuple or not 0 <= index < len(shape.tuple_shapes):
            raise InvalidArgumentError(
                f"an index must lead to an element, got {list(path)} into {result}"
            )
        shape = shape.tuple_shapes[index]
    return shape


def part_of(result: Buffer, path: Path) -> Buffer:
    """The value at a path that `part_shape` has accepted."""
    for index in path:
        result = result.elements[index]
    return result


def sent_back(value: Buffer, shape: Shape | None) -> Literal | None:
    """A value in its layout on the wire; None without `shape`, as it is not sent back."""
    if shape is None:
        return None
    return value.to_literal(None if shape.equal(value.shape) else shape)


@functools.lru_cache(maxsize=1024)
def _row_major(shape: Shape) -> Shape:
    return shape.without_layout().with_default_layout()
