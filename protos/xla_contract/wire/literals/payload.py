"""The fields of LiteralProto for the elements of each type.

The field depends on the element type: packed numbers where protobuf has the type, bytes for the
others (one byte an element, or two in little-endian order).
"""

import dataclasses

from xla_contract.stubs import xla_data_pb2
from xla_contract.types.element_type import ElementType


@dataclasses.dataclass(frozen=True, slots=True)
class PayloadField:
    """The payload field of an element type.

    `per_element` counts entries of the field (bytes, for a bytes field) to an element;
    `packed` is "" for a bytes field, else how an entry is encoded: "fixed" or "varint".
    """

    name: str
    per_element: int
    packed: str = ""

    @property
    def number(self) -> int:
        """The field's number in LiteralProto."""
        return _NUMBERS[self.name]


_PACKED: dict[ElementType, PayloadField] = {
    ElementType.PRED: PayloadField("preds", 1, "varint"),
    ElementType.S32: PayloadField("s32s", 1, "varint"),
    ElementType.S64: PayloadField("s64s", 1, "varint"),
    ElementType.U32: PayloadField("u32s", 1, "varint"),
    ElementType.U64: PayloadField("u64s", 1, "varint"),
    ElementType.F32: PayloadField("f32s", 1, "fixed"),
    ElementType.F64: PayloadField("f64s", 1, "fixed"),
    ElementType.C64: PayloadField("c64s", 2, "fixed"),
    ElementType.C128: PayloadField("c128s", 2, "fixed"),
}

PAYLOAD_FIELDS: dict[ElementType, PayloadField] = _PACKED | {
    element_type: PayloadField(f"{element_type.text}s", element_type.byte_width)
    for element_type in ElementType
    if element_type.is_array and element_type not in _PACKED
}
"""The total table array element type -> payload field; a test proves it total."""

_NUMBERS: dict[str, int] = {
    field.name: field.number for field in xla_data_pb2.LiteralProto.DESCRIPTOR.fields
}
