"""Fusions are bounded in size and in how deeply indices are computed from each other."""

from tests.depth.chains import CHAINS
from tests.processors import TARGET
from xla_contract.opcode import Opcode
from xla_server.fusion.loop_fusion import LoopFusion
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloComputation
from xla_server.passes.pipeline import optimise

FUSIONS = TARGET.tuning.fusions


def fusions(name: str, instructions: int) -> list[HloComputation]:
    module = import_module(CHAINS[name].case(instructions).computation.proto)
    optimise(module, TARGET)
    assert LoopFusion(TARGET).apply(module)
    return [i.called[0] for i in module.entry.instructions if i.opcode is Opcode.FUSION]


def test_size() -> None:
    sizes = [len(body.instructions) - len(body.parameters) for body in fusions("binary", 1000)]
    assert max(sizes) <= FUSIONS.max_instructions
    assert sum(sizes) == 1000


def test_nested_indices() -> None:
    for name, opcode in (("gather", Opcode.GATHER), ("shapes", Opcode.RESHAPE)):
        counts = [
            sum(part.opcode is opcode for part in body.instructions) for body in fusions(name, 60)
        ]
        assert 1 < max(counts) <= FUSIONS.max_index_depth + 1
