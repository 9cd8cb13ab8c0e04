"""Modules survive being written and read; damaged ones are refused, never crash."""

import numpy as np
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.checked_evaluation import evaluate_checked
from tests.corpus.hlo_text import VECTOR_LOOP, parse_hlo, print_hlo
from xla_contract.errors import XlaError
from xla_contract.ops.control.constant import ConstantAttributes
from xla_contract.ops.control.parameter import ParameterAttributes
from xla_contract.ops.control.tuple import GetTupleElementAttributes
from xla_contract.ops.definition import NO_ATTRIBUTES
from xla_contract.ops.definitions import infer_shape
from xla_contract.ops.shaping.transpose import TransposeAttributes
from xla_contract.stubs import hlo_pb2
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape
from xla_server.ir.exporter import export_module
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloComputation, HloInstruction, HloModule
from xla_server.ir.verification.verifier import verify

ARGUMENT = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


@st.composite
def modules(draw: st.DrawFn) -> HloModule:
    """A random graph over one parameter: arithmetic, transposes, calls and tuples."""
    square = _square()
    parts = [_parameter("x", draw(st.sampled_from(["f32[2,3]{1,0}", "f32[2,3]{0,1}"])))]
    ids = draw(st.lists(st.integers(1, 300), min_size=9, max_size=9, unique=True))
    for position, number in enumerate(ids[:-1]):
        name = f"i.{position}"
        arrays = [part for part in parts if part.shape.is_array]
        chosen = draw(st.sampled_from(arrays))
        same = [part for part in arrays if part.shape.compatible(chosen.shape)]
        kind = draw(st.sampled_from(["negate", "add", "transpose", "constant", "tuple", "call"]))
        attributes: object = NO_ATTRIBUTES
        operands: tuple[HloInstruction, ...] = (chosen,)
        called: tuple[HloComputation, ...] = ()
        if kind == "add":
            operands = (chosen, draw(st.sampled_from(same)))
        elif kind == "transpose":
            attributes = TransposeAttributes((1, 0))
        elif kind == "constant":
            value = draw(st.floats(width=32, allow_nan=False))
            literal = Literal.from_numpy(np.full((2, 3), value, np.float32))
            operands, attributes = (), ConstantAttributes(literal)
        elif kind == "tuple":
            operands = tuple(draw(st.lists(st.sampled_from(parts), max_size=3)))
        elif kind == "call" and chosen.shape.dimensions == (2, 3):
            called = (square,)
        else:
            kind = "negate"
        opcode = Opcode(kind)
        signatures = [callee.program_shape for callee in called]
        shape = infer_shape(opcode, [part.shape for part in operands], attributes, signatures)
        before = tuple(draw(st.lists(st.sampled_from(parts), max_size=1)))
        parts.append(
            HloInstruction(name, number, opcode, shape, operands, attributes, called, before)
        )
    element = _get_element(parts, ids[-1])
    root = draw(st.sampled_from([*parts, element]))
    instructions = [*parts, element] if element is not root or element not in parts else parts
    entry = HloComputation("main", 7, instructions, root, (parts[0],))
    signature = ProgramShape((parts[0].shape,), root.shape.with_default_layout(), ("x",))
    return HloModule("random", 3, [square, entry], entry, signature)


def _parameter(name: str, text: str) -> HloInstruction:
    shape = Shape.parse(text)
    return HloInstruction(
        name, 0, Opcode.PARAMETER, shape, (), ParameterAttributes(0, shape.without_layout())
    )


def _square() -> HloComputation:
    p = _parameter("p", "f32[2,3]")
    root = HloInstruction("q", 1, Opcode.MULTIPLY, p.shape, (p, p), NO_ATTRIBUTES)
    return HloComputation("square", 0, [p, root], root, (p,))


def _get_element(parts: list[HloInstruction], number: int) -> HloInstruction:
    """The first element of the last tuple with elements, or a negation where there is none."""
    for part in reversed(parts):
        if part.shape.tuple_shapes:
            shape, attributes = part.shape.tuple_shapes[0], GetTupleElementAttributes(0)
            return HloInstruction(
                "last", number, Opcode.GET_TUPLE_ELEMENT, shape, (part,), attributes
            )
    return HloInstruction("last", number, Opcode.NEGATE, parts[0].shape, (parts[0],), NO_ATTRIBUTES)


def assert_same(ours: HloModule, theirs: HloModule) -> None:
    """Every field of every part is equal; instructions are compared by their positions."""
    assert (ours.name, ours.id) == (theirs.name, theirs.id)
    assert ours.entry_program_shape == theirs.entry_program_shape
    assert ours.computations.index(ours.entry) == theirs.computations.index(theirs.entry)
    for mine, other in zip(ours.computations, theirs.computations, strict=True):
        assert (mine.name, mine.id) == (other.name, other.id)
        assert _describe(mine, ours) == _describe(other, theirs)


def _describe(computation: HloComputation, module: HloModule) -> list[object]:
    position = {part: number for number, part in enumerate(computation.instructions)}
    described: list[object] = [position[computation.root]]
    described.extend(position[part] for part in computation.parameters)
    described.extend(
        (
            (part.name, part.id, part.opcode, part.attributes),
            part.shape.with_default_layout(),
            [position[operand] for operand in part.operands],
            [module.computations.index(callee) for callee in part.called],
            [position[before] for before in part.control_predecessors],
        )
        for part in computation.instructions
    )
    return described


@settings(max_examples=60, deadline=None)
@given(modules())
def test_import_undoes_export(module: HloModule) -> None:
    verify(module)
    written = export_module(module)
    read = import_module(hlo_pb2.HloModuleProto.FromString(written.SerializeToString()))
    assert_same(read, module)
    verify(read)
    assert "ENTRY main" in print_hlo(written)
    ours = evaluate_checked(module, [ARGUMENT])
    theirs = evaluate_checked(read, [ARGUMENT])
    assert repr(ours) == repr(theirs)


SOUND = parse_hlo(VECTOR_LOOP).SerializeToString()


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, len(SOUND) - 1), st.integers(0, 255)), min_size=1, max_size=4)
)
def test_damaged_bytes_are_refused_with_an_error_of_ours(damage: list[tuple[int, int]]) -> None:
    data = bytearray(SOUND)
    for position, byte in damage:
        data[position] = byte
    try:
        proto = hlo_pb2.HloModuleProto.FromString(bytes(data))
    except DecodeError:
        return
    try:
        module = import_module(proto, max_literal_bytes=2**20)
        verify(module, max_value_bytes=2**20)
    except XlaError:
        return
    assert export_module(module).computations
