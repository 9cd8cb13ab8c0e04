"""Keys of comparators: those that order by one, and what it is."""

from collections.abc import Callable

import pytest

from tests.conformance.examples import scalar_function
from tests.unit.codegen.trace.traced import expression
from xla_client import Op, ops
from xla_contract.types.element_type import ElementType
from xla_server.codegen.lower.indexing.sort_keys import Key, element_key, key_of
from xla_server.ir.importer import import_module


def _key(comparator: Callable[..., Op], *types: str) -> Key | None:
    """Return the key of a comparator of operands of these types."""
    built = scalar_function(comparator, *(kind for kind in types for _ in range(2)))
    return key_of(import_module(built.proto).entry, [ElementType.from_text(t) for t in types])


@pytest.mark.parametrize(
    ("kind", "size", "expected"),
    [
        ("s32", 4, "to_i64(a)"),
        ("u8", 1, "sub(to_i64(a), 128)"),
        ("u64", 8, "bit_xor(bits_i64(a), -9223372036854775808)"),
        ("f32", 4, "to_i64(total_order_f32(select(eq(a, 0.0), 0.0, a)))"),
    ],
)
def test_numbers_are_ordered_as_signed_ones(kind: str, size: int, expected: str) -> None:
    for up, comparator in ((True, ops.lt), (False, ops.gt)):
        key = _key(lambda a, b, compare=comparator: compare(a, b), kind)
        assert key is not None
        assert (key.bytes, list(key.elements)) == (size, [0])
        assert _text(key) == (expected if up else f"bit_not({expected})")


def test_the_other_direction_is_seen_in_swapped_operands() -> None:
    key = _key(lambda a, b: ops.lt(b, a), "s32")
    assert key is not None
    assert _text(key) == "bit_not(to_i64(a))"


def test_a_key_may_be_computed_of_some_operands() -> None:
    key = _key(lambda a, b, c, d: ops.lt(ops.neg(c), ops.neg(d)), "f32", "s32")
    assert key is not None
    assert list(key.elements) == [1]
    assert _text(key) == "to_i64(neg(a))"


@pytest.mark.parametrize(
    "comparator",
    [
        lambda a, b: ops.le(a, b),
        lambda a, b: ops.lt(a, ops.neg(b)),
        lambda a, b: ops.lt(a, a),
        lambda a, b: ops.lt(ops.abs(a), ops.neg(b)),
        lambda a, b: ops.or_(ops.lt(a, b), ops.eq(a, b)),
    ],
)
def test_others_have_none(comparator: Callable[..., Op]) -> None:
    assert _key(comparator, "s32") is None


def test_an_element_orders_floats_totally() -> None:
    assert _text(element_key(ElementType.F32, ascending=True)) == "to_i64(total_order_f32(a))"
    assert _text(element_key(ElementType.S8, ascending=False)) == "bit_not(to_i64(a))"


def _text(key: Key) -> str:
    return expression(key.node)
