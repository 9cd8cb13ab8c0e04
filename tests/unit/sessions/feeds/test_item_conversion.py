"""Values that queues of feeds take and give."""

import numpy as np
import pytest

from xla_contract.errors import InvalidArgumentError, UnimplementedError, XlaError
from xla_contract.types.shape import Shape
from xla_server.sessions.feeds.item_conversion import MAX_ITEM_BYTES, infeed_arrays, outfeed_arrays

VECTOR, NUMBER = Shape.parse("f32[4]"), Shape.parse("s32[]")


def test_a_value_is_its_arrays() -> None:
    columns = "f32[2,3]{0,1}"
    assert infeed_arrays(Shape.parse(columns)) == (Shape.parse("f32[2,3]"),)
    assert infeed_arrays(Shape.parse("(f32[4]{0}, s32[])")) == (VECTOR, NUMBER)
    # The requested shape of outfeed has the layout of the result.
    assert outfeed_arrays(Shape.parse(columns)) == (Shape.parse(columns),)
    assert outfeed_arrays(Shape.parse("(f32[4], s32[])")) == tuple(
        each.with_default_layout() for each in (VECTOR, NUMBER)
    )


@pytest.mark.parametrize(
    ("shape", "error", "rule"),
    [
        ("((f32[4]), s32[])", UnimplementedError, r"takes tuples without tuples .*got \(\(f32"),
        ("token[]", InvalidArgumentError, "takes arrays and tuples of arrays, got token"),
        ("(f32[4], token[])", InvalidArgumentError, r"takes arrays .*got \(f32\[4\].*token"),
        ("()", InvalidArgumentError, "at least one array, got an empty tuple"),
    ],
)
def test_other_values_are_refused(shape: str, error: type[XlaError], rule: str) -> None:
    for queue, arrays in (("infeed", infeed_arrays), ("outfeed", outfeed_arrays)):
        with pytest.raises(error, match=f"^{queue} .*{rule}"):
            arrays(Shape.parse(shape))


def test_an_array_of_infeed_has_bytes_and_not_too_many() -> None:
    assert np.iinfo(np.int32).max == MAX_ITEM_BYTES
    infeed_arrays(Shape.parse(f"u8[{MAX_ITEM_BYTES}]"))
    for shape, size in (
        ("f32[0]", "0"),
        ("(s32[], f32[4,0])", "0"),
        (f"u8[{MAX_ITEM_BYTES + 1}]", str(MAX_ITEM_BYTES + 1)),
        ("u8[?]", "-9223372036854775808"),
    ):
        with pytest.raises(
            InvalidArgumentError, match=f"between 1 and {MAX_ITEM_BYTES} bytes, got {size} for "
        ):
            infeed_arrays(Shape.parse(shape))
