"""Each known difference excuses what it is about, and nothing near it."""

import functools
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

from tests.corpus.hlo_text import parse_hlo
from tests.fuzz.answers.judging.judge import Judgement, judge
from tests.fuzz.answers.judging.known import KNOWN
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloInstruction

SUM = "sum { v = u64[] parameter(0)\n w = u64[] parameter(1)\n ROOT u = u64[] add(v, w) }"
ADD = "add { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = f32[] add(x, y) }"
GE = ADD.replace("add {", "ge {").replace("f32[] add(x, y)", "pred[] compare(x, y), direction=GE")
REDUCED_BRANCH = """{0} {{ x = f32[{1}] parameter(0)
 i = f32[] constant(5)
 ROOT s = f32[] reduce(x, i), dimensions={{0}}, to_apply=add }}"""
DIVIDE = (
    "divide { t = f32[] parameter(0)\n k = f32[] constant(-0.7)\n ROOT d = f32[] divide(t, k) }"
)
DIVIDE_BY = DIVIDE.replace("divide {", "divide_by {").replace("constant(-0.7)", "parameter(1)")
BRANCHES = "\n".join(REDUCED_BRANCH.format(*each) for each in (("of_one", 1), ("of_two", 2)))
NAN = complex(np.nan, 1)


def instruction(parameters: str, root: str) -> HloInstruction:
    lines = [f"p{n} = {shape} parameter({n})" for n, shape in enumerate(parameters.split())]
    root, _, before = root.partition("\n")
    body = "\n".join([*lines, before, f"ROOT r = {root}"])
    called = "\n".join([ADD, SUM, GE, DIVIDE, DIVIDE_BY, BRANCHES])
    return import_module(parse_hlo(f"HloModule m\n{called}\nENTRY e {{ {body} }}")).entry.root


REDUCE = ("f32[2,{0}] f32[]", "f32[2] reduce(p0, p1), dimensions={1}, to_apply=add")
BRANCH = "f32[] conditional(p0, p1, p1), branch_computations={of_one, of_one}"
SCATTER = (
    "f32[1] s32[2,0] f32[2]",
    "f32[1] scatter(p0, p1, p2), update_window_dims={}, inserted_window_dims={0}, "
    "scatter_dims_to_operand_dims={}, index_vector_dim=1, to_apply=add",
)
SELECTION = (
    "f32[1,4] f32[1,2] f32[]",
    "f32[1,4] select-and-scatter(p0, p1, p2), window={size=2x2 stride=2x2 pad=0_1x0_0}, "
    "select=ge, scatter=add",
)
UNPADDED = (
    "f32[2,4] f32[1,2] f32[]",
    SELECTION[1].replace(" pad=0_1x0_0", "").replace("[1,4]", "[2,4]"),
)
LINE = SELECTION[0], SELECTION[1].replace("size=2x2", "size=1x2")
WINDOW = "f32[17] reduce-window(p0, p1), window={{}}, to_apply=add"
CONVOLUTION = "f32[1,1,1] convolution(p0, p1), window={size=2 {}}, dim_labels=bf0_oi0->bf0"
GROUPS = (
    "c64[1,2,1] c64[2,1,1]",
    "c64[1,2,1] convolution(p0, p1), window={size=1 lhs_dilate=2}, dim_labels=bf0_oi0->bf0, "
    "feature_group_count=2",
)
BATCHES = (
    "f32[2,1,1] f32[2,1,1]",
    "f32[1,2,1] convolution(p0, p1), window={size=1}, dim_labels=bf0_oi0->bf0, batch_group_count=2",
)
STOCHASTIC = "s8[1] stochastic-convert(p0, p1)"
FNUZ, FN = (
    functools.partial(np.array, dtype=kind)
    for kind in (ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e4m3fn)
)
F32 = np.float32
C64 = np.complex64


class Answers(NamedTuple):
    """The results of an instruction on a side for its operands, and whether they are excused."""

    operands: list[Any]
    expected: Any
    actual: Any
    is_known: bool = True
    side: str = "jaxlib"


excused, reported = Answers, functools.partial(Answers, is_known=False)

CASES: dict[str, tuple[HloInstruction, Answers]] = {
    "reduction of single elements": (
        instruction(REDUCE[0].replace("{0}", "1"), REDUCE[1]),
        excused([F32([[1], [2]]), F32(5)], F32([6, 7]), F32([1, 2])),
    ),
    "reduction of two elements": (
        instruction(REDUCE[0].replace("{0}", "2"), REDUCE[1]),
        reported([F32([[1, 0], [2, 0]]), F32(5)], F32([6, 7]), F32([1, 2])),
    ),
    "reduction of single elements by cpu": (
        instruction(REDUCE[0].replace("{0}", "1"), REDUCE[1]),
        reported([F32([[1], [2]]), F32(5)], F32([6, 7]), F32([1, 2]), side="cpu"),
    ),
    "reduction of single elements in a branch": (
        instruction("s32[] f32[1]", BRANCH),
        excused([np.int32(0), F32([1])], F32(6), F32(1)),
    ),
    "reduction of two elements in a branch": (
        instruction("s32[] f32[2]", BRANCH.replace("one", "two")),
        reported([np.int32(0), F32([1, 0])], F32(6), F32(1)),
    ),
    "reduction of elements put together": (
        instruction(
            "f32[1] f32[1] f32[]",
            "f32[] reduce(c, p2), dimensions={0}, to_apply=add\n"
            "c = f32[2] concatenate(p0, p1), dimensions={0}",
        ),
        excused([F32([1, 2]), F32(5)], F32(8), F32(3)),
    ),
    "reduction of a state of random bits": (
        instruction(
            "u64[3] u64[]",
            "u64[] reduce(s, p1), dimensions={0}, to_apply=sum\n"
            "b = (u64[3], u8[4]) rng-bit-generator(p0), algorithm=rng_philox\n"
            "s = u64[3] get-tuple-element(b), index=0",
        ),
        excused([np.uint64([1, 1, 1]), np.uint64(5)], np.uint64(8), np.uint64(3)),
    ),
    "reduction of arrays put together": (
        instruction(
            "f32[2] f32[2] f32[]",
            "f32[] reduce(c, p2), dimensions={0}, to_apply=add\n"
            "c = f32[4] concatenate(p0, p1), dimensions={0}",
        ),
        reported([F32([1, 2, 0, 0]), F32(5)], F32(8), F32(3)),
    ),
    "zeros of a negative number": (
        instruction("s32[1]", "s32[1] count-leading-zeros(p0)"),
        excused([np.int32([-8])], np.int32([0]), np.int32([-32])),
    ),
    "zeros of an unsigned number": (
        instruction("u32[1]", "u32[1] count-leading-zeros(p0)"),
        reported([np.uint32([8])], np.uint32([28]), np.uint32([0])),
    ),
    "sign of a zero sum": (
        instruction("f32[1] f32[1]", "f32[1] add(p0, p1)"),
        excused([F32([-0.0]), F32([0])], F32([0]), F32([-0.0])),
    ),
    "sign of a zero sum by cpu": (
        instruction("f32[1] f32[1]", "f32[1] add(p0, p1)"),
        reported([F32([-0.0]), F32([0])], F32([0]), F32([-0.0]), side="cpu"),
    ),
    "subnormal number in a reduce-scatter": (
        instruction("f32[2]", "f32[2] reduce-scatter(p0), dimensions={0}, to_apply=add"),
        excused([F32([1e-45, 1])], F32([1e-45, 1]), F32([0, 1])),
    ),
    "number in a reduce-scatter": (
        instruction("f32[2]", "f32[2] reduce-scatter(p0), dimensions={0}, to_apply=add"),
        reported([F32([1e-45, 1])], F32([1e-45, 1]), F32([0, 2])),
    ),
    "scatter without indices": (
        instruction(*SCATTER),
        excused([F32([0]), np.zeros((2, 0), np.int32), F32([1, 1])], F32([2]), F32([1])),
    ),
    "scatter with indices": (
        instruction(
            *(part.replace("2,0", "2,1").replace("d_dims={}", "d_dims={0}") for part in SCATTER)
        ),
        reported([F32([0]), np.zeros((2, 1), np.int32), F32([1, 1])], F32([2]), F32([1])),
    ),
    "selection beside NaN": (
        instruction(*SELECTION),
        excused(
            [F32([[np.nan, 1, 2, 3]]), F32([[5, 6]]), F32(0)],
            F32([[0, 5, 0, 6]]),
            F32([[5, 0, 0, 6]]),
        ),
    ),
    "selection among equal numbers": (
        instruction(*SELECTION),
        excused(
            [F32([[1, 1, 2, 3]]), F32([[5, 6]]), F32(0)], F32([[5, 0, 0, 6]]), F32([[0, 5, 0, 6]])
        ),
    ),
    "selection beside equal numbers": (
        instruction(*SELECTION),
        reported(
            [F32([[1, 1, 2, 3]]), F32([[5, 6]]), F32(0)], F32([[5, 0, 0, 6]]), F32([[5, 0, 6, 0]])
        ),
    ),
    "selection among equal numbers without padding": (
        instruction(*UNPADDED),
        reported(
            [F32([[1, 1, 2, 3], [0] * 4]), F32([[5, 6]]), F32(0)],
            F32([[5, 0, 0, 6], [0] * 4]),
            F32([[0, 5, 0, 6], [0] * 4]),
        ),
    ),
    "selection among equal numbers of a line": (
        instruction(*LINE),
        reported(
            [F32([[1, 1, 2, 3]]), F32([[5, 6]]), F32(0)], F32([[5, 0, 0, 6]]), F32([[0, 5, 0, 6]])
        ),
    ),
    "padding and an infinite weight": (
        instruction("f32[1,1,1] f32[1,1,2]", CONVOLUTION.replace("{}", "pad=1_0")),
        excused([F32([[[1]]]), F32([[[np.inf, 1]]])], F32([[[1]]]), F32([[[np.nan]]])),
    ),
    "padding and finite weights": (
        instruction("f32[1,1,1] f32[1,1,2]", CONVOLUTION.replace("{}", "pad=1_0")),
        reported([F32([[[1]]]), F32([[[1, 1]]])], F32([[[1]]]), F32([[[np.nan]]])),
    ),
    "no padding and an infinite weight": (
        instruction("f32[1,1,2] f32[1,1,2]", CONVOLUTION.replace(" {}", "")),
        reported([F32([[[1, 1]]]), F32([[[np.inf, 1]]])], F32([[[np.inf]]]), F32([[[np.nan]]])),
    ),
    "infinity of another group": (
        instruction(*(part.replace("c64", "f32").replace("2]", "1]") for part in GROUPS)),
        excused(
            [F32([[[np.inf], [1]]]), F32([[[1], [1]]]).reshape(2, 1, 1)],
            F32([[[np.inf], [1]]]),
            F32([[[np.inf], [np.nan]]]),
        ),
    ),
    "finite numbers of another group": (
        instruction(*(part.replace("c64", "f32") for part in GROUPS)),
        reported(
            [F32([[[2], [1]]]), F32([[[1], [1]]]).reshape(2, 1, 1)],
            F32([[[2], [1]]]),
            F32([[[2], [np.nan]]]),
        ),
    ),
    "infinite weight of another batch group": (
        instruction(*BATCHES),
        excused(
            [F32([[[1]], [[1]]]), F32([[[np.inf]], [[1]]])],
            F32([[[np.inf], [1]]]),
            F32([[[np.inf], [np.nan]]]),
        ),
    ),
    "finite weights of another batch group": (
        instruction(*BATCHES),
        reported(
            [F32([[[1]], [[1]]]), F32([[[2]], [[1]]])], F32([[[2], [1]]]), F32([[[2], [np.nan]]])
        ),
    ),
    "start of a long sum": (
        instruction("f32[33] f32[]", "f32[] reduce(p0, p1), dimensions={0}, to_apply=add"),
        excused([np.zeros(33, np.float32), F32(1)], F32(1), F32(3)),
    ),
    "start of a sum along short dimensions": (
        instruction("f32[32,32] f32[]", "f32[] reduce(p0, p1), dimensions={0,1}, to_apply=add"),
        reported([np.zeros((32, 32), np.float32), F32(1)], F32(1), F32(3)),
    ),
    "long sum from zero": (
        instruction("f32[1025] f32[]", "f32[] reduce(p0, p1), dimensions={0}, to_apply=add"),
        reported([np.zeros(1025, np.float32), F32(0)], F32(0), F32(36)),
    ),
    "start of a long window": (
        instruction("f32[17] f32[]", WINDOW.replace("{}", "size=17 pad=0_16")),
        excused(
            [np.zeros(17, np.float32), F32(1)], np.ones(17, np.float32), np.full(17, 18, np.float32)
        ),
    ),
    "start of a short window": (
        instruction("f32[17] f32[]", WINDOW.replace("{}", "size=16 pad=0_15")),
        reported(
            [np.zeros(17, np.float32), F32(1)], np.ones(17, np.float32), np.full(17, 18, np.float32)
        ),
    ),
    "division by a constant in a map": (
        instruction("f32[1]", "f32[1] map(p0), dimensions={0}, to_apply=divide"),
        excused([F32([1])], F32([1]), np.nextafter(F32([1]), F32([2]))),
    ),
    "another quotient in a map": (
        instruction("f32[1]", "f32[1] map(p0), dimensions={0}, to_apply=divide"),
        reported([F32([1])], F32([1]), F32([1.001])),
    ),
    "division in a map": (
        instruction("f32[1] f32[1]", "f32[1] map(p0, p1), dimensions={0}, to_apply=divide_by"),
        reported([F32([1]), F32([1])], F32([1]), np.nextafter(F32([1]), F32([2]))),
    ),
    "division by a repeated number": (
        instruction("f32[1] f32[]", "f32[1] divide(p0, f32[1] broadcast(p1))"),
        excused([F32([1]), F32([1])], F32([1]), np.nextafter(F32([1]), F32([2]))),
    ),
    "another quotient by a repeated number": (
        instruction("f32[1] f32[]", "f32[1] divide(p0, f32[1] broadcast(p1))"),
        reported([F32([1]), F32([1])], F32([1]), F32([1.001])),
    ),
    "division by an array": (
        instruction("f32[1] f32[1]", "f32[1] divide(p0, p1)"),
        reported([F32([1]), F32([1])], F32([1]), np.nextafter(F32([1]), F32([2]))),
    ),
    "power with a large exponent": (
        instruction("u32[1] u32[1]", "u32[1] power(p0, p1)"),
        excused([np.uint32([3]), np.uint32([2**32 - 3])], np.uint32([0]), np.uint32([2545165805])),
    ),
    "power with a small exponent": (
        instruction("u32[1] u32[1]", "u32[1] power(p0, p1)"),
        reported([np.uint32([3]), np.uint32([2])], np.uint32([9]), np.uint32([8])),
    ),
    "fraction cut off where 256 is NaN": (
        instruction("f8e4m3fnuz[1] u8[1]", STOCHASTIC),
        excused([FNUZ([0.5]), np.uint8([0])], np.int8([1]), np.int8([0])),
    ),
    "fraction moved away where 256 is NaN": (
        instruction("f8e4m3fnuz[1] u8[1]", STOCHASTIC),
        reported([FNUZ([0.5]), np.uint8([255])], np.int8([0]), np.int8([1])),
    ),
    "fraction cut off where 256 is a number": (
        instruction("f8e4m3fn[1] u8[1]", STOCHASTIC),
        reported([FN([0.5]), np.uint8([0])], np.int8([1]), np.int8([0])),
    ),
    "complex power by a large exponent": (
        instruction("c64[1] c64[1]", "c64[1] power(p0, p1)"),
        excused([C64([2]), C64([1000j])], C64([1]), C64([1 + 2e-4j])),
    ),
    "complex power by a small exponent": (
        instruction("c64[1] c64[1]", "c64[1] power(p0, p1)"),
        reported([C64([2]), C64([1j])], C64([1]), C64([1 + 2e-4j])),
    ),
    "complex numbers moved": (
        instruction("c64[1]", "c64[1] reverse(p0), dimensions={0}"),
        reported([C64([NAN])], C64([NAN]), C64([1]), side="cpu"),
    ),
    "complex dot of infinities": (
        instruction(
            "c64[1] c64[1]", "c64[] dot(p0, p1), lhs_contracting_dims={0}, rhs_contracting_dims={0}"
        ),
        excused(
            [C64([complex(np.inf, 0)]), C64([1])],
            np.array(NAN, C64),
            np.array(complex(np.inf, 0), C64),
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_known_difference_is_excused_and_nothing_else(name: str) -> None:
    root, (operands, expected, actual, is_known, side) = CASES[name]
    words = judge(Judgement(side, root, operands, expected, actual))
    assert (words == "") is is_known, words


def test_each_has_a_reason_of_its_own() -> None:
    reasons = [known.reason for known in KNOWN]
    assert len(set(reasons)) == len(reasons)
    assert all(len(reason) > 30 for reason in reasons)


def test_values_of_dynamic_size_are_compared_between_platforms_of_ours_alone() -> None:
    sized = instruction("f32[3] s32[]", "f32[<=3] set-dimension-size(p0, p1), dimensions={0}")
    operands = [F32([1, 2, 3]), np.int32(2)]
    for side, is_known in (("jaxlib", True), ("cpu", False)):
        judgement = Judgement(side, sized, operands, F32([1, 2]), F32([1, 2, 3]))
        assert (judge(judgement) == "") is is_known
