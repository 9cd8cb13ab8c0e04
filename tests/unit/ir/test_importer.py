from collections.abc import Callable

import numpy as np
import pytest

from tests.corpus.hlo_text import VECTOR_LOOP, parse_hlo
from xla_contract.errors import (
    InvalidArgumentError,
    ResourceExhaustedError,
    UnimplementedError,
    XlaError,
)
from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ir.importer import import_module

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


def _set(name: str, /, **fields: object) -> Callable[[Proto], None]:
    def apply(proto: Proto) -> None:
        for field, value in fields.items():
            setattr(_part(proto, name), field, value)

    return apply


def _operands(name: str, *ids: int) -> Callable[[Proto], None]:
    def apply(proto: Proto) -> None:
        _part(proto, name).operand_ids[:] = ids

    return apply


def _called(name: str, *ids: int) -> Callable[[Proto], None]:
    def apply(proto: Proto) -> None:
        _part(proto, name).called_computation_ids[:] = ids

    return apply


def _entry(**fields: object) -> Callable[[Proto], None]:
    def apply(proto: Proto) -> None:
        for field, value in fields.items():
            setattr(proto.computations[-1], field, value)

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


def _negative_dimension(proto: Proto) -> None:
    _part(proto, "wide").shape.dimensions[0] = -4


def _short_literal(proto: Proto) -> None:
    shape = _part(proto, "zero").literal.shape
    shape.dimensions.append(2**40)
    shape.is_dynamic_dimension.append(False)
    shape.layout.minor_to_major.append(0)


BROKEN: list[tuple[str, Callable[[Proto], None], type[XlaError], list[str]]] = [
    (
        "no signature",
        lambda proto: proto.ClearField("host_program_shape"),
        InvalidArgumentError,
        ["host_program_shape", "'loop'"],
    ),
    (
        "entry unknown",
        lambda proto: setattr(proto, "entry_computation_id", 99),
        InvalidArgumentError,
        ["entry_computation_id", "99"],
    ),
    ("root unknown", _entry(root_id=12345), InvalidArgumentError, ["%main", "root_id", "12345"]),
    ("no computation", lambda proto: proto.ClearField("computations"), InvalidArgumentError, []),
    ("computation id", _entry(id=-1), InvalidArgumentError, ["%main", "-1"]),
    ("computation name", _entry(name="add"), InvalidArgumentError, ["names", "'add'"]),
    (
        "opcode unknown",
        _set("wide", opcode="Broadcast"),
        InvalidArgumentError,
        ["%wide", "%main", "'Broadcast'"],
    ),
    ("opcode empty", _set("wide", opcode=""), InvalidArgumentError, ["%wide", "opcode"]),
    (
        "opcode not offered",
        _set("wide", opcode="shuffle"),
        UnimplementedError,
        ["shuffle %wide"],
    ),
    ("name empty", _set("wide", name=""), InvalidArgumentError, ["names", "%main"]),
    ("name twice", _set("wide", name="sum"), InvalidArgumentError, ["names", "'sum'"]),
    ("id negative", _set("wide", id=-3), InvalidArgumentError, ["%wide", "ids", "-3"]),
    (
        "too few operands",
        _operands("answer"),
        InvalidArgumentError,
        ["subtract %answer", "2, got 0", "%main"],
    ),
    (
        "operand unknown",
        _operands("answer", 4711, 4711),
        InvalidArgumentError,
        ["subtract %answer", "operand 0", "4711", "%main"],
    ),
    ("users first", _swap_first_two, InvalidArgumentError, ["broadcast %wide", "operand 0"]),
    (
        "callee unknown",
        _called("total", 4711),
        InvalidArgumentError,
        ["reduce %total", "4711", "%main"],
    ),
    (
        "no shape",
        lambda proto: _part(proto, "wide").ClearField("shape"),
        InvalidArgumentError,
        ["broadcast %wide", "shape", "%main"],
    ),
    ("negative size", _negative_dimension, InvalidArgumentError, ["broadcast %wide", "-4"]),
    (
        "literal shorter than its shape",
        _short_literal,
        InvalidArgumentError,
        ["constant %zero", str(2**40)],
    ),
    (
        "literal missing",
        lambda proto: _part(proto, "zero").ClearField("literal"),
        InvalidArgumentError,
        ["constant %zero", "literal"],
    ),
    (
        "parameter numbers",
        _set("b", parameter_number=0),
        InvalidArgumentError,
        ["%add", "parameter numbers", "[0, 0]"],
    ),
    (
        "direction",
        _set("less", comparison_direction="lt"),
        InvalidArgumentError,
        ["compare %less", "lt"],
    ),
]


@pytest.mark.parametrize(
    ("damage", "error", "words"),
    [pytest.param(*case[1:], id=case[0]) for case in BROKEN],
)
def test_refuses(damage: Callable[[Proto], None], error: type[XlaError], words: list[str]) -> None:
    proto = parse_hlo(VECTOR_LOOP)
    damage(proto)
    with pytest.raises(error) as caught:
        import_module(proto)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_computation_cannot_call_itself_or_a_later_one() -> None:
    proto = parse_hlo(VECTOR_LOOP)
    loop = _part(proto, "loop")
    loop.called_computation_ids[0] = proto.computations[-1].id
    with pytest.raises(InvalidArgumentError, match="listed before their callers"):
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
