"""A client of the health service. It imports none of the server's modules, to start fast."""

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from xla_contract.descriptors import SERVICE_NAME


def health_fault(
    target: str,
    timeout: float,
    credentials: grpc.ChannelCredentials | None = None,
    *,
    service: str = SERVICE_NAME,
) -> str:
    """Return the reason why the server at `target` does not serve; empty if it reports SERVING.

    A `timeout`, in seconds, of 0 or less fails without a call, which grpc might let through. With
    `credentials` the connection uses TLS.
    """
    if timeout <= 0:
        return f"no answer in {timeout:g} s"
    with (
        grpc.insecure_channel(target)
        if credentials is None
        else grpc.secure_channel(target, credentials)
    ) as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        request = health_pb2.HealthCheckRequest(service=service)
        try:
            answer = stub.Check(request, timeout=timeout)
        except grpc.RpcError as error:
            code = error.code()
            return f"{code.name}: {error.details()}"
    status = health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)
    return "" if answer.status == health_pb2.HealthCheckResponse.SERVING else f"it says {status}"
