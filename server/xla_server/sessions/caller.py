"""The identity of whoever makes a call."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """The identity and the connection of a call.

    Attributes:
        identity: The authenticated name; for a caller without credentials its host, by which use is
            counted and no access is decided.
        connection: The accepted connection, under a name that is never used again and that no
            client is told; empty where the transport cannot tell it from all others.
        is_authenticated: True if `identity` was proved by credentials.
    """

    identity: str
    connection: str = ""
    is_authenticated: bool = False

    @property
    def principal(self) -> str:
        """The identity by which access is decided; empty for anybody."""
        return self.identity if self.is_authenticated else ""


LOCAL = Caller("local")
"""A caller in this process, or on this host by way of a unix socket."""
