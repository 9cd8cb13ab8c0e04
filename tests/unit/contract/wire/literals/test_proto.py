import tracemalloc
from typing import Any

import numpy as np
import pytest

from xla_contract.errors import InvalidArgumentError, ResourceExhaustedError
from xla_contract.stubs import hlo_pb2, xla_data_pb2
from xla_contract.types.element_type import ElementType
from xla_contract.types.layout import Layout, PaddingValue
from xla_contract.types.literal import Array, Literal
from xla_contract.types.shape import Shape, parse_shape
from xla_contract.wire.literals.proto import literal_from_proto, literal_to_proto
from xla_contract.wire.shape_proto import shape_to_proto

ARRAY_TYPES = [element_type for element_type in ElementType if element_type.is_array]


def every_bit_pattern(element_type: ElementType) -> Array:
    """A [4, 64] array with all 256 values of the low byte and noise above."""
    raw: Array = np.random.default_rng(int(element_type)).integers(
        0, 256, (4, 64, element_type.byte_width), dtype=np.uint8
    )
    raw[..., 0] = np.arange(256).reshape(4, 64)
    dtype: Any = element_type.dtype
    if element_type is ElementType.PRED:
        return (raw[..., 0] & 1).astype(dtype)
    return raw.reshape(4, -1).view(dtype)


def message(text: str, **payload: Any) -> xla_data_pb2.LiteralProto:
    return xla_data_pb2.LiteralProto(shape=shape_to_proto(parse_shape(text)), **payload)


@pytest.mark.parametrize("element_type", ARRAY_TYPES)
@pytest.mark.parametrize(
    "layout",
    [Layout((1, 0)), Layout((0, 1)), Layout((0, 1), (5, 64), PaddingValue.ONE_PAD)],
    ids=str,
)
def test_every_type_comes_back_over_the_wire(element_type: ElementType, layout: Layout) -> None:
    shape = Shape.array(element_type, (4, 64)).with_layout(layout)
    literal = Literal.from_numpy(every_bit_pattern(element_type), shape)
    sent = literal_to_proto(literal).SerializeToString()
    assert literal_from_proto(xla_data_pb2.LiteralProto.FromString(sent)) == literal


@pytest.mark.parametrize(
    ("text", "value", "field", "payload"),
    [
        ("pred[2]", [True, False], "preds", [True, False]),
        ("s4[3]", [-1, 7, -8], "s4s", b"\x0f\x07\x08"),
        ("s2[2]", [-1, 1], "s2s", b"\x03\x01"),
        ("u8[2]", [1, 255], "u8s", b"\x01\xff"),
        ("s16[2]", [1, -2], "s16s", b"\x01\x00\xfe\xff"),
        ("bf16[1]", [1.0], "bf16s", b"\x80\x3f"),
        ("s32[3]", [0, -1, 2**31 - 1], "s32s", [0, -1, 2**31 - 1]),
        ("s64[2]", [-(2**63), 300], "s64s", [-(2**63), 300]),
        ("u64[3]", [2**64 - 1, 127, 128], "u64s", [2**64 - 1, 127, 128]),
        ("c64[2]", [1 + 2j, 3 - 4j], "c64s", [1, 2, 3, -4]),
        ("c128[]", 1j, "c128s", [0, 1]),
        ("f32[2,2]{0,1}", [[1, 2], [3, 4]], "f32s", [1, 3, 2, 4]),
    ],
)
def test_payloads(text: str, value: Any, field: str, payload: Any) -> None:
    proto = literal_to_proto(Literal.from_numpy(value, parse_shape(text)))
    given = getattr(proto, field)
    assert (given if isinstance(given, bytes) else list(given)) == payload


def test_many_integers_are_written_as_protobuf_writes_them() -> None:
    values = np.random.default_rng(0).integers(-(2**63), 2**63, 40000, dtype=np.int64)
    values >>= np.arange(40000) % 64
    expected = xla_data_pb2.LiteralProto(s64s=values.tolist())
    proto = literal_to_proto(Literal.from_numpy(values))
    proto.ClearField("shape")
    assert proto.SerializeToString() == expected.SerializeToString()


@pytest.mark.parametrize(
    "element_type",
    # jaxlib has no way to write F6 constants, and JAX none to make the remaining ones.
    [each for each in ARRAY_TYPES if each.name not in ("F6E3M2FN", "F6E2M3FN", "S1", "U1")],
)
def test_constants_of_jaxlib_are_the_same_bytes(element_type: ElementType) -> None:
    jax = pytest.importorskip("jax")
    array = every_bit_pattern(element_type)[:, 1:4]
    wide = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        lowered = jax.jit(lambda: jax.numpy.asarray(array)).lower()
    finally:
        jax.config.update("jax_enable_x64", wide)
    module = hlo_pb2.HloModuleProto.FromString(
        lowered.compiler_ir("hlo").as_serialized_hlo_module_proto()
    )
    (theirs,) = (
        instruction.literal
        for computation in module.computations
        for instruction in computation.instructions
        if instruction.opcode == "constant"
    )
    assert literal_from_proto(theirs) == Literal.from_numpy(array)
    assert literal_to_proto(Literal.from_numpy(array)) == theirs


def test_padding_is_in_the_payload() -> None:
    layout = Layout((0, 1), padded_dimensions=(3, 5), padding_value=PaddingValue.ZERO_PAD)
    shape = Shape.array(ElementType.F32, (2, 3)).with_layout(layout)
    literal = Literal.from_numpy(np.arange(1, 7, dtype=np.float32).reshape(2, 3), shape)
    proto = literal_to_proto(literal)
    assert list(proto.f32s) == [1, 4, 0, 2, 5, 0, 3, 6, 0, 0, 0, 0, 0, 0, 0]
    proto.f32s[14] = 7
    assert literal_from_proto(proto) == literal
    del proto.f32s[6:]
    with pytest.raises(InvalidArgumentError, match="6 f32s for 15 elements"):
        literal_from_proto(proto)


def test_bits_above_a_narrow_type_are_not_part_of_it() -> None:
    literal = literal_from_proto(message("s4[2]{0}", s4s=b"\xff\xf7"))
    assert literal.value.astype(np.int32).tolist() == [-1, 7]
    assert literal == Literal.from_numpy([-1, 7], parse_shape("s4[2]"))


def test_tuples_repeat_the_shapes_of_their_elements() -> None:
    literal = Literal.from_numpy((np.float32(1), (np.int32(2), None), ()))
    proto = literal_to_proto(literal)
    assert proto.tuple_literals[1].shape == proto.shape.tuple_shapes[1]
    assert literal_from_proto(proto) == literal


def test_dynamic_sizes_are_kept() -> None:
    proto = message("f32[2,<=3]{1,0}", f32s=range(6), dynamic_sizes=[2, 1])
    literal = literal_from_proto(proto)
    assert literal.dynamic_sizes == (2, 1)
    assert literal_to_proto(literal) == proto
    with pytest.raises(InvalidArgumentError, match=r"^literal f32\[2,<=3\]\{1,0\}: dynamic_sizes"):
        literal_from_proto(message("f32[2,<=3]{1,0}", f32s=range(6), dynamic_sizes=[2, 9]))


@pytest.mark.parametrize(
    ("proto", "sentence"),
    [
        (xla_data_pb2.LiteralProto(f32s=[1]), "must have a shape"),
        (message("f32[1]", f32s=[1]), r"literal f32\[1\]: the shape must have a layout, got none"),
        (
            message("f32[2,3]{1,0}", f32s=range(5)),
            r"literal f32\[2,3\]\{1,0\}: payload must hold one value per element, "
            "got 5 f32s for 6 elements",
        ),
        (message("f32[1]{0}", f32s=[1, 2]), "got 2 f32s for 1 elements"),
        (message("f16[2]{0}", f16s=b"abc"), r"3 bytes of f16s \(2 an element\) for 2 elements"),
        (message("c64[1]{0}", c64s=[1]), r"1 c64s \(2 an element\) for 1 elements"),
        (message("f32[1]{0}", s32s=[1]), "payload must be in f32s, got s32s"),
        (message("f32[1]{0}", f32s=[1], u8s=b"a"), "payload must be in f32s, got u8s"),
        (message("f32[1]{0}", f32s=[1], sparse_indices=[0]), "dense"),
        (message("f32[?]{0}"), "bounded"),
        (message("opaque[]"), "array, tuple or token, got opaque"),
        (message("token[]", preds=[True]), "payload must be in no field, got preds"),
        (message("(f32[])"), r"one literal per element, got 0 for 1 elements"),
        (message("()", f32s=[1]), "payload must be in tuple_literals, got f32s"),
        (
            message("(f32[])", tuple_literals=[xla_data_pb2.LiteralProto()]),
            "repeat its shape, got none in element 0",
        ),
        (
            message("(f32[])", tuple_literals=[message("s32[]")]),
            r"got s32\[\] in element 0 declared as f32\[\]",
        ),
    ],
)
def test_wrong_messages_are_refused(proto: xla_data_pb2.LiteralProto, sentence: str) -> None:
    with pytest.raises(InvalidArgumentError, match=sentence):
        literal_from_proto(proto)


@pytest.mark.parametrize(
    "text", ["f32[1099511627776]{0}", "s4[1048576,1048576]{0,1}", "f32[9223372036854775807,0,1]"]
)
def test_a_claim_without_the_payload_costs_nothing(text: str) -> None:
    proto = xla_data_pb2.LiteralProto(f32s=[1])
    fields: Any = proto.shape
    kind, sizes = text.split("]")[0].split("[")
    fields.element_type = int(ElementType.from_text(kind))
    proto.shape.dimensions.extend(map(int, sizes.split(",")))
    proto.shape.layout.minor_to_major.extend(range(len(proto.shape.dimensions)))
    if kind != "f32":
        proto.ClearField("f32s")
    tracemalloc.start()
    with pytest.raises(InvalidArgumentError):
        literal_from_proto(proto)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_limit_of_bytes_says_itself_and_the_use() -> None:
    proto = message("f32[2,3]{1,0}", f32s=range(6))
    assert literal_from_proto(proto, max_bytes=24).value.size == 6
    with pytest.raises(ResourceExhaustedError, match="may take 23 bytes, got 24"):
        literal_from_proto(proto, max_bytes=23)
