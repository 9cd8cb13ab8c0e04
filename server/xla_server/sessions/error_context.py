"""The part of a request that an error is about."""

import contextlib
from collections.abc import Iterator

from xla_contract.errors import XlaError


def with_context(part: str, error: XlaError) -> XlaError:
    """The error with the part of the request it is about, such as `argument 3`, in front."""
    return type(error)(
        f"{part}: {error.message}",
        op=error.op,
        instruction=error.instruction,
        hint=error.hint,
        incident=error.incident,
    )


@contextlib.contextmanager
def part_of_request(part: str) -> Iterator[None]:
    """Raise the errors of the block `with_context` in a part of the request."""
    try:
        yield
    except XlaError as error:
        raise with_context(part, error) from error.__cause__
