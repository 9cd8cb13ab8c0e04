"""A client of the health service. It imports none of the server's modules, to start fast."""

import time
from collections.abc import Callable

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from xla_contract.descriptors import SERVICE_NAME


def health_fault(
    target: str,
    timeout: float,
    open_channel: Callable[[str], grpc.Channel] = grpc.insecure_channel,
    *,
    service: str = SERVICE_NAME,
) -> str:
    """Return the reason why the server at `target` does not serve; empty if it reports SERVING.

    A `timeout`, in seconds, of 0 or less fails without a call, which grpc might let through.
    `open_channel` makes the connection, by default in plaintext, within the timeout; its errors are
    raised.
    """
    if timeout <= 0:
        return f"no answer in {timeout:g} s"
    deadline = time.monotonic() + timeout
    with open_channel(target) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service=service)
        try:
            answer = stub.Check(request, timeout=max(0.001, deadline - time.monotonic()))
        except grpc.RpcError as error:
            code = error.code()
            return f"{code.name}: {error.details()}"
    status = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    return "" if answer.status == health_pb2.HealthCheckResponse.SERVING else f"it says {status}"
