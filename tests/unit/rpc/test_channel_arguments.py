"""The arguments of grpc's server, shown by a server that has nothing else of ours."""

import threading
from concurrent.futures import ThreadPoolExecutor

import grpc

from xla_server.rpc.server import RpcOptions, channel_arguments

CALLS = 1500
CHANNELS = 3
METHOD = "/of.Nobody/Asked"


class Stalled(grpc.GenericRpcHandler):
    """It keeps the thread that takes calls until `goes_on` is set, and knows no method."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()

    def service(self, handler_call_details):
        self.goes_on.wait()


def test_calls_that_wait_to_be_taken_are_not_cancelled() -> None:
    stalled = Stalled()
    server = grpc.server(
        ThreadPoolExecutor(1),
        handlers=[stalled],
        options=channel_arguments(RpcOptions(["127.0.0.1:0"])),
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    alone = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.insecure_channel(f"127.0.0.1:{port}", options=alone) for _ in range(CHANNELS)]
    try:
        for channel in channels:
            grpc.channel_ready_future(channel).result(timeout=60)
        calls = [
            channels[number % CHANNELS].unary_unary(METHOD).future(b"", timeout=100)
            for number in range(CALLS)
        ]
        # Calls arrive meanwhile. Where fewer do, the test shows less, but passes.
        threading.Timer(1, stalled.goes_on.set).start()
        assert {call.code() for call in calls} == {grpc.StatusCode.UNIMPLEMENTED}
    finally:
        stalled.goes_on.set()
        for channel in channels:
            channel.close()
        server.stop(0).wait()
