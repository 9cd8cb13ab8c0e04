"""Values smaller than their bounds, through operations and computations."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.checked_evaluation import CheckedPlans, evaluate_checked, has_shape
from tests.conformance.examples import ADD, Example, assert_gives, result_of
from tests.corpus.root_text import run_text
from xla_client import Builder, Op, Shape, ops
from xla_client.lib import constants
from xla_contract.errors import (
    InternalError,
    InvalidArgumentError,
    ShapeError,
    UnimplementedError,
)
from xla_contract.types.dimension_numbers import (
    DotDimensionNumbers,
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
)
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_server.evaluator import plan
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloInstruction
from xla_server.ops.evaluation import Evaluator, Frame, Value
from xla_server.ops.evaluators import evaluator

LINE = np.arange(1, 7, dtype=np.float32)
TABLE = np.arange(12, dtype=np.float32).reshape(3, 4)


def sized(c: Example, value: Any, *sizes: int | None) -> Op:
    """A parameter of which only so many elements count; None leaves a dimension static."""
    op = c(value)
    for dimension, size in enumerate(sizes):
        if size is not None:
            op = ops.set_dimension_size(op, c(np.int32(size)), dimension)
    return op


def zero(c: Example) -> Op:
    return constants.zero(c, E.F32)


CASES: dict[str, tuple[Callable[[Example], Op], Any]] = {
    "a scalar reaches every element": (lambda c: sized(c, LINE, 4) + 1.0, LINE[:4] + 1),
    "a static operand is taken as far": (lambda c: c(LINE) - sized(c, LINE, 2), [0.0, 0.0]),
    "size 1 stretches": (lambda c: sized(c, LINE, 1) + sized(c, LINE, 3), LINE[:3] + 1),
    "size 1 stretches to nothing": (lambda c: sized(c, LINE, 1) + sized(c, LINE, 0), np.zeros(0)),
    "other sizes are cut to the smallest": (
        lambda c: sized(c, LINE, 4) + sized(c, LINE, 3) * sized(c, LINE, 2),
        LINE[:2] + LINE[:2] ** 2,
    ),
    "the smallest of three sizes, but for 1": (
        lambda c: ops.clamp(sized(c, LINE, 3), sized(c, LINE, 1), sized(c, LINE, 2)),
        LINE[:2],
    ),
    "a full dynamic size is a size": (lambda c: sized(c, LINE, 6) * 1.0, LINE),
    "broadcast": (lambda c: ops.broadcast(sized(c, LINE, 2), [2]), [[1, 2], [1, 2]]),
    "merged dimensions": (
        lambda c: ops.reshape(sized(c, TABLE, 2, 3), [12]),
        TABLE[:2, :3].reshape(-1),
    ),
    "a split dimension": (
        lambda c: ops.reshape(sized(c, LINE, 4), [3, 2], inferred_dimension=0),
        LINE[:4].reshape(2, 2),
    ),
    "a dimension of bound 1 left out": (
        lambda c: ops.reshape(sized(c, LINE.reshape(1, 6), 0), [6]),
        np.zeros(6),
    ),
    "part of a slice": (lambda c: ops.slice(sized(c, LINE, 3), [1], [5]), [2, 3, 0, 0]),
    "a whole slice beside a part": (
        lambda c: ops.slice(sized(c, TABLE, 2), [0, 1], [3, 3]),
        TABLE[:2, 1:3],
    ),
    "a dynamic slice": (
        lambda c: ops.dynamic_slice(sized(c, TABLE, 2), c.start(0, 1), [3, 2]),
        TABLE[:2, 1:3],
    ),
    "an update past the end": (
        lambda c: ops.dynamic_update_slice(sized(c, LINE, 3), c(-LINE[:3]), c.start(2)),
        [1, 2, -1],
    ),
    "an update of dynamic size": (
        lambda c: ops.dynamic_update_slice(c(LINE), sized(c, -LINE[:3], 2), c.start(5)),
        [1, 2, 3, -1, -2, 6],
    ),
    "a whole update of dynamic size": (
        lambda c: ops.dynamic_update_slice(c(LINE), sized(c, -LINE, 2), c.start(0)),
        [-1, -2],
    ),
    "gather of whole rows": (
        lambda c: ops.gather(
            sized(c, TABLE, None, 2),
            c(np.int32([2, 0])),
            GatherDimensionNumbers((1,), (0,), (0,), 1),
            [1, 4],
        ),
        TABLE[[2, 0], :2],
    ),
    "scatter behind the last element": (
        lambda c: ops.scatter(
            sized(c, LINE, 3),
            c(np.int32([0, 4])),
            c(np.float32([10, 10])),
            ADD,
            ScatterDimensionNumbers((), (0,), (0,), 1),
        ),
        [11, 2, 3],
    ),
    "scatter of rows as long as the bound": (
        lambda c: ops.scatter(
            sized(c, TABLE, None, 2),
            c(np.int32([1])),
            c(np.ones((1, 4), np.float32)),
            ADD,
            ScatterDimensionNumbers((1,), (0,), (0,), 1),
        ),
        TABLE[:, :2] + np.float32([[0], [1], [0]]),
    ),
    "reduce of several": (
        lambda c: ops.get_tuple_element(
            ops.reduce(
                [sized(c, LINE, 3), c(LINE)],
                [zero(c), zero(c)],
                _pairwise(),
                [0],
            ),
            1,
        ),
        6,
    ),
    "dot over all that counts": (
        lambda c: ops.dot_general(c(LINE), sized(c, LINE, 2), DotDimensionNumbers((0,), (0,))),
        5,
    ),
    "convolution of some of a batch": (
        lambda c: ops.conv(
            sized(c, LINE.reshape(3, 1, 2), 1), c(np.ones((1, 1, 2), np.float32)), [1], "valid"
        ),
        [[[3]]],
    ),
    "convolution over some of the features": (
        lambda c: ops.conv(
            sized(c, LINE.reshape(1, 3, 2), None, 2),
            c(np.ones((1, 3, 1), np.float32)),
            [1],
            "valid",
        ),
        [[[4, 6]]],
    ),
    "padding behind the last element": (
        lambda c: ops.pad_in_dim(sized(c, LINE, 2), zero(c), 0, 1, 1),
        [0, 1, 2, 0],
    ),
    "a window over padding of its own": (
        lambda c: ops.reduce_window(sized(c, LINE, 3), zero(c), ADD, [3], [1], "same"),
        [3, 6, 5],
    ),
    "top k": (
        lambda c: ops.get_tuple_element(ops.top_k(sized(c, LINE, 4), 2), 0),
        [4, 3],
    ),
    "a call": (lambda c: ops.call(_twice(), [sized(c, LINE, 2)]), [2, 4]),
    "a constant": (
        lambda c: c.constant(Literal.from_numpy(LINE[:2], Shape.parse("f32[<=6]"))),
        LINE[:2],
    ),
    "an element type": (
        lambda c: ops.convert_element_type(sized(c, LINE, 2), E.S8),
        [1, 2],
    ),
}


def _pairwise() -> Any:
    builder = Builder("pairwise")
    a, b, c, d = (builder.parameter(n, Shape.parse("f32[]")) for n in range(4))
    return builder.build(ops.tuple([a + c, b + d]))


def _twice() -> Any:
    builder = Builder("twice")
    x = builder.parameter(0, Shape.parse("f32[<=6]"))
    return builder.build(x + x)


@pytest.mark.parametrize("name", CASES)
def test_what_counts(name: str) -> None:
    program, wanted = CASES[name]
    assert_gives(program, wanted)


def test_zeros_stand_behind_what_other_operations_give() -> None:
    assert_gives(
        lambda c: ops.remove_dynamic_dimension(ops.neg(sized(c, LINE, 2)), 0),
        [-1, -2, 0, 0, 0, 0],
    )


def test_hidden_elements_come_back_through_tuples_and_calls() -> None:
    builder = Builder("pass")
    same = builder.build(builder.parameter(0, Shape.parse("f32[<=6]")))
    assert_gives(
        lambda c: ops.remove_dynamic_dimension(
            ops.get_tuple_element(ops.tuple([ops.call(same, [sized(c, LINE, 2)])]), 0), 0
        ),
        LINE,
    )


REFUSED: dict[str, tuple[Callable[[Example], Op], type[Exception], str]] = {
    "contracted sizes that differ": (
        lambda c: ops.dot(sized(c, LINE, 1), sized(c, LINE, 3)),
        InvalidArgumentError,
        r"dot %dot.*: sizes that meet must agree, got 1 in dimension 0 of operand 0, 3 in",
    ),
    "rows that are not full": (
        lambda c: ops.reshape(sized(c, LINE, 3), [3, 2], inferred_dimension=0),
        InvalidArgumentError,
        r"the elements must fill whole rows, got 3",
    ),
    "a cut of more than there is": (
        lambda c: ops.pad_in_dim(sized(c, LINE, 1), zero(c), 0, -2, 0),
        ShapeError,
        "padding must not cut off more than there is",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_at_run_time(name: str) -> None:
    program, kind, message = REFUSED[name]
    with pytest.raises(kind, match=message):
        result_of(program)


def test_a_bitcast_has_one_size() -> None:
    with pytest.raises(UnimplementedError, match=r"takes static sizes alone, got \(f32\[<=6\]\)"):
        run_text(["f32[<=6]"], "f32[<=6] bitcast(x0)", [LINE[:1]])


def _through_a_channel(c: Example, shape: str) -> Op:
    sent = sized(c, LINE, 2)
    ops.send(sent, 1)
    return sent.builder.recv(Shape.parse(shape), 1)


def test_a_channel_keeps_sizes() -> None:
    assert_gives(lambda c: _through_a_channel(c, "f32[<=6]") + 1.0, LINE[:2] + 1)
    with pytest.raises(InvalidArgumentError, match=r"got f32\[<=6\].* sent and f32\[6\]"):
        result_of(lambda c: _through_a_channel(c, "f32[6]"))


def _module(program: Callable[[Example], Op]) -> Any:
    example = Example()
    return import_module(example.build(program(example)).proto)


def test_programs_of_static_shapes_are_planned_with_bare_evaluators() -> None:
    module = _module(lambda c: ops.reduce_all(c(LINE) + 1.0, zero(c), ADD))
    assert not has_dynamic_shapes(module)
    assert not has_dynamic_shapes(module.entry)
    steps = plan.PlanCache().of(module.entry).steps
    assert all(step.evaluate is evaluator(step.instruction.opcode) for step in steps)


def test_a_program_is_dynamic_where_a_computation_it_calls_is() -> None:
    builder = Builder("inner")
    x = builder.parameter(0, Shape.parse("f32[6]"))
    some = ops.set_dimension_size(x, builder.constant(2), 0)
    inner = builder.build(ops.reduce_all(some, constants.zero(builder, E.F32), ADD))
    module = _module(lambda c: ops.call(inner, [c(LINE)]))
    assert has_dynamic_shapes(module)
    assert has_dynamic_shapes(module.entry)


def test_a_dimension_that_is_declared_static_may_be_smaller() -> None:
    # Shapes are compatible whether or not a dimension is dynamic.
    root = "f32[6] set-dimension-size(x0, x1), dimensions={0}"
    found: Any = run_text(["f32[6]", "s32[]"], root, [LINE, np.int32(2)])
    np.testing.assert_array_equal(found, LINE[:2])


def test_a_value_that_is_smaller_than_all_operands_is_an_error() -> None:
    def cut(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
        return LINE[:3]

    def evaluator_of(opcode: Opcode) -> Evaluator:
        return cut if opcode is Opcode.NEGATE else evaluator(opcode)

    def program(c: Example) -> Op:
        return ops.tuple([ops.set_dimension_size(c(LINE), c(np.int32(2)), 0), -c(LINE)])

    plans = CheckedPlans(is_dynamic=True, evaluator_of=evaluator_of)
    with pytest.raises(InternalError, match=r"negate .*f32\[6\]"):
        evaluate_checked(_module(program), [LINE, np.int32(2), LINE], plans=plans)


def test_a_value_may_be_smaller_only_where_its_shape_is_dynamic() -> None:
    assert has_shape(np.zeros((2, 3), np.float32), Shape.parse("f32[<=4,3]"))
    assert not has_shape(np.zeros((5, 3), np.float32), Shape.parse("f32[<=4,3]"))
    assert not has_shape(np.zeros((2, 2), np.float32), Shape.parse("f32[<=4,3]"))
    assert not has_shape(np.zeros(2, np.float32), Shape.parse("f32[<=4,3]"))
