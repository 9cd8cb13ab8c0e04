"""Programs of dynamic shape on the cpu platform, beside the interpreter."""

import gc
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.checked_evaluation import CheckedPlans
from tests.conformance.examples import ADD, Example
from tests.unit.codegen.compiled import CPU
from tests.unit.evaluator.test_dynamic_shapes import CASES, LINE, REFUSED, sized, zero
from xla_client import Builder, Op, Shape, ops
from xla_contract.errors import (
    CancelledError,
    InternalError,
    InvalidArgumentError,
    ResourceExhaustedError,
    ShapeError,
    UnimplementedError,
)
from xla_contract.ops.random.rng_get_and_update_state import RngGetAndUpdateStateAttributes
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_server.backends.compile_options import CompileOptions
from xla_server.backends.compiled import dynamic_executable, size_variants
from xla_server.backends.compiled.cpu import Cpu
from xla_server.backends.compiled.dynamic_executable import DynamicExecutable
from xla_server.backends.interpreter import Interpreter
from xla_server.codegen import kernel
from xla_server.evaluator.dynamic_shapes import ANY_SIZE
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.execution.feed_protocol import NoFeeds
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule
from xla_server.ops.evaluators import evaluator
from xla_server.passes.dynamic_sizes import size_specialisation
from xla_server.passes.dynamic_sizes.size_specialisation import HOST

SIX = Shape.parse("f32[<=6]")


class Queues:
    """Feeds that give these items and keep what is put out."""

    def __init__(self, *items: Any) -> None:
        self.items = list(items)
        self.out: list[Any] = []
        self.events: list[str] = []

    def take_infeed(self, shape: Shape, *_: Any) -> Any:
        self.events.append("in")
        return self.items.pop(0)

    def put_outfeed(self, value: Any, shape: Shape, *_: Any) -> None:
        self.events.append("out")
        self.out.append(np.array(value))


def module_of(program: Callable[[Example], Op]) -> tuple[HloModule, list[Any]]:
    example = Example()
    root = program(example)
    return import_module(example.build(root).proto), example.arguments


def compiled(module: HloModule, platform: Any = CPU, seed: int = 0) -> Any:
    return platform.compile(module, module.entry_program_shape, options=CompileOptions(seed=seed))


def executed(
    executable: Any,
    arguments: Sequence[Any],
    feeds: Any = None,
    cancellation: Cancellation | None = None,
) -> Any:
    device = CPU.devices[0]
    shapes = executable.program_shape.parameters
    placed = [
        CPU.to_device(Literal.from_numpy(value, shape), device)
        for value, shape in zip(arguments, shapes, strict=True)
    ]
    return executable.execute(
        placed,
        device=device,
        options=ExecuteOptions(
            feeds=feeds or NoFeeds(),
            cancellation=Cancellation() if cancellation is None else cancellation,
        ),
    ).output.value


def assert_as_interpreted(program: Callable[[Example], Op]) -> Any:
    """Both platforms give the same; the executable, to look at."""
    module, arguments = module_of(program)
    executable = compiled(module)
    assert isinstance(executable, DynamicExecutable)
    got = executed(executable, arguments)
    wanted = executed(compiled(module, Interpreter(plans=CheckedPlans)), arguments)
    found, expected = (value if isinstance(value, tuple) else (value,) for value in (got, wanted))
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.shape == theirs.shape
        np.testing.assert_array_equal(mine, theirs)
    return executable


@pytest.mark.parametrize("name", CASES)
def test_what_counts(name: str) -> None:
    assert_as_interpreted(CASES[name][0])


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_at_run_time(name: str) -> None:
    program, kind, message = REFUSED[name]
    module, arguments = module_of(program)
    with pytest.raises(kind, match=message):
        executed(compiled(module), arguments)


def test_a_size_outside_its_bound_is_refused_where_the_program_comes_to_it() -> None:
    module, arguments = module_of(lambda c: ops.neg(sized(c, LINE, 7)))
    with pytest.raises(InvalidArgumentError, match=r"set-dimension-size.*must be in \[0, 6\]"):
        executed(compiled(module), arguments)


def test_hidden_elements_come_back() -> None:
    def program(c: Example) -> Op:
        whole = ops.remove_dynamic_dimension(sized(c, LINE, 2), 0)
        padded = ops.remove_dynamic_dimension(ops.neg(sized(c, LINE, 2)), 0)
        return ops.tuple([whole, padded])

    assert_as_interpreted(program)


def counted(executable: Any) -> list[int]:
    """Return the number of instructions of each program of an executable, without parameters."""
    modules = [sized.segment.module for sized in executable._programs._programs._items.values()]
    return [
        sum(i.opcode is not Opcode.PARAMETER for i in module.entry.instructions)
        for module in modules
        if module is not None
    ]


def test_a_program_whose_sizes_are_arguments_is_one_program() -> None:
    def program(c: Example) -> Op:
        size = c(np.int32(3)) + 1
        some = ops.set_dimension_size(c(LINE) * 2.0, size, 0)
        again = ops.set_dimension_size(some + 1.0, ops.get_dimension_size(some, 0) - 2, 0)
        return ops.reduce_all(again * again, zero(c), ADD)

    assert len(counted(assert_as_interpreted(program))) == 1


def test_sizes_that_depend_on_what_is_computed_split_a_program_in_two() -> None:
    def program(c: Example) -> Op:
        line = c(LINE)
        size = ops.convert_element_type(ops.reduce_all(line, zero(c), ADD) / 7.0, E.S32)
        return ops.neg(ops.set_dimension_size(line * 2.0, size, 0))

    assert len(counted(assert_as_interpreted(program))) == 2


def _elements(op: Op) -> list[Op]:
    return [ops.get_tuple_element(op, number) for number in range(len(op.shape.tuple_shapes))]


def _loop(c: Example, carried: str, start: Sequence[Op], body: Any) -> Op:
    test, step = Builder("condition"), Builder("body")
    going_on = ops.gt(_elements(test.parameter(0, Shape.parse(carried)))[1], 0)
    after = body(*_elements(step.parameter(0, Shape.parse(carried))))
    return ops.while_(test.build(going_on), step.build(ops.tuple(after)), ops.tuple(start))


def _growing(c: Example, work_items: int) -> Op:
    """Build a loop with a size that grows in each iteration, and elements that are doubled up to
    it.
    """

    def body(array: Op, left: Op, size: Op) -> Sequence[Op]:
        grown = ops.min(size + 1, size.builder.constant(np.int32(6)))
        return [ops.set_dimension_size(array * 2.0, grown, 0), left - 1, grown]

    start = [sized(c, LINE, 1), c(np.int32(work_items)), c(np.int32(1))]
    return _loop(c, "(f32[<=6], s32[], s32[])", start, body)


def test_a_loop_that_changes_sizes_is_walked() -> None:
    assert_as_interpreted(lambda c: _growing(c, 4))


def test_a_loop_that_keeps_sizes_is_a_loop_of_the_program() -> None:
    def body(array: Op, left: Op) -> Sequence[Op]:
        return [array * 2.0, left - 1]

    def program(c: Example) -> Op:
        start = [sized(c, LINE, 2) + 1.0, c(np.int32(5))]
        return _elements(_loop(c, "(f32[<=6], s32[])", start, body))[0]

    assert len(counted(assert_as_interpreted(program))) == 1


def test_a_loop_whose_first_iteration_forgets_hidden_elements_is_one_after_it() -> None:
    work_items = 50

    def body(array: Op, left: Op) -> Sequence[Op]:
        return [array * 0.5, left - 1]

    def program(c: Example) -> Op:
        return _loop(c, "(f32[<=6], s32[])", [sized(c, LINE, 2), c(np.int32(work_items))], body)

    executable = assert_as_interpreted(program)
    assert len(counted(executable)) < 5


@pytest.mark.parametrize("choice", [0, 1, 2])
def test_branches_of_different_sizes(choice: int) -> None:
    def branch(number: int) -> Any:
        builder = Builder(f"branch{number}")
        array = builder.parameter(0, SIX)
        return builder.build(
            ops.set_dimension_size(array * 2.0, builder.constant(np.int32(number)), 0)
        )

    def program(c: Example) -> Op:
        some = sized(c, LINE, 4)
        chosen = ops.conditional(c(np.int32(choice)), [branch(n) for n in range(3)], [some] * 3)
        return chosen + 1.0

    assert_as_interpreted(program)


def test_branches_of_the_same_sizes_are_branches_of_the_program() -> None:
    def branch(factor: float) -> Any:
        builder = Builder("branch")
        return builder.build(builder.parameter(0, SIX) * factor)

    def program(c: Example) -> Op:
        some = sized(c, LINE, 4)
        return ops.conditional(c(np.int32(1)), [branch(2.0), branch(3.0)], [some] * 2) + 1.0

    assert len(counted(assert_as_interpreted(program))) == 1


def test_a_branch_that_is_not_taken_may_be_wrong() -> None:
    def branch(size: int) -> Any:
        builder = Builder("branch")
        array = builder.parameter(0, SIX)
        other = builder.constant(LINE)
        sized = ops.set_dimension_size(other, builder.constant(size), 0)
        return builder.build(ops.dot(array, sized))

    def program(c: Example, choice: int) -> Op:
        some = sized(c, LINE, 4)
        branches = [branch(4), branch(3)]
        return ops.conditional(c(np.int32(choice)), branches, [some] * 2)

    assert_as_interpreted(lambda c: program(c, 0))
    module, arguments = module_of(lambda c: program(c, 1))
    with pytest.raises(InvalidArgumentError, match=r"sizes that meet must agree, got 4 .* 3"):
        executed(compiled(module), arguments)


def test_a_reducer_with_sizes_of_its_own_is_walked() -> None:
    builder = Builder("reducer")
    a, b = (builder.parameter(n, Shape.parse("f32[]")) for n in range(2))
    two = ops.set_dimension_size(ops.broadcast(a, [3]), builder.constant(1), 0)
    inner = builder.build(ops.reduce_all(two, b, ADD))
    assert_as_interpreted(lambda c: ops.reduce_all(c(LINE), zero(c), inner))


def test_the_order_of_effects_is_kept() -> None:
    builder = Builder("feeds")
    first = builder.infeed(SIX)
    after = ops.outfeed(first * 2.0)
    second, _ = _elements(ops.infeed_with_token(after, SIX))
    ops.outfeed_with_token(second + 1.0, after)
    module = import_module(builder.build(ops.get_dimension_size(second, 0)).proto)
    queues = Queues(LINE[:4], LINE[:2])
    assert int(executed(compiled(module), [], queues)) == 2
    assert queues.events == ["in", "out", "in", "out"]
    np.testing.assert_array_equal(queues.out[0], 2 * LINE[:4])
    np.testing.assert_array_equal(queues.out[1], LINE[:2] + 1)


def test_an_effect_waits_for_what_is_refused_before_it() -> None:
    builder = Builder("feeds")
    line = builder.constant(LINE)
    two, three = (ops.set_dimension_size(line, builder.constant(n), 0) for n in (2, 3))
    wrong = ops.dot(two, three)
    ops.outfeed(builder.constant(LINE))
    module = import_module(builder.build(wrong).proto)
    queues = Queues()
    with pytest.raises(InvalidArgumentError, match="must agree"):
        executed(compiled(module), [], queues)
    assert not queues.events


def test_parameters_and_results_keep_their_shapes() -> None:
    builder = Builder("doubled")
    module = import_module(builder.build(builder.parameter(0, SIX) * 2).proto)
    executable = compiled(module)
    assert str(executable.program_shape) == "(p0: f32[<=6]{0}) -> f32[<=6]{0}"
    for size in (0, 4, 6):
        np.testing.assert_array_equal(executed(executable, [LINE[:size]]), 2 * LINE[:size])
    device = CPU.devices[0]
    wrong = CPU.to_device(Literal.from_numpy(LINE[:5]), device)
    with pytest.raises(ShapeError, match=r"argument 0 = f32\[5\]\{0\} for f32\[<=6\]\{0\}"):
        executable.execute(
            [wrong],
            device=device,
            options=ExecuteOptions(),
        )


def test_a_dynamic_value_is_no_static_argument() -> None:
    builder = Builder("static")
    module = import_module(builder.build(builder.parameter(0, Shape.parse("f32[6]")) * 2).proto)
    device = CPU.devices[0]
    value = CPU.to_device(Literal.from_numpy(LINE[:2], SIX), device)
    with pytest.raises(ShapeError, match=r"f32\[<=6\]\{0\} for f32\[6\]\{0\}"):
        compiled(module).execute(
            [value],
            device=device,
            options=ExecuteOptions(),
        )


def test_states_are_the_executable_s_whatever_the_sizes() -> None:
    builder = Builder("states")
    rows = builder.parameter(0, SIX)
    made = builder.instruction(
        Opcode.RNG_GET_AND_UPDATE_STATE, [], RngGetAndUpdateStateAttributes(1)
    )
    low = ops.reshape(ops.slice(made, [0], [1]), [])
    module = import_module(builder.build(ops.tuple([rows * 2.0, low])).proto)
    executable = compiled(module)
    first = int(executed(executable, [LINE[:2]])[1])
    assert [int(executed(executable, [LINE[:n]])[1]) for n in (3, 2)] == [first + 1, first + 2]


@pytest.fixture
def requested(monkeypatch: pytest.MonkeyPatch) -> set[Opcode]:
    """The opcodes whose evaluators have computed something."""
    requested: set[Opcode] = set()

    def watched(opcode: Opcode) -> Any:
        real = evaluator(opcode)

        def evaluate(*arguments: Any) -> Any:
            requested.add(opcode)
            return real(*arguments)

        return evaluate

    monkeypatch.setattr(dynamic_executable, "evaluator", watched)
    return requested


def test_a_seed_decides_random_numbers(requested: set[Opcode]) -> None:
    """Programs make them, of states that the host draws."""
    builder = Builder("random")
    rows = builder.parameter(0, SIX)
    low, high = builder.constant(np.float32(0)), builder.constant(np.float32(1))
    drawn = ops.rng_uniform(low, high, Shape.parse("f32[4]"))
    module = import_module(builder.build(ops.tuple([rows, drawn])).proto)
    results = [
        executed(compiled(module, platform, seed=7), [LINE[:2]])[1]
        for platform in (CPU, CPU, Interpreter())
    ]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    assert not requested & {Opcode.RNG, Opcode.RNG_BIT_GENERATOR}


def test_a_walked_loop_can_be_cancelled() -> None:
    cancellation = Cancellation()

    class Cancelling(Queues):
        def take_infeed(self, shape: Shape, *_: Any) -> Any:
            if len(self.events) == 3:
                cancellation.cancel()
            return super().take_infeed(shape, *_)

    def body(array: Op, left: Op) -> Sequence[Op]:
        fed = array.builder.infeed(SIX)
        return [fed, left]

    example = Example()
    root = _loop(
        example, "(f32[<=6], s32[])", [sized(example, LINE, 2), example(np.int32(1))], body
    )
    module = import_module(example.build(root).proto)
    queues = Cancelling(*[LINE[: n % 6] for n in range(50)])
    with pytest.raises(CancelledError):
        executed(compiled(module), example.arguments, queues, cancellation)
    assert len(queues.events) == 4


def _tower(levels: int) -> HloModule:
    """Computations each of which calls the next one twice."""
    builder = Builder("lowest")
    called = builder.build(builder.parameter(0, SIX) * 0.5)
    for _ in range(levels):
        builder = Builder("level")
        called = builder.build(ops.call(called, [ops.call(called, [builder.parameter(0, SIX)])]))
    builder = Builder("main")
    return import_module(builder.build(ops.call(called, [builder.parameter(0, SIX)])).proto)


def test_calls_that_double_and_double_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(size_specialisation, "MAX_INSTRUCTIONS", 12)
    executable = compiled(_tower(4))
    np.testing.assert_array_equal(executed(executable, [LINE[:2]]), LINE[:2] * 0.5**16)
    assert len(executable._programs) > 1
    cancellation = Cancellation()
    threading.Timer(0.3, cancellation.cancel).start()
    with pytest.raises(CancelledError):
        executed(compiled(_tower(40)), [LINE[:2]], cancellation=cancellation)


def test_programs_of_other_sizes_are_forgotten_with_their_machine_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(size_variants, "KEPT", 2)
    monkeypatch.setattr(kernel, "LOADED_TOGETHER", 1)
    builder = Builder("doubled")
    module = import_module(builder.build(builder.parameter(0, SIX) * 2).proto)
    executable = compiled(module)
    programs = executable._programs
    executed(executable, [LINE[:1]])
    (only,) = programs._programs._items.values()
    assert only.program is not None
    (loaded,) = only.program._encoded.kernels.values()
    loader = weakref.ref(loaded.library)
    del only, loaded
    for size in (2, 3, 4, 5):
        executed(executable, [LINE[:size]])
        assert len(programs) <= 2
    gc.collect()
    assert loader() is None


def test_the_same_sizes_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    module, arguments = module_of(lambda c: _growing(c, 4))
    executable = compiled(module)
    executed(executable, arguments)
    monkeypatch.setattr(executable._programs, "_compile", None)
    executed(executable, arguments)


def test_no_evaluator_computes(requested: set[Opcode]) -> None:
    names = ["gather of whole rows", "top k", "a call", "reduce of several"]
    for program in (*(CASES[name][0] for name in names), lambda c: _growing(c, 3)):
        module, arguments = module_of(program)
        executed(compiled(module), arguments)
    assert requested <= ANY_SIZE | HOST | {Opcode.CONSTANT}
    i = next(i for i in module.instructions() if i.opcode is Opcode.MULTIPLY)
    evaluate: Any = dynamic_executable._evaluator_of(i.opcode)
    with pytest.raises(InternalError, match="a program must give the value"):
        evaluate(i, [LINE, LINE], None)


def test_an_execution_must_fit_into_the_memory_at_its_sizes() -> None:
    builder = Builder("outer")
    line = builder.parameter(0, Shape.parse("f32[<=64]"))
    module = import_module(builder.build(ops.broadcast(line, [16]) * 2.0).proto)
    executable = compiled(module, Cpu(max_value_bytes=4200))
    executed(executable, [np.ones(4, np.float32)])
    with pytest.raises(ResourceExhaustedError, match="must fit into the device's 4200 bytes"):
        executed(executable, [np.ones(64, np.float32)])


def test_what_no_platform_has_is_refused_when_it_is_compiled() -> None:
    builder = Builder("unknown")
    some = builder.parameter(0, SIX)
    root = ops.custom_call([some], "nobody_registered_this", SIX)
    module = import_module(builder.build(root).proto)
    with pytest.raises(UnimplementedError, match="nobody_registered_this"):
        compiled(module)
