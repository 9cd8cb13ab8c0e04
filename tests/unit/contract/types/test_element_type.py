from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xla_contract.errors import ArgumentTypeError, InvalidArgumentError
from xla_contract.stubs import xla_data_pb2
from xla_contract.types.element_type import ElementType

ARRAY_TYPES = [element_type for element_type in ElementType if element_type.is_array]


def test_numbers_are_those_of_the_wire() -> None:
    wire = dict(xla_data_pb2.PrimitiveType.items())
    wire["INVALID"] = wire.pop("PRIMITIVE_TYPE_INVALID")
    assert {element_type.name: int(element_type) for element_type in ElementType} == wire


def test_names_in_text_are_distinct_and_read_back() -> None:
    assert [ElementType.from_text(each.text) for each in ElementType] == list(ElementType)
    assert ElementType.OPAQUE_TYPE.text == "opaque"
    assert ElementType.F8E4M3B11FNUZ.text == "f8e4m3b11fnuz"
    with pytest.raises(InvalidArgumentError, match="'f33'"):
        ElementType.from_text("f33")


@pytest.mark.parametrize("element_type", ARRAY_TYPES)
def test_every_array_type_has_its_own_dtype(element_type: ElementType) -> None:
    assert ElementType.from_dtype(element_type.dtype) is element_type
    assert element_type.byte_width == element_type.dtype.itemsize


def test_types_without_elements_have_no_dtype() -> None:
    for element_type in set(ElementType) - set(ARRAY_TYPES):
        with pytest.raises(InvalidArgumentError, match=element_type.text):
            _ = element_type.dtype


def test_byte_order_does_not_change_the_type_and_foreign_dtypes_have_none() -> None:
    assert ElementType.from_dtype(np.dtype(">f4")) is ElementType.F32
    assert ElementType.from_dtype(ml_dtypes.bfloat16) is ElementType.BF16
    with pytest.raises(InvalidArgumentError, match="object"):
        ElementType.from_dtype(np.dtype(object))


def test_widths_agree_with_what_numpy_says() -> None:
    limits: Any = ml_dtypes
    for element_type in ARRAY_TYPES:
        if element_type.is_integer:
            assert element_type.bit_width == limits.iinfo(element_type.dtype).bits
        elif element_type.is_floating:
            assert element_type.bit_width == limits.finfo(element_type.dtype).bits


def test_kinds_split_the_array_types() -> None:
    for element_type in ARRAY_TYPES:
        kinds = [
            element_type is ElementType.PRED,
            element_type.is_signed_integer,
            element_type.is_unsigned_integer,
            element_type.is_floating,
            element_type.is_complex,
        ]
        assert kinds.count(True) == 1, element_type


def test_complex_types_and_their_components() -> None:
    for component, whole in ((ElementType.F32, "c64"), (ElementType.F64, "c128")):
        assert component.complex_of.text == whole
        assert component.complex_of.real_component is component
    assert ElementType.S32.real_component is ElementType.S32
    with pytest.raises(InvalidArgumentError, match="f16"):
        _ = ElementType.F16.complex_of


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (ElementType.F32, "f32"),
        ("f32", "f32"),
        ("F32", "f32"),
        ("float32", "f32"),
        ("bfloat16", "bf16"),
        ("bool", "pred"),
        ("int4", "s4"),
        ("token", "token"),
        (np.float32, "f32"),
        (np.bool_, "pred"),
        (np.dtype("<i8"), "s64"),
        (ml_dtypes.bfloat16, "bf16"),
        (ml_dtypes.float8_e5m2, "f8e5m2"),
        (np.dtype(ml_dtypes.int4), "s4"),
        # Python's types mean what literals of them become.
        (bool, "pred"),
        (int, "s32"),
        (float, "f32"),
        (complex, "c64"),
    ],
)
def test_what_people_write_for_a_type(written: Any, text: str) -> None:
    assert ElementType.of(written).text == text


@pytest.mark.parametrize("element_type", [each for each in ElementType if each.is_array], ids=str)
def test_each_type_has_its_names_and_numpy_types(element_type: ElementType) -> None:
    dtype = element_type.dtype
    for written in (element_type.text, dtype.name, dtype, dtype.type):
        assert ElementType.of(written) is element_type


@pytest.mark.parametrize(
    ("written", "error", "sentence"),
    [
        ("i32", InvalidArgumentError, "got 'i32'; near it are int32"),
        ("float", InvalidArgumentError, "got 'float'; near it are float"),
        ("", InvalidArgumentError, "must have one of XLA's or numpy's names, got ''"),
        ("invalid", InvalidArgumentError, "names, got 'invalid'"),
        (np.dtype("U3"), InvalidArgumentError, "no XLA element type stores numpy's <U3"),
        (np.str_, InvalidArgumentError, "no XLA element type stores numpy's str_"),
        (np.generic, InvalidArgumentError, "no XLA element type stores numpy's generic"),
        (11, ArgumentTypeError, r"an element type must be .*, got 11 \(int\)"),
        (None, ArgumentTypeError, r"got None \(NoneType\)"),
        (np.float32(1), ArgumentTypeError, r"\(float32\)"),
        (np.zeros(2), ArgumentTypeError, r"\(ndarray\)"),
        (str, ArgumentTypeError, "got <class 'str'>"),
    ],
)
def test_what_is_no_type(written: Any, error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=sentence):
        ElementType.of(written)
