from typing import Any

import numpy as np
import pytest

from tests.conformance.oracle import assert_equal_bits, evaluated, run_on_xla
from tests.corpus.hlo_text import parse_hlo, print_hlo
from xla_contract.ops.definitions import definition
from xla_contract.ops.reduction.scan import ScanAttributes
from xla_contract.stubs import hlo_pb2
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ir.exporter import export_module
from xla_server.ir.importer import import_module

LINE = np.arange(5, dtype=np.float32)
TABLE = np.arange(12, dtype=np.float32).reshape(3, 4)
SUM = """f { x = f32[] parameter(0)
  c = f32[] parameter(1)
  s = f32[] add(x, c)
  ROOT r = (f32[], f32[]) tuple(s, s) }"""
LEFT = """f { x = f32[] parameter(0)
  c = f32[] parameter(1)
  ROOT s = f32[] subtract(x, c) }"""
PROGRAMS: dict[str, tuple[str, str, str, list[Any]]] = {
    "sum": (SUM, "(f32[5], f32[])", "num_carries=1", [LINE, np.float32(10)]),
    "reverse": (SUM, "(f32[5], f32[])", "num_carries=1, is_reverse=true", [LINE, np.float32(1)]),
    "associative": (
        SUM,
        "(f32[5], f32[])",
        "num_carries=1, is_associative=true",
        [LINE, np.float32(0)],
    ),
    "no_result_per_slice": (LEFT, "f32[]", "num_carries=1", [LINE, np.float32(3)]),
    "a_tuple_of_one": (
        LEFT.replace("ROOT s", "s").replace(" }", "\n  ROOT r = (f32[]) tuple(s) }"),
        "(f32[])",
        "num_carries=1",
        [LINE, np.float32(3)],
    ),
    "nothing_carried": (
        "f { x = f32[] parameter(0)\n  ROOT s = f32[] multiply(x, x) }",
        "f32[5]",
        "num_carries=0",
        [LINE],
    ),
    "columns": (
        """f { x = f32[3] parameter(0)
  n = s32[2] parameter(1)
  c = f32[3] parameter(2)
  k = s32[] parameter(3)
  s = f32[3] subtract(x, c)
  one = s32[] constant(1)
  next = s32[] add(k, one)
  wide = s32[2] broadcast(k), dimensions={}
  m = s32[2] add(n, wide)
  t = s32[2,3] broadcast(m), dimensions={0}
  ROOT r = (f32[3], s32[2,3], f32[3], s32[]) tuple(x, t, s, next) }""",
        "(f32[3,4], s32[2,4,3], f32[3], s32[])",
        "num_carries=2, is_reverse=true",
        [TABLE, np.arange(8, dtype=np.int32).reshape(2, 4), np.ones(3, np.float32), np.int32(7)],
    ),
}


def written(name: str) -> hlo_pb2.HloModuleProto:
    step, result, attributes, arguments = PROGRAMS[name]
    types = [
        Shape.array(ElementType.from_dtype(argument.dtype), argument.shape)
        for argument in arguments
    ]
    lines = [f"p.{n} = {text} parameter({n})" for n, text in enumerate(types)]
    operands = ", ".join(f"p.{n}" for n in range(len(types)))
    dimension = len(arguments[0].shape) - 1
    lines.append(
        f"ROOT root = {result} scan({operands}), dimensions={{{dimension}}}, {attributes}, "
        "to_apply=f"
    )
    return parse_hlo("\n".join(["HloModule m", step, "ENTRY main {", *lines, "}"]))


@pytest.mark.parametrize("name", PROGRAMS)
def test_gives_xla_s_numbers(name: str) -> None:
    proto, arguments = written(name), PROGRAMS[name][3]
    again = export_module(import_module(proto))
    assert print_hlo(again) == print_hlo(proto)
    results = evaluated(again, arguments), run_on_xla(proto, arguments)
    for ours, theirs in zip(*results, strict=True):
        assert_equal_bits(ours, theirs)


@pytest.mark.parametrize("said", [None, False, True])
def test_what_is_said_of_associativity_comes_back(said: bool | None) -> None:
    attributes, proto = ScanAttributes(2, 1, True, said), hlo_pb2.HloInstructionProto()
    definition(Opcode.SCAN).encode(attributes, proto)
    assert definition(Opcode.SCAN).decode(proto, Shape.parse("f32[]")) == attributes


def test_no_slices_leave_what_is_carried_as_it_was() -> None:
    proto = written("sum")
    text = print_hlo(proto).replace("f32[5]", "f32[0]")
    found = evaluated(parse_hlo(text), [np.zeros(0, np.float32), np.array(4, np.float32)])
    assert [each.tolist() for each in found] == [[], 4.0]
