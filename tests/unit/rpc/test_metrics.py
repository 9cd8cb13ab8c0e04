"""Metrics of a server, as they are collected."""

from xla_contract.errors import NotFoundError
from xla_server.rpc.metrics import _refused
from xla_server.rpc.refusals import Refusals


def test_calls_are_refused_while_their_numbers_are_collected() -> None:
    refusals = Refusals()

    class Count(int):
        def __gt__(self, other: int) -> bool:
            refusals.status(NotFoundError("the first of this status"), "/service/Rpc", "peer")
            return int(self) > other

    refusals.by_code["UNAUTHENTICATED"] = Count(3)
    samples = _refused([refusals]).samples
    assert [(each.labels["grpc_code"], each.value) for each in samples] == [("UNAUTHENTICATED", 3)]
