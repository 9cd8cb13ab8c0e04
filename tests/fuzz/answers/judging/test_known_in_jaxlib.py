"""Each known difference of jaxlib is there today: a module that shows it, and what excuses it."""

from collections.abc import Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.corpus.hlo_text import parse_hlo
from tests.fuzz.answers.checking import Reference
from tests.fuzz.answers.judging import known
from tests.fuzz.answers.judging.judge import judge
from tests.fuzz.answers.judging.known import KNOWN
from tests.fuzz.answers.judging.test_known import C64, F32
from tests.fuzz.answers.sides import Side
from tests.fuzz.answers.steps.graph import with_all_results
from xla_contract.stubs import hlo_pb2

INF = np.inf


def adder(kind: str, opcode: str = "add") -> str:
    return (
        f"f {{ a = {kind}[] parameter(0)\n b = {kind}[] parameter(1)\n"
        f" ROOT r = {kind}[] {opcode}(a, b) }}\n"
    )


GE = "ge { c = f32[] parameter(0)\n d = f32[] parameter(1)\n ROOT p = pred[] compare(c, d), "
GE += "direction=GE }\n"

MODULES: dict[str, tuple[str, str, str, list[Any]]] = {
    "a reduction of single elements": (
        adder("f32"),
        "f32[2,1] f32[]",
        "f32[2] reduce(p0, p1), dimensions={1}, to_apply=f",
        [F32([[1], [2]]), F32(5)],
    ),
    "folding of constants counts leading zeros": (
        "",
        "",
        "s32[2] count-leading-zeros(k)\n k = s32[2] constant({-8, 3})",
        [],
    ),
    "x + 0 is simplified": (
        "",
        "f32[2]",
        "f32[2] add(p0, k)\n k = f32[2] constant({0, 0})",
        [F32([-0.0, 1])],
    ),
    "reductions of dimensions above 32": (
        adder("f32"),
        "f32[33] f32[]",
        "f32[] reduce(p0, p1), dimensions={0}, to_apply=f",
        [np.zeros(33, F32), F32(1)],
    ),
    "a division by a constant": (
        "g { a = f64[] parameter(0)\n k = f64[] constant(-0.7)\n ROOT r = f64[] divide(a, k) }\n",
        "f64[100]",
        "f64[100] map(p0), dimensions={0}, to_apply=g",
        [np.random.default_rng(1).standard_normal(100)],
    ),
    "a division by a number that is repeated": (
        "",
        "f32[100] f32[]",
        "f32[100] divide(p0, k)\n k = f32[100] broadcast(p1), dimensions={}",
        [np.random.default_rng(1).standard_normal(100).astype(F32), F32(-0.7)],
    ),
    "a stochastic-convert scales fractions": (
        "",
        "f8e4m3fnuz[2] u8[2]",
        "s8[2] stochastic-convert(p0, p1)",
        [np.array([0.5, 2], ml_dtypes.float8_e4m3fnuz), np.zeros(2, np.uint8)],
    ),
    "folding of constants computes integer powers": (
        "",
        "",
        "u32[1] power(k, l)\n k = u32[1] constant({3})\n l = u32[1] constant({70})",
        [],
    ),
    "some convolutions multiply padding": (
        "",
        "f32[1,2,3] f32[2,2,2]",
        "f32[1,2,4] convolution(p0, p1), window={size=2 pad=1_1}, dim_labels=bf0_oi0->bf0",
        [np.ones((1, 2, 3), F32), F32([[[INF, 1]] * 2] * 2)],
    ),
    "convolutions with batch groups": (
        "",
        "f32[4,2,5] f32[4,2,3]",
        "f32[2,4,2] convolution(p0, p1), window={size=3 stride=2}, dim_labels=bf0_oi0->bf0, "
        "batch_group_count=2",
        [
            np.ones((4, 2, 5), F32),
            F32([[[1] * 3] * 2, [[1] * 3, [1, INF, 1]], *[[[1] * 3] * 2] * 2]),
        ],
    ),
    "convolutions with feature groups": (
        "",
        "f64[2,2,4] f64[4,1,1]",
        "f64[2,4,4] convolution(p0, p1), window={size=1}, dim_labels=bf0_oi0->bf0, "
        "feature_group_count=2",
        [np.array([[[1.0] * 4] * 2, [[1] * 4, [1, 1, INF, 1]]]), np.ones((4, 1, 1))],
    ),
    "select-and-scatter": (
        GE + adder("f32"),
        "f32[3,5] f32[3,3] f32[]",
        "f32[3,5] select-and-scatter(p0, p1, p2), window={size=2x2 stride=1x2 pad=0_1x0_1}, "
        "select=ge, scatter=f",
        [
            F32([[np.nan, -1, 3, np.nan, 1], [np.nan, np.nan, 4, 1, -2], [np.nan, 2, 0, 2, -2]]),
            np.arange(1, 10).reshape(3, 3).astype(F32),
            F32(0),
        ],
    ),
    "a reduce-scatter of one replica": (
        adder("f32"),
        "f32[2]",
        "f32[2] reduce-scatter(p0), dimensions={0}, replica_groups={{0}}, to_apply=f",
        [F32([-0.0, 1])],
    ),
    "a scatter whose index vectors": (
        adder("f32"),
        "f32[4] s32[3,0] f32[3]",
        "f32[4] scatter(p0, p1, p2), update_window_dims={}, inserted_window_dims={0}, "
        "scatter_dims_to_operand_dims={}, index_vector_dim=1, to_apply=f",
        [np.zeros(4, F32), np.zeros((3, 0), np.int32), F32([4, 2, 1])],
    ),
    "complex powers multiply a rounded": (
        "",
        "c128[64] c128[64]",
        "c128[64] power(p0, p1)",
        [np.linspace(9 - 300j, 60 + 300j, 64), np.full(64, 20 + 130j)],
    ),
    "complex products of numbers": (
        "",
        "c64[1,2] c64[2,1]",
        "c64[2,2] convolution(p0, p1), dim_labels=fb_oi->bf",
        [C64([[complex(2, -2), complex(-1, -INF)]]), C64([[complex(5, 0.5)], [0.5]])],
    ),
}


@pytest.fixture(scope="module")
def jaxlib() -> Iterator[Side]:
    side = Side("jaxlib")
    yield side
    side.close()


@pytest.mark.parametrize("name", MODULES)
def test_jaxlib_differs_so_and_is_excused(
    name: str, jaxlib: Side, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, parameters, root, arguments = MODULES[name]
    lines = [f"p{n} = {shape} parameter({n})" for n, shape in enumerate(parameters.split())]
    root, _, constants = root.partition("\n")
    body = "\n".join([*lines, constants, f"ROOT r = {root}"])
    text = f"HloModule m\n{before}ENTRY e {{ {body} }}"
    proto = with_all_results(hlo_pb2.HloModuleProto.FromString(parse_hlo(text).SerializeToString()))
    results = jaxlib.run(proto, arguments)
    reference = Reference(proto)
    assert not reference.differences("jaxlib", arguments, results)
    others = tuple(one for one in KNOWN if not one.reason.startswith(name))
    assert len(others) == len(KNOWN) - 1
    monkeypatch.setattr(known, "KNOWN", others)
    (found,) = reference.differences("jaxlib", arguments, results)
    assert judge(found.judged)


def test_each_has_its_module() -> None:
    starts = [[name for name in MODULES if one.reason.startswith(name)] for one in KNOWN]
    assert all(len(found) == 1 for found in starts)
    assert len(starts) == len(MODULES)
