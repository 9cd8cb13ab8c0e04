"""Steps of dynamic shape written as programs of static shape."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.checked_evaluation import evaluate_checked
from tests.conformance.examples import ADD, Example
from tests.unit.evaluator.test_dynamic_shapes import CASES, LINE, sized, zero
from tests.unit.passes.passing import opcodes
from xla_client import Builder, Op, Shape, ops
from xla_contract.ops.random.rng import RandomDistribution, RngAttributes
from xla_contract.ops.random.rng_get_and_update_state import RngGetAndUpdateStateAttributes
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes
from xla_server.evaluator.plan import PlanCache
from xla_server.ir.importer import import_module
from xla_server.ir.verification.verifier import verify
from xla_server.ops.evaluation import TOKEN, Value
from xla_server.ops.numerics.dynamic_bounds import broadcast_to, padded, part_of, sliced
from xla_server.passes.dynamic_sizes.size_specialisation import has_effect
from xla_server.passes.dynamic_sizes.sized_values import (
    PaddedExtent,
    arrays_of,
    extents_of,
    value_of,
)
from xla_server.passes.dynamic_sizes.static_segments import StaticSegment, first_segment

SIX = Shape.parse("f32[<=6]")


class Segmented:
    """A program, its arguments, and the first program of static shape that it is made into."""

    def __init__(self, program: Callable[[Example], Op], *replaced: Value) -> None:
        example = Example()
        self.module = import_module(example.build(program(example)).proto)
        self.arguments: list[Value] = list(replaced) or example.arguments
        self.plan = PlanCache(is_dynamic=True).of(self.module.entry)
        constants = {
            step.result: step.instruction
            for step in self.plan.steps
            if step.instruction.opcode is Opcode.CONSTANT
        }
        steps = [step for step in self.plan.steps if step.result not in constants]
        self.values = dict(zip(self.plan.parameters, self.arguments, strict=True))
        root = {self.plan.root}
        self.segment: StaticSegment = first_segment(
            self.module, steps, self.values, constants, root
        )

    @property
    def left(self) -> list[Opcode]:
        return [step.instruction.opcode for step in self.segment.remaining]

    @property
    def opcodes(self) -> dict[str, int]:
        assert self.segment.module is not None
        return opcodes(self.segment.module)

    def result(self) -> Any:
        """Return the root's value from the program of static shape."""
        assert self.segment.module is not None
        arrays = [a for slot in self.segment.inputs for a in arrays_of(self.values[slot])]
        given = iter(list(arrays_of(evaluate_checked(self.segment.module, arrays))))
        results = {slot: value_of(extents, given) for slot, extents in self.segment.outputs}
        return results[self.plan.root]


@pytest.mark.parametrize("name", [name for name in CASES if name != "a constant"])
def test_a_program_whose_sizes_are_known_becomes_one_of_static_shape(name: str) -> None:
    program, wanted = CASES[name]
    segmented = Segmented(program)
    assert not segmented.left
    written = segmented.segment.module
    assert written is not None
    verify(written)
    assert not has_dynamic_shapes(written)
    found = segmented.result()
    assert found.shape == np.shape(wanted)
    np.testing.assert_array_equal(found, wanted)


def test_a_static_operand_is_cut_and_sizes_are_constants() -> None:
    def program(c: Example) -> Op:
        some = sized(c, LINE, 2)
        return ops.convert_element_type(ops.get_dimension_size(some, 0), E.F32) + (c(LINE) + some)

    segmented = Segmented(program)
    assert "slice" in segmented.opcodes
    assert segmented.opcodes["constant"] == 1
    assert "get-dimension-size" not in segmented.opcodes
    assert "set-dimension-size" not in segmented.opcodes
    np.testing.assert_array_equal(segmented.result(), 2 * LINE[:2] + 2)


def test_numbers_that_decided_are_asked_for_and_no_others() -> None:
    def program(c: Example) -> Op:
        other, size = c(np.int32(5)), c(np.int32(1))
        some = ops.set_dimension_size(c(LINE), size * 2 + 1, 0)
        return ops.convert_element_type(other, E.F32) + some

    segmented = Segmented(program)
    size = segmented.plan.parameters[1]
    assert segmented.segment.guards == {(size, 0)}
    np.testing.assert_array_equal(segmented.result(), LINE[:3] + 5)


@pytest.mark.parametrize("name", ["floats", "many", "computed"])
def test_sizes_that_only_a_run_can_tell_leave_steps(name: str) -> None:
    def size(c: Example) -> Op:
        if name == "floats":
            return ops.convert_element_type(c(np.float32(3)), E.S32)
        if name == "many":
            return ops.reshape(ops.slice(c(np.arange(65, dtype=np.int32)), [3], [4]), [])
        return ops.convert_element_type(ops.reduce_all(c(LINE), zero(c), ADD), E.S32)

    segmented = Segmented(lambda c: ops.neg(ops.set_dimension_size(c(LINE) * 2.0, size(c), 0)))
    assert segmented.left == [Opcode.SET_DIMENSION_SIZE, Opcode.NEGATE]
    assert not segmented.segment.guards
    assert len(segmented.segment.outputs) == 2


def test_hidden_elements_are_handed_on_and_come_back() -> None:
    whole = part_of(LINE, (2,))

    def program(c: Example) -> Op:
        op = c.parameter(0, SIX)
        return ops.tuple([op, ops.remove_dynamic_dimension(op, 0)])

    part, again = Segmented(program, whole).result()
    np.testing.assert_array_equal(part, LINE[:2])
    np.testing.assert_array_equal(part.whole, LINE)
    np.testing.assert_array_equal(again, LINE)


def test_a_loop_of_other_sizes_in_each_iteration_is_left() -> None:
    def program(c: Example, by: int) -> Op:
        test, step = Builder("condition"), Builder("body")
        going_on = ops.gt(ops.get_dimension_size(test.parameter(0, SIX), 0), 1)
        array = step.parameter(0, SIX)
        size = ops.get_dimension_size(array, 0) - by
        after = ops.set_dimension_size(ops.neg(array), size, 0)
        return ops.while_(test.build(going_on), step.build(after), ops.neg(sized(c, LINE, 4)))

    assert Segmented(lambda c: program(c, 1)).left == [Opcode.WHILE]
    kept = Segmented(lambda c: program(c, 0))
    assert kept.opcodes["while"] == 1
    verify(kept.segment.module)  # type: ignore[arg-type]


@pytest.mark.parametrize("is_shown", [False, True])
def test_a_loop_begins_without_hidden_elements(is_shown: bool) -> None:
    def program(c: Example) -> Op:
        test, step = Builder("condition"), Builder("body")
        total = ops.reduce_all(test.parameter(0, SIX), test.constant(np.float32(0)), ADD)
        after = ops.neg(step.parameter(0, SIX))
        state = sized(c, LINE, 4)
        result = ops.while_(test.build(ops.gt(total, 0)), step.build(after), state)
        return ops.remove_dynamic_dimension(result, 0) if is_shown else result

    segmented = Segmented(program)
    assert (Opcode.WHILE in segmented.left) == is_shown
    if not is_shown:
        np.testing.assert_array_equal(segmented.result(), -LINE[:4])


def test_what_the_host_does_is_left_with_all_effects_behind_it() -> None:
    def program(c: Example) -> Op:
        fed = c.infeed(SIX)
        ops.custom_call([c(LINE)], "Sharding", Shape.parse("f32[6]"), has_side_effect=True)
        return ops.tuple([fed, c(LINE) * 2.0])

    segmented = Segmented(program)
    assert Opcode.CUSTOM_CALL in segmented.left
    assert Opcode.INFEED in segmented.left
    assert segmented.opcodes == {"multiply": 1, "broadcast": 1, "constant": 1, "tuple": 1}


def _called(opcode: Opcode, attributes: Any, operands: Any = ()) -> Segmented:
    """A program that calls what draws with this instruction, beside a value of dynamic shape."""
    builder = Builder("drawing")
    array = builder.parameter(0, Shape.parse("f32[6]"))
    inside = [builder.constant(np.float32(number)) for number in operands]
    drawn = builder.instruction(opcode, inside, attributes)
    called = builder.build(ops.tuple([array, drawn]))
    return Segmented(lambda c: ops.tuple([ops.call(called, [c(LINE)]), sized(c, LINE, 2)]))


def test_a_call_that_advances_a_state_of_the_program_is_left() -> None:
    segmented = _called(Opcode.RNG_GET_AND_UPDATE_STATE, RngGetAndUpdateStateAttributes(1))
    assert Opcode.CALL in segmented.left


def test_a_static_call_that_draws_is_taken_and_keeps_its_order() -> None:
    uniform = RngAttributes(RandomDistribution.UNIFORM, Shape.parse("f32[6]"))
    segmented = _called(Opcode.RNG, uniform, (0, 1))
    assert Opcode.CALL not in segmented.left
    (call,) = (i for i in segmented.module.entry.instructions if i.opcode is Opcode.CALL)
    assert has_effect(call)


def test_extents_of_values() -> None:
    value = (part_of(LINE, (2,)), TOKEN, LINE)
    assert extents_of(value) == (PaddedExtent((6,), (2,)), None, PaddedExtent((6,), (6,)))
    back: Any = value_of(extents_of(value), iter([-LINE, LINE]))
    np.testing.assert_array_equal(back[0], -LINE[:2])
    assert back[1] is TOKEN


def test_arrays_keep_their_operations() -> None:
    np.testing.assert_array_equal(sliced(LINE, [2]), LINE[:2])
    np.testing.assert_array_equal(padded(LINE[:1], [2]), [1, 0])
    np.testing.assert_array_equal(broadcast_to(LINE[:1], [2]), [1, 1])
