"""The identity of a call's client."""

import dataclasses
from typing import NamedTuple


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """The identity and the connection of a call.

    Attributes:
        identity: The authenticated name; for a caller without credentials its host, by which use is
            counted and no access is decided.
        connection: The accepted connection, under a name that is never used again and that no
            client learns; empty if the transport cannot identify it.
        is_authenticated: True if `identity` was proved by credentials.
    """

    identity: str
    connection: str = ""
    is_authenticated: bool = False

    @property
    def principal(self) -> str:
        """The authenticated identity, which decides access; empty without authentication."""
        return self.identity if self.is_authenticated else ""


LOCAL = Caller("local")
"""A caller in this process, or on this host by way of a unix socket."""


class Flow(NamedTuple):
    """The source of a job by which schedulers are fair: a session, its connection, its identity.

    The names are for telling sources apart, and decide no access.
    """

    identity: str
    connection: str = ""
    session: str = ""


LOCAL_FLOW = Flow(LOCAL.identity)
"""The source of jobs that belong to no caller, such as the follow-ups of calls."""


def flow_of(caller: Caller, session: str = "") -> Flow:
    """Return the flow of a caller's session."""
    return Flow(caller.identity, caller.connection, session)
