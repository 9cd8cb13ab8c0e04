from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.corpus.hlo_text import VECTOR_LOOP, parse_hlo
from xla_contract.errors import (
    InvalidArgumentError,
    ResourceExhaustedError,
    UnimplementedError,
)
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ir import module
from xla_server.ir.exporter import export_module
from xla_server.ir.importer import import_module
from xla_server.ir.text.parser import parse_module
from xla_server.ir.text.printer import print_module

Proto = hlo_pb2.HloModuleProto


def renumbered(proto: Proto, number: Callable[[int, int], int]) -> Proto:
    """The module with each instruction id replaced by number(computation id, low half)."""
    for computation in proto.computations:

        def new(old: int, owner: int = computation.id) -> int:
            return number(owner, old & 0xFFFFFFFF)

        computation.root_id = new(computation.root_id)
        for instruction in computation.instructions:
            instruction.id = new(instruction.id)
            instruction.operand_ids[:] = map(new, instruction.operand_ids)
            instruction.control_predecessor_ids[:] = map(new, instruction.control_predecessor_ids)
    return proto


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(lambda owner, low: owner << 32 | low, id="as jaxlib writes"),
        pytest.param(lambda owner, low: 1000 * owner + low, id="small and unique in the module"),
        pytest.param(lambda owner, low: 77 << 32 | low, id="foreign upper half"),
        pytest.param(lambda owner, low: 2 * low + 5, id="with gaps, again in each computation"),
    ],
)
def test_reads_every_style_of_ids(number: Callable[[int, int], int]) -> None:
    module = import_module(renumbered(parse_hlo(VECTOR_LOOP), number))
    entry = module.entry
    assert entry.name == "main"
    assert [part.name for part in entry.root.operands] == ["last", "wide"]
    loop = entry.root.operands[0].operands[0]
    assert loop.opcode is Opcode.WHILE
    assert [called.name for called in loop.called] == ["body", "condition"]
    assert loop.operands[0].operands[1] is entry.parameters[0]
    assert all(0 <= part.id < 2**32 for part in module.instructions())


def test_reads_constants_attributes_and_signature() -> None:
    module = import_module(parse_hlo(VECTOR_LOOP))
    named = {part.name: part for part in module.instructions()}
    assert np.array_equal(named["limit"].attributes.literal.to_numpy(), 3)
    assert named["i"].attributes.index == 0
    assert named["state"].shape.compatible(Shape.parse("(s32[], f32[4])"))
    assert str(module.entry_program_shape.result) == "f32[4]{0}"


def test_keeps_what_it_does_not_model_and_only_that() -> None:
    proto = parse_hlo(VECTOR_LOOP)
    proto.frontend_attributes.map["by"] = "test"
    wide = next(part for part in proto.computations[-1].instructions if part.name == "wide")
    wide.metadata.op_name = "jit(f)/broadcast"
    wide.backend_config = b"fast"
    module = import_module(proto)
    decoration = next(part for part in module.instructions() if part.name == "wide").decoration
    assert decoration is not None
    assert decoration.metadata.op_name == "jit(f)/broadcast"
    assert decoration.backend_config == b"fast"
    assert module.decoration is not None
    assert module.decoration.frontend_attributes.map["by"] == "test"
    assert not module.decoration.computations
    for instruction in module.instructions():
        kept = instruction.decoration
        assert kept is None or not (kept.name or kept.operand_ids or kept.HasField("literal"))
        assert kept is None or not (kept.dimensions or kept.comparison_direction)


def _part(proto: Proto, name: str) -> hlo_pb2.HloInstructionProto:
    return next(
        part
        for computation in proto.computations
        for part in computation.instructions
        if part.name == name
    )


def _set(name: str, /, **fields: Any) -> Callable[[Proto], None]:
    """Sets fields of the instruction `name`, or of the entry computation without a name."""

    def apply(proto: Proto) -> None:
        part: Any = _part(proto, name) if name else proto.computations[-1]
        for field, value in fields.items():
            if isinstance(value, list):
                getattr(part, field)[:] = value
            else:
                setattr(part, field, value)

    return apply


def _swap_first_two(proto: Proto) -> None:
    entry = proto.computations[-1].instructions
    reduce_, wide = entry[-3], entry[-2]
    assert wide.operand_ids[0] == reduce_.id
    first, second = type(wide)(), type(wide)()
    first.CopyFrom(wide)
    second.CopyFrom(reduce_)
    reduce_.CopyFrom(first)
    wide.CopyFrom(second)


def _call_later(proto: Proto) -> None:
    _part(proto, "loop").called_computation_ids[0] = proto.computations[-1].id


def _negative_dimension(proto: Proto) -> None:
    _part(proto, "wide").shape.dimensions[0] = -4


def _short_literal(proto: Proto) -> None:
    shape = _part(proto, "zero").literal.shape
    shape.dimensions.append(2**40)
    shape.is_dynamic_dimension.append(False)
    shape.layout.minor_to_major.append(0)


BROKEN: list[tuple[Callable[[Proto], None], list[str]]] = [
    (_call_later, ["listed before their callers"]),
    (lambda proto: proto.ClearField("host_program_shape"), ["host_program_shape", "'loop'"]),
    (lambda proto: setattr(proto, "entry_computation_id", 99), ["entry_computation_id", "99"]),
    (_set("", root_id=12345), ["%main", "root_id", "12345"]),
    (lambda proto: proto.ClearField("computations"), []),
    (_set("", id=-1), ["%main", "-1"]),
    (_set("", name="add"), ["names", "'add'"]),
    (_set("wide", opcode="Broadcast"), ["%wide", "%main", "'Broadcast'"]),
    (_set("wide", opcode=""), ["%wide", "opcode"]),
    (_set("wide", name=""), ["names", "%main"]),
    (_set("wide", name="sum"), ["names", "'sum'"]),
    (_set("wide", id=-3), ["%wide", "ids", "-3"]),
    (
        lambda proto: setattr(_part(proto, "wide"), "id", _part(proto, "total").id),
        ["%wide", "ids must not be negative and must be unique"],
    ),
    (_set("answer", operand_ids=[]), ["subtract %answer", "2, got 0", "%main"]),
    (_set("answer", operand_ids=[4711, 4711]), ["subtract %answer", "operand 0", "4711", "%main"]),
    (_swap_first_two, ["broadcast %wide", "operand 0"]),
    (_set("total", called_computation_ids=[4711]), ["reduce %total", "4711", "%main"]),
    (lambda proto: _part(proto, "wide").ClearField("shape"), ["broadcast %wide", "shape", "%main"]),
    (_negative_dimension, ["broadcast %wide", "-4"]),
    (_short_literal, ["constant %zero", str(2**40)]),
    (lambda proto: _part(proto, "zero").ClearField("literal"), ["constant %zero", "literal"]),
    (_set("b", parameter_number=0), ["%add", "parameter numbers", "[0, 0]"]),
    (_set("less", comparison_direction="lt"), ["compare %less", "lt"]),
]


@pytest.mark.parametrize(("damage", "words"), BROKEN)
def test_refuses(damage: Callable[[Proto], None], words: list[str]) -> None:
    proto = parse_hlo(VECTOR_LOOP)
    damage(proto)
    with pytest.raises(InvalidArgumentError) as caught:
        import_module(proto)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_literals_of_custom_calls_are_kept_and_checked() -> None:
    call = 'custom-call(), custom_call_target="f", literal=s32[2]{0} {1, 2}'
    proto = parse_hlo(f"ENTRY e {{ ROOT r = f32[4] {call} }}")
    module = import_module(proto)
    assert call in print_module(module)
    (root,) = export_module(module).computations[0].instructions
    assert list(root.literal.s32s) == [1, 2]
    proto.computations[0].instructions[0].literal.s32s.append(3)
    with pytest.raises(InvalidArgumentError, match="custom-call %r"):
        import_module(proto)


@pytest.mark.parametrize("dimensions", [[], [1], [0, 1], [1, 0]])
def test_a_map_is_of_all_dimensions_whichever_its_message_names(dimensions: list[int]) -> None:
    root = "x = f32[2,3] parameter(0) ROOT m = f32[2,3] map(x), to_apply=f"
    proto = parse_hlo(f"f {{ ROOT a = f32[] parameter(0) }} ENTRY e {{ {root} }}")
    (mapped,) = (i for c in proto.computations for i in c.instructions if i.opcode == "map")
    mapped.dimensions[:] = dimensions
    assert import_module(proto).entry.root.attributes.dimensions == (0, 1)


def test_an_opcode_that_is_not_offered_is_unimplemented() -> None:
    proto = parse_hlo(VECTOR_LOOP)
    _part(proto, "wide").opcode = "shuffle"
    with pytest.raises(UnimplementedError, match="shuffle %wide"):
        import_module(proto)


def test_messages_stay_short_for_long_names() -> None:
    proto = parse_hlo(VECTOR_LOOP)
    wide = _part(proto, "wide")
    wide.name = wide.opcode = "n" * 100_000
    with pytest.raises(InvalidArgumentError) as caught:
        import_module(proto)
    assert len(str(caught.value)) < 500


def test_bounds_the_constants_of_a_module_together() -> None:
    proto = parse_hlo(VECTOR_LOOP)
    assert import_module(proto, max_literal_bytes=16)
    with pytest.raises(ResourceExhaustedError, match="15 bytes together, got 16"):
        import_module(proto, max_literal_bytes=15)


def test_a_program_that_is_too_long_is_refused_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    proto = parse_hlo(VECTOR_LOOP)
    length = sum(len(part.instructions) for part in proto.computations)
    monkeypatch.setattr(module, "MAX_INSTRUCTIONS", length)
    import_module(proto)
    parse_module(VECTOR_LOOP)
    monkeypatch.setattr(module, "MAX_INSTRUCTIONS", length - 1)
    proto.computations[0].instructions[0].opcode = "not read"
    reported = rf"must have at most {length - 1} instructions, got {length}$"
    with pytest.raises(ResourceExhaustedError, match=reported):
        import_module(proto)
    with pytest.raises(ResourceExhaustedError, match=reported):
        parse_module(VECTOR_LOOP)
