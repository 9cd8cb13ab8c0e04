"""Finished programs, and messages that are none."""

from typing import Any

import pytest

from tests.unit.client.small_programs import add
from xla_client import Computation, Shape
from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import hlo_pb2


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda proto: proto.ClearField("host_program_shape"),
            r"^a module must say its host_program_shape, got none in 'add'$",
        ),
        (
            lambda proto: setattr(proto, "entry_computation_id", 99),
            r"must name a computation of the module, got 99 in 'add'$",
        ),
    ],
    ids=["signature", "entry"],
)
def test_a_damaged_module_is_refused(damage: Any, message: str) -> None:
    proto = add().proto
    damage(proto)
    with pytest.raises(InvalidArgumentError, match=message):
        Computation(proto)


def test_it_is_what_it_says_and_stays_so() -> None:
    given = add().proto
    computation = Computation.from_proto(given)
    given.name = "another"
    copy = computation.proto
    copy.name = "a third"
    assert computation.name == "add"
    assert computation.parameters == (Shape.parse("f32[4]{0}"),) * 2
    assert computation.result == Shape.parse("f32[4]{0}")
    assert repr(computation) == f"Computation('add', {computation.program_shape})"
    message = hlo_pb2.HloModuleProto()
    computation.write_to(message)
    assert message.SerializeToString() == computation.to_bytes() == add().to_bytes()
    assert Computation.from_serialized(computation.to_bytes()).to_bytes() == computation.to_bytes()


@pytest.mark.parametrize("data", [b"", b"\xff" * 9, b"text", b"\x0a\x03add"])
def test_other_bytes_are_no_program(data: bytes) -> None:
    with pytest.raises(
        InvalidArgumentError,
        match=f"HloProto is needed, got {len(data)} bytes that are neither\nhint: jax.export.deser",
    ):
        Computation.from_serialized(data)
