import numpy as np

from tests.corpus.single_op import result_of
from xla_contract.ops.control.ordering import DomainAttributes
from xla_contract.stubs import xla_data_pb2
from xla_contract.types.opcode import Opcode
from xla_server.ops.evaluation import TOKEN


def test_values_pass_through() -> None:
    numbers = np.arange(3)
    passed = result_of(Opcode.OPT_BARRIER, (numbers, TOKEN))
    assert passed[0] is numbers
    assert result_of(Opcode.ADD_DEPENDENCY, numbers, TOKEN) is numbers
    assert result_of(Opcode.AFTER_ALL, TOKEN, TOKEN) is TOKEN
    assert result_of(Opcode.AFTER_ALL) is TOKEN


def test_a_domain_keeps_its_shardings() -> None:
    sharding = xla_data_pb2.OpSharding(type=xla_data_pb2.OpSharding.MAXIMAL)
    sharding.tile_assignment_devices.append(1)
    attributes = DomainAttributes(b"", sharding.SerializeToString())
    assert result_of(Opcode.DOMAIN, np.array(1), attributes=attributes) == 1
    assert result_of(Opcode.DOMAIN, np.array(1), attributes=DomainAttributes()) == 1
