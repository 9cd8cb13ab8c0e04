from typing import Any

import numpy as np
import pytest

from tests.corpus.hlo_text import parse_hlo, print_hlo
from xla_contract.errors import ShapeError
from xla_contract.ops.control.asynchronous import AsyncAttributes
from xla_contract.ops.definitions import infer_shape
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape
from xla_server.evaluator.interpret import evaluate
from xla_server.ir.exporter import export_module
from xla_server.ir.importer import import_module
from xla_server.ir.verification.verifier import verify

F32 = Shape.parse("f32[2]")
CALLED = ProgramShape((F32, F32), Shape.parse("f32[4]"))
STARTED = "((f32[2], f32[2]), f32[4], u32[])"

TEXT = """
HloModule steps
body { a = f32[4] parameter(0)
  b = f32[4] parameter(1)
  ROOT sum = f32[4] add(a, b) }, execution_thread="other"
ENTRY main { x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  start = ((f32[4], f32[4]), f32[4], u32[]) async-start(x, y), async_execution_thread="other",
    calls=body
  update = ((f32[4], f32[4]), f32[4], u32[]) async-update(start)
  ROOT done = f32[4] async-done(update) }
"""


def infer(opcode: Opcode, *operands: str, called: Any = (), context: Any = ()) -> str:
    shapes = [Shape.parse(text) for text in operands]
    return str(infer_shape(opcode, shapes, AsyncAttributes("", context), called))


def test_shapes() -> None:
    start = infer(
        Opcode.ASYNC_START, "f32[2]{0}", "f32[2]", called=[CALLED], context=(Shape.parse("u32[]"),)
    )
    assert start == STARTED
    assert infer(Opcode.ASYNC_UPDATE, STARTED) == STARTED
    assert infer(Opcode.ASYNC_DONE, STARTED, called=[CALLED]) == "f32[4]"


@pytest.mark.parametrize(
    ("opcode", "operands", "called", "message"),
    [
        (Opcode.ASYNC_DONE, ["(f32[2], f32[4])"], [], r"tuple \(\(operands\), result, ...\), got"),
        (Opcode.ASYNC_DONE, ["((f32[2]), f32[4])"], [CALLED], "must take parameters"),
    ],
)
def test_broken_rules(opcode: Opcode, operands: list[str], called: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        infer(opcode, *operands, called=called)


def test_the_computation_is_called() -> None:
    proto = parse_hlo(TEXT)
    module = import_module(proto)
    verify(module)
    x = np.arange(4, dtype=np.float32)
    found = evaluate(module, [x, x + 1], check_values=True)
    np.testing.assert_array_equal(found, 2 * x + 1)  # type: ignore[arg-type]
    assert print_hlo(export_module(module)) == print_hlo(proto)
