"""Channels between send and recv instructions."""

import enum
import itertools

from xla_contract.errors import InvalidArgumentError


class ChannelType(enum.IntEnum):
    """Which ends a channel connects; the numbers of ChannelHandle.ChannelType."""

    DEVICE_TO_DEVICE = 1
    DEVICE_TO_HOST = 2
    HOST_TO_DEVICE = 3


class Channels:
    """Gives out channel handles. They only tell channels apart, so they simply count from 1."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)

    def create(self, channel_type: int) -> tuple[int, ChannelType]:
        """A new handle and its type; InvalidArgumentError when the type is none of the three."""
        try:
            known = ChannelType(channel_type)
        except ValueError:
            names = ", ".join(f"{kind.name} = {kind}" for kind in ChannelType)
            raise InvalidArgumentError(
                f"channel_type must be one of {names}, got {channel_type}"
            ) from None
        return next(self._numbers), known
