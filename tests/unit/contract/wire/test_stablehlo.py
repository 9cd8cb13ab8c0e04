"""StableHLO to HLO by jaxlib, and what its failures say."""

from typing import Any

import pytest

from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import hlo_pb2
from xla_contract.wire import stablehlo

TEXT = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = stablehlo.negate %x : tensor<3xf32>
  return %y : tensor<3xf32>
}"""


def test_text_becomes_hlo() -> None:
    module = hlo_pb2.HloModuleProto.FromString(stablehlo.from_stablehlo(TEXT))
    (computation,) = module.computations
    assert [each.opcode for each in computation.instructions] == ["parameter", "negate"]


def test_bytecode_is_told_by_its_first_bytes() -> None:
    assert stablehlo.is_stablehlo(b"ML\xefR\r")
    assert not stablehlo.is_stablehlo(TEXT.encode())


def test_a_failure_says_where_it_is() -> None:
    with pytest.raises(InvalidArgumentError, match=r"jaxlib converts, got .* at 2:\d+") as caught:
        stablehlo.from_stablehlo(TEXT.replace("%y = stablehlo.negate %x", "%y = stablehlo.no %x"))
    assert "\n" not in caught.value.message


def test_a_failure_without_a_message_is_one_of_the_module(monkeypatch: Any) -> None:
    def fail(*_: object) -> bytes:
        raise ValueError

    monkeypatch.setattr(stablehlo, "_translated", fail)
    with pytest.raises(InvalidArgumentError, match="must be one that jaxlib converts"):
        stablehlo.from_stablehlo(TEXT)
