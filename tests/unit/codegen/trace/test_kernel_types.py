"""Storage and computation of element types: a row for each, with functions that kernels have."""

import pytest

from tests.processors import HOST
from xla_contract.types.element_type import ElementType
from xla_server.codegen.kernel_ir.types import Type
from xla_server.codegen.namespace import vocabulary
from xla_server.codegen.trace.kernel_types import KERNEL_TYPE

ARRAYS = [kind for kind in ElementType if kind in KERNEL_TYPE]


def test_every_type_of_numbers_has_a_row() -> None:
    numbers = {k for k in ElementType if k.is_floating or k.is_integer or k.is_complex}
    assert set(ARRAYS) == numbers | {ElementType.PRED}


@pytest.mark.parametrize("kind", ARRAYS, ids=str)
def test_what_is_stored_has_the_bytes_of_the_type(kind: ElementType) -> None:
    found = KERNEL_TYPE[kind]
    assert Type(found.storage).byte_size == kind.byte_width
    assert Type(found.computed).byte_size >= kind.byte_width


@pytest.mark.parametrize("kind", ARRAYS, ids=str)
def test_conversions_are_functions_of_kernels(kind: ElementType) -> None:
    found = KERNEL_TYPE[kind]
    functions = [found.widen, found.narrow, found.rounded]
    assert found.is_exact == (functions == [None] * 3)
    is_native = kind is ElementType.PRED or kind.is_complex or kind.bit_width >= 32
    assert found.is_exact == (is_native or (kind.is_integer and kind.bit_width >= 8))
    names = vocabulary(HOST).names
    assert all(name in names for name in functions if name is not None)
