"""Elementwise operations on concatenations that are reduced come before the concatenation."""

import pytest

from tests.processors import TARGET
from tests.unit.passes.passing import imported, opcodes, passed, rewritten
from xla_server.ir.module import HloModule
from xla_server.passes.reductions.concatenate_reduction import ConcatenateReduction
from xla_server.passes.reductions.stacked_elements import MAX_OPERATIONS, StackedElements

PASSES = StackedElements(TARGET), ConcatenateReduction(TARGET)


def stacked(*lines: str, parts: int = 3, size: int = 1, kind: str = "f32") -> HloModule:
    """A module whose `c` is a concatenation of parts [size,4] along 0, and `m` is f32[4]."""
    names = [f"x{n}" for n in range(parts)]
    parameters = "\n".join(
        f"{name} = {kind}[{size},4] parameter({n})" for n, name in enumerate(names)
    )
    body = "\n".join(lines).replace("[n,", f"[{parts * size},")
    return imported(f"""HloModule m
    add {{ a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT r = f32[] add(a, b) }}
    max {{ a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT r = f32[] maximum(a, b) }}
    pair {{ a = f32[] parameter(0)
      b = f32[] parameter(1)
      n = f32[] negate(a)
      ROOT r = f32[] add(n, b) }}
    ENTRY e {{ {parameters}
      m = f32[4] parameter({parts})
      z = f32[] constant(0)
      c = {kind}[{parts * size},4] concatenate({", ".join(names)}), dimensions={{0}}
      {body} }}""")


LARGEST = "m1 = f32[4] reduce(c, z), dimensions={0}, to_apply=max"
CENTRED = ("w = f32[n,4] broadcast(m1), dimensions={1}", "d = f32[n,4] subtract(c, w)")
SUM = "ROOT t = f32[4] reduce(d, z), dimensions={0}, to_apply=add"
LOGSUMEXP = (LARGEST, *CENTRED, "e = f32[n,4] exponential(d)", SUM.replace("(d,", "(e,"))
SLICES = (
    "e = f32[n,4] exponential(c)",
    "s = f32[4] reduce(e, z), dimensions={0}, to_apply=add",
    "p = f32[1,4] slice(e), slice={[1:2],[0:4]}",
    "ROOT t = (f32[4], f32[1,4]) tuple(s, p)",
)
TWO = (
    "k = f32[n,4] concatenate(x2, x1, x0), dimensions={0}",
    "d = f32[n,4] multiply(c, k)",
    SUM,
)


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (stacked(*LOGSUMEXP), {"exponential": 3, "subtract": 3, "reduce": None}),
        (stacked(*LOGSUMEXP, size=2), {"exponential": 3, "subtract": 3, "reduce": 2}),
        (stacked(*SLICES), {"exponential": 3, "reduce": None}),
        (stacked(*TWO), {"multiply": 3, "reduce": None}),
        (stacked("d = f32[n,4] convert(c)", SUM, kind="bf16", parts=5), {"convert": 5, "add": 5}),
    ],
)
def test_fires(module: HloModule, expected: dict[str, int | None]) -> None:
    after = rewritten(module, *PASSES, relative=1e-6)
    found = opcodes(after)
    assert {kind: found.get(kind) for kind in expected} == expected
    # Only slices of one part read what is left of a concatenation.
    assert ("concatenate" in found) is ("slice" in found)


@pytest.mark.parametrize(
    "module",
    [
        # Others need the whole.
        stacked(*LOGSUMEXP[:3], "ROOT t = f32[n,4] exponential(d)"),
        stacked(
            "d = f32[n,4] negate(c)",
            SUM.replace("ROOT ", ""),
            "ROOT r = (f32[4], f32[n,4]) tuple(t, d)",
        ),
        # Parts do not go with each other's.
        stacked(
            "w = f32[n,4] broadcast(z), dimensions={}",
            "k = f32[n,4] pad(x0, z), padding=0_2x0_0",
            "d = f32[n,4] add(c, k)",
            SUM,
        ),
        stacked("k = f32[n,4] iota(), iota_dimension=0", "d = f32[n,4] add(c, k)", SUM),
        # The reduction is along another dimension, or of no known operation.
        stacked(
            "d = f32[n,4] negate(c)", "ROOT t = f32[3] reduce(d, z), dimensions={1}, to_apply=add"
        ),
        stacked("d = f32[n,4] negate(c)", SUM.replace("=add", "=pair")),
        # A slice of two parts.
        stacked(
            *SLICES[:2],
            "p = f32[2,4] slice(e), slice={[1:3],[0:4]}",
            "ROOT t = (f32[4], f32[2,4]) tuple(s, p)",
        ),
        # Too many operations.
        stacked("d = f32[n,4] negate(c)", SUM, parts=MAX_OPERATIONS + 1),
    ],
)
def test_stays(module: HloModule) -> None:
    passed(module, StackedElements(TARGET), fires=False)
