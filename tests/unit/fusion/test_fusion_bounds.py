"""Fusions are bounded in size and in the terms of their indices."""

import math

from tests.depth.chains import CHAINS
from tests.processors import TARGET
from tests.unit.passes.passing import stated
from xla_contract.types.opcode import Opcode
from xla_server.fusion.loop_fusion import LoopFusion
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloComputation
from xla_server.passes.framework.fixpoint import run_once
from xla_server.passes.pipeline import pipeline

FUSIONS = TARGET.tuning.fusions
LINKS = int(math.log2(FUSIONS.max_index_terms))
"""Links of a chain in one fusion, if each doubles the terms of an index."""


def fusions(name: str, instructions: int) -> list[HloComputation]:
    module = import_module(CHAINS[name].case(instructions).computation.proto)
    run_once(pipeline(TARGET), module)
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
        assert 1 < max(counts) <= LINKS + 1


def test_terms_of_indices() -> None:
    """A reshape of four dimensions, transposed, has four times the terms of its operand."""
    lines = ["y0 = f32[24,35] multiply(x0, x0)"]
    for n in range(20):
        lines += [
            f"r{n} = f32[4,6,5,7] reshape(y{n})",
            f"v{n} = f32[7,4,5,6] transpose(r{n}), dimensions={{3,0,2,1}}",
            f"t{n} = f32[24,35] reshape(v{n})",
            f"y{n + 1} = f32[24,35] abs(t{n})",
        ]
    module = stated(["f32[24,35]"], "f32[24,35] floor(y20)", *lines)
    assert LoopFusion(TARGET).apply(module)
    bodies = [i.called[0] for i in module.entry.instructions if i.opcode is Opcode.FUSION]
    counts = [sum(i.opcode is Opcode.TRANSPOSE for i in body.instructions) for body in bodies]
    assert 1 < max(counts) <= LINKS // 2 + 1
