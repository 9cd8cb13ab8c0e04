"""Fields of a message that the server carries along without interpreting them."""

from collections.abc import Container
from typing import TypeVar

from google.protobuf.message import Message

M = TypeVar("M", bound=Message)


def present_fields(message: Message) -> set[str]:
    """The names of the fields that are set in `message`."""
    return {field.name for field, _ in message.ListFields()}


def decoration_of(message: M, modelled: Container[str]) -> M | None:
    """A copy of the set fields of `message` not named in `modelled`; None when there are none.

    The modelled fields are never copied: one of them may be a literal of 100 MB.
    """
    kept = type(message)()
    copy_fields(message, kept, modelled)
    return kept if kept.ListFields() else None


def copy_fields(source: Message, target: Message, skip: Container[str]) -> None:
    """Merge into `target` every set field of `source` that is not named in `skip`."""
    for field, value in source.ListFields():
        if field.name in skip:
            continue
        part = getattr(target, field.name)
        if not hasattr(part, "MergeFrom"):
            setattr(target, field.name, value)
            continue
        part.MergeFrom(value)
        if isinstance(part, Message):
            # An empty message is a statement too, and merging one does not set the field.
            part.SetInParent()
