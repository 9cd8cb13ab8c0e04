"""Clients that ask whether the server is there."""

import time

from tests.e2e.process import ServerProcess, serving
from tests.fault.plain import until
from tests.fault.raw_peer import AWAY, PING, RawPeer
from xla_contract.stubs import xla_extension_pb2 as extension_pb2

APART = 5.2
"""Seconds; a server's own default is 300."""

STRIKES = 3
"""Pings that come too soon, of which the last ends the connection."""


server = serving()


def test_a_client_without_calls_may_ask_now_and_then(server: ServerProcess) -> None:
    with RawPeer(server.address) as peer:
        peer.ping()
        for _ in range(STRIKES):
            time.sleep(APART)
            peer.ping()
        until(lambda: peer.frames.count((PING, 0)) > STRIKES)
        # An answer to a later call comes behind any frame that sends the client away.
        peer.wait_for_end(peer.call("DescribeSession", extension_pb2.DescribeSessionRequest()))
        assert (AWAY, 0) not in peer.frames


def test_one_that_does_nothing_but_ask_is_sent_away(server: ServerProcess) -> None:
    with RawPeer(server.address) as peer:
        for _ in range(1 + STRIKES):
            peer.ping()
        peer.wait_for(AWAY, 0)
