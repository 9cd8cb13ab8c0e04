from tests.checked_evaluation import evaluate_checked
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.execution.collectives_protocol import NoCollectives
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.module import HloComputation, HloInstruction


def test_the_run_knows_which_replica_and_partition_it_is() -> None:
    for opcode, number in ((Opcode.REPLICA_ID, 3), (Opcode.PARTITION_ID, 5)):
        root = HloInstruction("root", 0, opcode, Shape.parse("u32[]"))
        program = HloComputation("main", 0, [root], root, ())
        value = evaluate_checked(
            program, [], options=ExecuteOptions(collectives=NoCollectives(3, 5))
        )
        assert value == number
