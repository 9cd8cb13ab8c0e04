"""The admission of calls, which are counted from their headers on.

A call has a slot while its request arrives, while it waits in the queue for a thread, and until it
is answered, with a thread or without. A call that names no live session is counted by its
connection, so that no client has more slots by inventing names. Streams have a slot while they
wait in the queue; then they are counted among streams.
"""

from collections.abc import Callable
from typing import Any

import grpc

from xla_contract.errors import ResourceExhaustedError
from xla_server.rpc.limits.concurrency_limit import CALL_LIMITS, ConcurrencyLimit, ConcurrencyLimits
from xla_server.rpc.metadata import SESSION_KEY
from xla_server.rpc.peers.callers import host_of
from xla_server.rpc.refusals import Refusals
from xla_server.sessions.limits.shares.caller import Caller


class CallAdmission(ConcurrencyLimit):
    """The slots of the calls of one server.

    `account_of` returns the caller whose resources the live session of a token uses, or None.

    The key of a call is grpc's state of it; a call on a stream has an object of its own.
    """

    def __init__(
        self,
        limits: ConcurrencyLimits = CALL_LIMITS,
        account_of: Callable[[str], Caller | None] = lambda _: None,
    ) -> None:
        super().__init__(limits, "calls", "Wait for calls to end, or give some up.")
        self._account_of = account_of
        self.refusals = Refusals()

    def admit(self, state: Any, event: Any, identity: str = "") -> grpc.Status | None:
        """Take a slot for a call that arrives with `event`; return the status of a refusal.

        `identity` is the name of its caller, empty if no credentials are needed. Called only by
        the thread that receives calls.
        """
        try:
            self.enter(state, *self.owner_of(event, identity))
        except ResourceExhaustedError as error:
            path, peer = event.call_details.method.decode(), event.call.peer().decode()
            return self.refusals.status(error, path, peer)
        return None

    def owner_of(self, event: Any, identity: str = "") -> tuple[str, Caller]:
        """Return the owner of a call's slot, its session or else its address, and its caller.

        A call without a session, or with another caller's, counts for its identity, or else its
        host.
        """
        for key, value in event.invocation_metadata or ():
            if key == SESSION_KEY:
                account = self._account_of(value)
                if account is not None and account.principal == identity:
                    return value, account
        peer: str = event.call.peer().decode()
        return peer, Caller(identity or host_of(peer), peer, is_authenticated=bool(identity))
