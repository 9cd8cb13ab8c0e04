import gc
import weakref
from collections.abc import Sequence

import numpy as np
import pytest

from tests.checked_evaluation import evaluate_checked, has_shape
from tests.corpus.hlo_text import VECTOR_LOOP, parse_hlo
from xla_contract.errors import (
    CancelledError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    ResourceExhaustedError,
    ShapeError,
    UnavailableError,
)
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.evaluator import plan as plan_module
from xla_server.evaluator.interpret import evaluate
from xla_server.evaluator.plan import PlanCache
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloInstruction, HloModule
from xla_server.ir.verification.verifier import MAX_CALL_DEPTH, verify
from xla_server.ops.evaluation import TOKEN, Evaluator, Frame, Value
from xla_server.ops.evaluators import EVALUATORS

X = np.array([1, 2, 3, 4], np.float32)

FEEDS = """
HloModule feeds
ENTRY main { t = token[] after-all()
  in = (f32[4], token[]) infeed(t)
  data = f32[4] get-tuple-element(in), index=0
  after = token[] get-tuple-element(in), index=1
  doubled = f32[4] add(data, data)
  ROOT out = token[] outfeed(doubled, after), outfeed_shape=f32[4]{0} }
"""

FOREVER = """
HloModule forever
body { i = s32[] parameter(0)
  one = s32[] constant(1)
  ROOT next = s32[] add(i, one) }
condition { i.1 = s32[] parameter(0)
  ROOT always = pred[] compare(i.1, i.1), direction=EQ }
ENTRY main { start = s32[] parameter(0)
  ROOT loop = s32[] while(start), condition=condition, body=body }
"""


def module_of(text: str) -> HloModule:
    return import_module(parse_hlo(text))


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    """Replace an opcode's evaluator."""

    table = dict(EVALUATORS)
    monkeypatch.setattr(plan_module, "evaluator", table.__getitem__)

    def replace(opcode: Opcode, evaluator: Evaluator) -> None:
        table[opcode] = evaluator

    return replace


def test_walks_loops_and_called_computations() -> None:
    result = evaluate_checked(module_of(VECTOR_LOOP), [X])
    np.testing.assert_array_equal(result, 8 * X - 80)


def test_a_computation_may_return_its_argument() -> None:
    module = module_of(
        "HloModule m\nENTRY e { unused = f32[2] parameter(0)\nROOT x = f32[4] parameter(1) }"
    )
    assert evaluate(module, [X[:2], X]) is X


def test_refuses_another_number_of_arguments() -> None:
    with pytest.raises(InvalidArgumentError, match="takes 1 arguments, got 2"):
        evaluate(module_of(VECTOR_LOOP), [X, X])


def test_frees_a_value_after_its_last_reader(use) -> None:  # type: ignore[no-untyped-def]
    text = """
HloModule chain
ENTRY main { x = f32[4] parameter(0)
  a = f32[4] negate(x)
  b = f32[4] negate(a)
  c = f32[4] negate(b)
  ROOT d = f32[4] add(c, a) }
"""
    values: dict[str, weakref.ref[np.ndarray]] = {}  # type: ignore[type-arg]
    alive: dict[str, set[str]] = {}

    def spy(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
        gc.collect()
        alive[instruction.name] = {name for name, ref in values.items() if ref() is not None}
        value = np.zeros(4, np.float32)
        values[instruction.name] = weakref.ref(value)
        return value

    use(Opcode.NEGATE, spy)
    use(Opcode.ADD, spy)
    evaluate(module_of(text), [X])
    assert alive == {"a": set(), "b": {"a"}, "c": {"a", "b"}, "d": {"a", "c"}}


def test_plans_are_made_once() -> None:
    module = module_of(VECTOR_LOOP)
    plans = PlanCache()
    assert plans.of(module.entry) is plans.of(module.entry)


def test_an_error_names_the_innermost_instruction(use) -> None:  # type: ignore[no-untyped-def]
    def fail(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
        raise ShapeError("a rule, got evidence")

    use(Opcode.COMPARE, fail)
    with pytest.raises(ShapeError) as caught:
        evaluate(module_of(VECTOR_LOOP), [X])
    assert str(caught.value) == "compare %less: a rule, got evidence"
    assert caught.value.instruction == "less"


@pytest.mark.parametrize(
    ("cause", "error"),
    [(KeyError("secret"), InternalError), (MemoryError("secret"), ResourceExhaustedError)],
)
def test_an_unexpected_exception_names_the_instruction_and_not_the_cause(  # type: ignore[no-untyped-def]
    use, cause: Exception, error: type[Exception]
) -> None:
    def fail(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
        raise cause

    use(Opcode.SUBTRACT, fail)
    with pytest.raises(error, match=r"subtract %answer: .*f32\[4\]") as caught:
        evaluate(module_of(VECTOR_LOOP), [X])
    assert caught.value.__cause__ is cause
    assert "secret" not in str(caught.value)


def test_a_checked_evaluation_names_the_instruction_that_is_off(use) -> None:  # type: ignore[no-untyped-def]
    def wrong(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
        return np.zeros(4, np.float64)

    use(Opcode.SUBTRACT, wrong)
    with pytest.raises(InternalError, match=r"subtract %answer: .*ndarray float64\[4\]"):
        evaluate_checked(module_of(VECTOR_LOOP), [X])


def test_has_shape_tells_scalars_arrays_tuples_and_tokens() -> None:
    shape = Shape.parse("(f32[], (s32[2]), token[])")
    good: Value = (np.array(1, np.float32), (np.array([1, 2], np.int32),), TOKEN)
    assert has_shape(good, shape)
    assert not has_shape((np.float32(1), *good[1:]), shape)  # type: ignore[arg-type,index]
    assert not has_shape((good[0], good[1]), shape)  # type: ignore[index]
    assert not has_shape((good[0], good[1], good[0]), shape)  # type: ignore[index]


def test_cancelling_stops_an_endless_loop_without_blaming_an_instruction(use) -> None:  # type: ignore[no-untyped-def]
    cancellation = Cancellation()
    add = EVALUATORS[Opcode.ADD]

    def count(instruction: HloInstruction, operands: Sequence[Value], frame: Frame) -> Value:
        value = add(instruction, operands, frame)
        if int(np.asarray(value)) == 5:
            cancellation.cancel(UnavailableError("the server is draining"))
        return value

    use(Opcode.ADD, count)
    with pytest.raises(UnavailableError, match=r"^the server is draining$"):
        evaluate(
            module_of(FOREVER),
            [np.array(0, np.int32)],
            options=ExecuteOptions(cancellation=cancellation),
        )


def test_a_cancelled_run_does_not_start() -> None:
    cancellation = Cancellation()
    cancellation.cancel()
    with pytest.raises(CancelledError):
        evaluate(module_of(VECTOR_LOOP), [X], options=ExecuteOptions(cancellation=cancellation))


class ListFeeds:
    def __init__(self, items: list[Value]) -> None:
        self.items = items
        self.out: list[tuple[Value, Shape]] = []

    def take_infeed(self, shape: Shape, *_: object) -> Value:
        return self.items.pop(0)

    def put_outfeed(self, value: Value, shape: Shape, *_: object) -> None:
        self.out.append((value, shape))


def test_feeds_reach_the_program() -> None:
    feeds = ListFeeds([X])
    assert evaluate_checked(module_of(FEEDS), [], options=ExecuteOptions(feeds=feeds)) is TOKEN
    [(value, shape)] = feeds.out
    np.testing.assert_array_equal(value, 2 * X)
    assert shape.compatible(Shape.parse("f32[4]"))


def test_without_feeds_an_infeed_fails_by_name() -> None:
    with pytest.raises(FailedPreconditionError, match="infeed %in: infeed needs a device"):
        evaluate(module_of(FEEDS), [])


def test_the_deepest_calls_that_verify_also_run() -> None:
    levels = ["level0 { p0 = f32[] parameter(0)\n ROOT r0 = f32[] negate(p0) }"]
    levels += [
        f"level{n} {{ p{n} = f32[] parameter(0)\n"
        f" ROOT r{n} = f32[] call(p{n}), to_apply=level{n - 1} }}"
        for n in range(1, MAX_CALL_DEPTH - 1)
    ]
    entry = f"x = f32[] parameter(0)\n ROOT y = f32[] call(x), to_apply=level{MAX_CALL_DEPTH - 2}"
    module = module_of("\n".join(["HloModule deep", *levels, f"ENTRY main {{ {entry} }}"]))
    verify(module)
    assert evaluate_checked(module, [np.array(2, np.float32)]) == -2
