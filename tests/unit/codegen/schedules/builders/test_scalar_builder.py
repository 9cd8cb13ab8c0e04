"""Computations on scalars in the statements of a kernel."""

import numpy as np

from tests.unit.codegen.compiled import built
from xla_client import ops
from xla_contract.types.element_type import ElementType
from xla_server.codegen.kernel_ir.builder import Body, Names
from xla_server.codegen.kernel_ir.expressions import Buffer, Const, Index, Usage, Value
from xla_server.codegen.kernel_ir.numba_text import NumbaText
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.schedules.builders.scalar_builder import (
    apply_computation,
    element_variable,
    evaluate,
    load_element,
    store_element,
)
from xla_server.codegen.trace.elementwise import literal
from xla_server.codegen.trace.rules import RULES
from xla_server.codegen.trace.tracer import Tracer

BF16, F32 = ElementType.BF16, ElementType.F32
FIRST, SECOND = Value("x", Type.F32), Value("y", Type.F32)


def lines(body: Body) -> list[str]:
    return NumbaText().lines(body.statements)


def test_nodes_are_evaluated_once_from_their_variables() -> None:
    tracer = Tracer(RULES, {})
    variable = element_variable("a", F32)
    total = tracer.apply("add", [variable, literal(np.float32(2), F32)], "f32")
    square = tracer.apply("mul", [total, total], "f32")
    body = Body()
    found = evaluate(body, Names(), [square, variable], {variable: FIRST})
    assert lines(body) == ["v2 = add(x, k0)", "v1 = mul(v2, v2)"]
    assert found[1] is FIRST
    assert all(statement.origin is None for statement in body.statements)  # type: ignore[union-attr]


def test_a_computation_takes_and_gives_elements_of_other_types() -> None:
    computation = built(lambda a, b: ops.add(a, b), [np.float64(0)] * 2).entry
    body = Body()
    arguments = [(FIRST, F32), (SECOND, F32)]
    apply_computation(body, Names(), computation, arguments, [F32])
    text = "\n".join(lines(body))
    assert all(conversion in text for conversion in ("to_f64(x)", "to_f64(y)", "to_f32("))


def test_elements_are_stored_as_their_type_has_them() -> None:
    body, source, target = Body(), Buffer(0, Usage.READ), Buffer(1, Usage.WRITE)
    value = body.let("v", load_element(BF16, source, 3))
    store_element(body, BF16, target, Index(0), value)
    store_element(body, F32, target, Index(1), Const(Type.F32, (0,)))
    text = lines(body)
    assert text[0].startswith("v = ")
    assert "load_u16(buffer0, 3)" in text[0]
    assert text[1].startswith("store_u16(buffer1, 0, ")
    assert text[2] == "store_f32(buffer1, 1, k0)"
