"""The walk over a module's instructions, whatever their lowerings are."""

import pytest

from tests.processors import TARGET
from xla_contract.errors import InternalError, UnimplementedError
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import parse_shape
from xla_server.buffers.code import CopyThunk, Value
from xla_server.codegen.lower.fusion_faults import FUSION_FAULTS
from xla_server.codegen.lower.lowering import Lowering, Tree, leaves, lower
from xla_server.codegen.lower.lowerings import LOWERINGS
from xla_server.ir.module import HloInstruction
from xla_server.ir.text.parser import parse_module

TEXT = """HloModule m
ENTRY e { x = f32[4] parameter(0)
  y = f32[4] exponential(x)
  ROOT z = f32[4] negate(y) }"""
FUSION = """HloModule m
f { a = f32[4] parameter(0)
  ROOT r = f32[4] negate(a) }
ENTRY e { x = f32[4] parameter(0)
  ROOT z = f32[4] fusion(x), kind=kLoop, calls=f }"""
SHAPE = parse_shape("f32[4]")


def _copies(lowering: Lowering, i: HloInstruction) -> Tree:
    result = lowering.new(i.shape, i.name)
    lowering.add(CopyThunk(result, lowering.array(i.operands[0])))
    return result


def test_rows_are_in_the_order_of_instructions_and_name_them() -> None:
    module = parse_module(TEXT)
    code = lower(module, {Opcode.EXPONENTIAL: _copies, Opcode.NEGATE: _copies}, TARGET)
    assert [code.origins[thunk].name for thunk in code.thunks] == ["y", "z"]
    assert [value.name for value in (*code.parameters, *code.results)] == ["x", "z"]


def test_an_operation_without_a_row_is_refused_by_name() -> None:
    rule = r"^negate %z: this platform must have a kernel, got opcode negate$"
    with pytest.raises(UnimplementedError, match=rule):
        lower(parse_module(TEXT), {Opcode.EXPONENTIAL: _copies}, TARGET)


def test_the_arrays_of_a_tree_are_in_order_and_tokens_have_none() -> None:
    lowering = Lowering(LOWERINGS, TARGET)
    tree = lowering.new_tree(parse_shape("(f32[4], (token[], s32[2]))"), "t")
    assert [value.name for value in leaves(tree)] == ["t.0", "t.1.1"]
    assert leaves(lowering.new_tree(parse_shape("token[]"), "t")) == []


def test_a_copy_has_no_row_for_what_is_in_its_buffer() -> None:
    lowering, one = Lowering(LOWERINGS, TARGET), Value(SHAPE, "a")
    other = Value(SHAPE, "b")
    lowering.copy((one, other), (one, one))
    (thunk,) = lowering.thunks
    assert isinstance(thunk, CopyThunk)
    assert (thunk.target, thunk.source) == (other, one)


@pytest.mark.fusion_faults
def test_an_attempt_that_fails_leaves_nothing_behind() -> None:
    module = parse_module(FUSION)
    lowering, before = Lowering(LOWERINGS, TARGET), FUSION_FAULTS.count
    first = CopyThunk(Value(SHAPE, "a"), Value(SHAPE, "b"))
    lowering.add(first)

    def fails() -> None:
        lowering.add(CopyThunk(Value(SHAPE, "c"), Value(SHAPE, "d")))
        lowering.constants[Value(SHAPE, "e")] = None
        raise InternalError("broken")

    assert lowering.attempt(module.entry.root, fails) is None
    assert lowering.thunks == [first]
    assert not lowering.constants
    assert FUSION_FAULTS.count == before + 1


def test_nothing_is_attempted_where_fusions_are_not_wanted() -> None:
    lowering = Lowering(LOWERINGS, TARGET, fuses=False)
    assert lowering.attempt(parse_module(TEXT).entry.root, lambda: 1) is None
    assert Lowering(LOWERINGS, TARGET).attempt(parse_module(TEXT).entry.root, lambda: 1) == 1
