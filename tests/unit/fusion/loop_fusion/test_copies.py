"""Duplicates of an instruction within a fusion."""

import pytest

from tests.processors import TARGET
from tests.unit.passes.passing import assert_kept, opcodes, passed, rewritten, stated
from xla_contract.errors import InternalError
from xla_contract.types.opcode import Opcode
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Tracer
from xla_server.fusion.analysis.index_maps import scalars
from xla_server.fusion.loop_fusion import LoopFusion
from xla_server.fusion.multi_output_fusion import MultiOutputFusion
from xla_server.ir.analysis.affine import Variable, variable
from xla_server.ir.module import HloModule

FUSIONS = TARGET.tuning.fusions
TESTED, REPEATED = FUSIONS.max_tested_copies, FUSIONS.max_repeated_operations

WIDTH = 64


def neighbours(made: str, count: int) -> HloModule:
    """The sum of `count` slices of `made`, each moved by one."""
    size = WIDTH - count
    lines = [f"y = {made}", f"sum0 = f32[{size}] slice(y), slice={{[0:{size}]}}"]
    for n in range(1, count):
        lines.append(f"part{n} = f32[{size}] slice(y), slice={{[{n}:{n + size}]}}")
        lines.append(f"sum{n} = f32[{size}] add(sum{n - 1}, part{n})")
    return stated([f"f32[{WIDTH}]"], f"f32[{size}] negate(sum{count - 1})", *lines)


def rotations(depth: int) -> HloModule:
    """A vector added to itself rotated, again and again."""
    lines, last = [], "x0"
    for n in range(depth):
        lines += [
            f"a{n} = f32[1] slice({last}), slice={{[{WIDTH - 1}:{WIDTH}]}}",
            f"b{n} = f32[{WIDTH - 1}] slice({last}), slice={{[0:{WIDTH - 1}]}}",
            f"r{n} = f32[{WIDTH}] concatenate(a{n}, b{n}), dimensions={{0}}",
            f"sum{n} = f32[{WIDTH}] add({last}, r{n})",
        ]
        last = f"sum{n}"
    return stated([f"f32[{WIDTH}]"], f"f32[{WIDTH}] negate({last})", *lines)


@pytest.mark.parametrize(
    ("made", "count", "kernels"),
    [
        (f"f32[{WIDTH}] multiply(x0, x0)", FUSIONS.max_copies, 1),
        (f"f32[{WIDTH}] multiply(x0, x0)", FUSIONS.max_copies + 1, 2),
        (f"f32[{WIDTH}] tanh(x0)", 2, 1),
        (f"f32[{WIDTH}] tanh(x0)", 3, 2),
        # Reading an array at another index is no work.
        (f"f32[{WIDTH}] reverse(x0), dimensions={{0}}", 2 * FUSIONS.max_copies, 1),
    ],
)
def test_what_is_read_at_many_positions_is_stored(made: str, count: int, kernels: int) -> None:
    module = neighbours(made, count)
    assert sum(opcodes(rewritten(module, LoopFusion(TARGET), relative=1e-5)).values()) == kernels


@pytest.mark.parametrize(("count", "kernels"), [(TESTED, 1), (TESTED + 1, 2)])
def test_what_is_read_behind_tests_is_stored_sooner(count: int, kernels: int) -> None:
    parts = ", ".join(["y"] * count)
    module = stated(
        ["f32[8]"],
        f"f32[{8 * count}] concatenate({parts}), dimensions={{0}}",
        "y = f32[8] multiply(x0, x0)",
    )
    after = passed(module, LoopFusion(TARGET), fires=kernels == 1)
    assert sum(opcodes(after).values()) == kernels
    assert_kept(module, after)


def test_copies_of_copies_are_bounded() -> None:
    module = rotations(40)
    after = rewritten(module, LoopFusion(TARGET), MultiOutputFusion(TARGET), relative=1e-4)
    fusions = [i for i in after.entry.instructions if i.opcode is Opcode.FUSION]
    assert 1 < len(fusions) <= 40
    assert max(sum(scalars(i.called[0]).values()) for i in fusions) <= FUSIONS.max_scalars


@pytest.mark.parametrize(("length", "kernels"), [(20, 1), (45, 2)])
def test_loops_with_many_copies_are_not_joined(length: int, kernels: int) -> None:
    size, lines = WIDTH - FUSIONS.max_copies, []
    for side, opcode in (("l", "negate"), ("r", "floor")):
        last = "x0"
        for n in range(length):
            lines.append(f"{side}{n} = f32[{WIDTH}] {opcode if n % 2 else 'abs'}({last})")
            last = f"{side}{n}"
        for n in range(FUSIONS.max_copies):
            box = f"slice={{[{n}:{n + size}]}}"
            lines.append(f"{side}part{n} = f32[{size}] slice({last}), {box}")
        total = f"{side}part0"
        for n in range(1, FUSIONS.max_copies):
            lines.append(f"{side}sum{n} = f32[{size}] add({total}, {side}part{n})")
            total = f"{side}sum{n}"
    last = f"sum{FUSIONS.max_copies - 1}"
    shapes = f"(f32[{size}], f32[{size}])"
    module = stated([f"f32[{WIDTH}]"], f"{shapes} tuple(l{last}, r{last})", *lines)
    LoopFusion(TARGET).apply(module)
    assert opcodes(module)["fusion"] == 2
    after = passed(module, MultiOutputFusion(TARGET), fires=kernels == 1)
    assert opcodes(after)["fusion"] == kernels
    assert_kept(module, after)


def test_a_kernel_that_would_not_end_is_given_up() -> None:
    def traced(depth: int) -> None:
        entry = rotations(depth).entry
        index = (variable(Variable(WIDTH, "i")),)
        Tracer(RULES, {entry.parameters[0]: 0}).value(entry.root, index)

    traced(4)
    with pytest.raises(InternalError, match="a kernel must compute at most"):
        traced(40)


@pytest.mark.parametrize(("depth", "kernels"), [(2, 2), (REPEATED, 2), (9, 3), (60, 3)])
def test_a_long_chain_is_not_computed_by_two_fusions(depth: int, kernels: int) -> None:
    lines = ["c0 = f32[64,64] add(x0, x0)"]
    lines += [f"c{n} = f32[64,64] maximum(c{n - 1}, x1)" for n in range(1, depth)]
    last = f"c{depth - 1}"
    module = stated(
        ["f32[64,64]", "f32[64,64]"],
        "(f32[64], f32[64,64]) tuple(r, t)",
        *lines,
        "zero = f32[] constant(0)",
        f"r = f32[64] reduce({last}, zero), dimensions={{0}}, to_apply=add",
        f"h = f32[64,64] negate({last})",
        "t = f32[64,64] tanh(h)",
    )
    assert opcodes(rewritten(module, LoopFusion(TARGET)))["fusion"] == kernels
