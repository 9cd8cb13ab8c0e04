"""The forms of operations that make and move arrays, and of elementwise operations."""

from collections.abc import Sequence

from xla_contract.ops.control.ordering import DomainAttributes
from xla_contract.ops.elementwise.compare import (
    ComparisonDirection,
    ComparisonType,
)
from xla_contract.ops.shaping.set_dimension_size import SetDimensionSizeAttributes
from xla_contract.ops.shaping.slice import SliceAttributes
from xla_contract.stubs import xla_data_pb2
from xla_contract.types.dimension_numbers import PaddingConfig
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.ir.text import attribute_kinds as kinds
from xla_server.ir.text.forms.form import Attribute, Form, OfShape, Row, fields
from xla_server.ir.text.scanner import HloReader
from xla_server.ir.text.shardings import SHARDING

_Shardings = tuple[bytes | None, bytes | None]


def _write_domain(shardings: _Shardings) -> str:
    # In text, what is outside the domain is what messages call its exit.
    entry, exit_ = (
        SHARDING.write(xla_data_pb2.OpSharding.FromString(part or b"")) for part in shardings
    )
    return f'{{kind="sharding", entry={exit_}, exit={entry}}}'


def _read_domain(reader: HloReader) -> _Shardings:
    reader.expect('{kind="sharding"')
    parts = []
    for name in ("entry", "exit"):
        reader.expect(",")
        reader.expect(name)
        reader.expect("=")
        parts.append(SHARDING.read(reader).SerializeToString(deterministic=True))
    reader.expect("}")
    return parts[1], parts[0]


_DOMAIN = kinds.AttributeKind(_write_domain, _read_domain)


def _outfeed_shape(operands: Sequence[Shape]) -> Shape:
    return operands[0] if operands else Shape.tuple_of(())


def _make_set_dimension_size(shape: Shape, dimension: int) -> SetDimensionSizeAttributes:
    inside = 0 <= dimension < shape.rank
    return SetDimensionSizeAttributes(dimension, not inside or shape.is_dynamic(dimension))


ARRAYS: dict[Opcode, Row] = {
    # A scalar needs no dimensions; the rule of a broadcast refuses other operands without.
    Opcode.BROADCAST: fields(Attribute("dimensions", kinds.INTEGERS, (), always=True)),
    Opcode.COMPARE: fields(
        Attribute("direction", kinds.members(ComparisonDirection)),
        Attribute("type", kinds.members(ComparisonType), None),
    ),
    Opcode.CONCATENATE: fields(Attribute("dimensions", kinds.SINGLE)),
    Opcode.DOMAIN: Form(
        (Attribute("domain", _DOMAIN, (None, None)),),
        lambda record: ((record.entry_sharding, record.exit_sharding),),
        lambda shape, shardings: DomainAttributes(*shardings),
    ),
    Opcode.DYNAMIC_SLICE: fields(Attribute("dynamic_slice_sizes", kinds.INTEGERS)),
    Opcode.SET_DIMENSION_SIZE: Form(
        (Attribute("dimensions", kinds.SINGLE),),
        lambda record: (record.dimension,),
        _make_set_dimension_size,
        of_shape=OfShape.ALL,
    ),
    Opcode.GET_DIMENSION_SIZE: fields(Attribute("dimensions", kinds.SINGLE)),
    Opcode.GET_TUPLE_ELEMENT: fields(Attribute("index", kinds.INTEGER)),
    Opcode.INFEED: fields(Attribute("infeed_config", kinds.BYTES, b"")),
    Opcode.IOTA: fields(Attribute("iota_dimension", kinds.INTEGER)),
    Opcode.OUTFEED: fields(
        Attribute("outfeed_shape", kinds.SHAPE, of_operands=_outfeed_shape),
        Attribute("outfeed_config", kinds.BYTES, b""),
    ),
    Opcode.PAD: fields(Attribute("padding", kinds.PADDING, PaddingConfig())),
    Opcode.REDUCE_PRECISION: fields(
        Attribute("exponent_bits", kinds.INTEGER),
        Attribute("mantissa_bits", kinds.INTEGER),
    ),
    Opcode.REVERSE: fields(Attribute("dimensions", kinds.INTEGERS)),
    Opcode.SLICE: Form(
        (Attribute("slice", kinds.SLICES),),
        lambda record: (tuple(zip(record.starts, record.limits, record.strides, strict=True)),),
        lambda shape, boxes: SliceAttributes(*(tuple(box[n] for box in boxes) for n in range(3))),
    ),
    Opcode.TRANSPOSE: fields(Attribute("dimensions", kinds.INTEGERS)),
}
"""Forms with attributes in the text; other opcodes of these kinds have none."""
