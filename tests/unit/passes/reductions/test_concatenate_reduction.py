"""Reductions of concatenations combine the operands instead."""

import numpy as np
import pytest

from tests.processors import TARGET
from tests.unit.passes.passing import imported, opcodes, passed, rewritten
from xla_server.ir.module import HloModule
from xla_server.passes.reductions.concatenate_reduction import ConcatenateReduction

MAX_OPERANDS = TARGET.tuning.reductions.max_concatenated_operands


def reduced(
    *operands: str,
    kind: str = "f32",
    along: int = 0,
    whole: str,
    dimensions: str = "0",
    result: str = "",
    opcode: str = "add",
    initial: str = "constant(0)",
    also: str = "",
) -> HloModule:
    """A reduction of a concatenation of parameters."""
    parameters = "\n".join(f"x{n} = {s} parameter({n})" for n, s in enumerate(operands))
    names = ", ".join(f"x{n}" for n in range(len(operands)))
    return imported(f"""HloModule m
    f {{ a = {kind}[] parameter(0)
      b = {kind}[] parameter(1)
      ROOT r = {kind}[] {opcode}(a, b) }}
    ENTRY e {{ {parameters}
      z = {kind}[] {initial}
      c = {kind}[{whole}] concatenate({names}), dimensions={{{along}}}
      s = {kind}[{result}] reduce(c, z), dimensions={{{dimensions}}}, to_apply=f
      {also or f"ROOT t = {kind}[{result}] negate(s)"} }}""")


UNIT = ("f32[4,1]",) * 3
FIRES: tuple[tuple[HloModule, dict[str, int]], ...] = (
    (
        reduced(*UNIT, along=1, whole="4,3", dimensions="1", result="4"),
        {"add": 3, "reshape": 1, "broadcast": 1},
    ),
    (reduced(*UNIT, along=1, whole="4,3", dimensions="0,1"), {"add": 3, "reduce": 1}),
    (
        reduced(*UNIT, along=1, whole="4,3", dimensions="1", result="4", opcode="maximum"),
        {"maximum": 3, "reshape": 1, "broadcast": 1},
    ),
    (
        reduced(*UNIT, along=1, whole="4,3", dimensions="1", result="4", initial="constant(3)"),
        {"add": 3, "reshape": 1, "broadcast": 1},
    ),
    (
        reduced("s32[2,3]", "s32[2,3]", kind="s32", whole="4,3", result="3"),
        {"add": 2, "reduce": 1, "broadcast": 1},
    ),
    (
        reduced("f32[2,3]", "f32[5,3]", whole="7,3", result="3"),
        {"add": 2, "reduce": 2, "broadcast": 1},
    ),
    (
        reduced("f32[3,3]", "f32[2,3]", "f32[3,3]", "f32[2,3]", whole="10,3", result="3"),
        {"add": 4, "reduce": 2, "broadcast": 1},
    ),
)

STAYS: tuple[HloModule, ...] = (
    reduced(*(f"f32[{n},4]" for n in range(1, 6)), whole="15,4", result="4"),
    reduced(*UNIT, along=1, whole="4,3", result="3"),
    reduced(*UNIT, along=1, whole="4,3", dimensions="1", result="4", opcode="subtract"),
    reduced(
        *UNIT,
        along=1,
        whole="4,3",
        dimensions="1",
        result="4",
        also="ROOT t = (f32[4], f32[4,3]) tuple(s, c)",
    ),
    reduced(*("f32[1,4]",) * (MAX_OPERANDS + 1), whole=f"{MAX_OPERANDS + 1},4", result="4"),
)


@pytest.mark.parametrize("case", FIRES)
def test_fires(case: tuple[HloModule, dict[str, int]]) -> None:
    module, expected = case
    after = rewritten(module, ConcatenateReduction(TARGET), relative=1e-6)
    found = opcodes(after)
    assert "concatenate" not in found
    assert {kind: found.get(kind) for kind in expected} == expected


@pytest.mark.parametrize("case", STAYS)
def test_stays(case: HloModule) -> None:
    passed(case, ConcatenateReduction(TARGET), fires=False)


@pytest.mark.parametrize("count", [2, 9, MAX_OPERANDS])
def test_zeros_keep_their_sign(count: int) -> None:
    module = reduced(*("f32[1,9]",) * count, whole=f"{count},9", result="9", initial="constant(-0)")
    rewritten(
        module, ConcatenateReduction(TARGET), arguments=[np.full((1, 9), -0.0, np.float32)] * count
    )
