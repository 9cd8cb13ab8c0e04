import pytest

from tests.corpus.hlo_text import parse_hlo
from xla_contract.errors import InvalidArgumentError
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule
from xla_server.ir.verification.verifier import verify

TUPLES = """
HloModule tuples
ENTRY main { x = (f32[4], (s32[2], u8[])) parameter(0)
  y = f32[4] parameter(1)
  inner = (s32[2], u8[]) get-tuple-element(x), index=1
  ROOT both = (f32[4], (s32[2], u8[])) tuple(y, inner) }
"""


def with_alias(number: int, index: list[int], output: list[int]) -> HloModule:
    proto = parse_hlo(TUPLES)
    proto.input_output_alias.entries.add(
        parameter_number=number, parameter_shape_index=index, output_shape_index=output
    )
    return import_module(proto)


@pytest.mark.parametrize(
    ("number", "index", "output"), [(0, [1, 1], [1, 1]), (1, [], [0]), (0, [], [])]
)
def test_what_exists_may_be_aliased(number: int, index: list[int], output: list[int]) -> None:
    verify(with_alias(number, index, output))


@pytest.mark.parametrize(
    ("number", "index", "output", "words"),
    [
        (2, [], [0], r"a parameter of the program, got 2 in .* \{0\}: \(2, \{\}\) for 2 param"),
        (-1, [], [0], "got -1"),
        (0, [2], [0], r"a part of the parameter, got \{2\} in .* of shape \(f32\[4\], \(s32"),
        (0, [0, 0], [0], r"got \{0,0\}"),
        (0, [-1], [0], r"got \{-1\}"),
        (1, [], [1, 2], r"a part of the result, got \{1,2\} in .* for a result \(f32\[4\], "),
        (1, [], [0, 0], r"got \{0,0\}"),
        (1, [], [-1], r"got \{-1\}"),
    ],
)
def test_what_does_not_exist_is_named(
    number: int, index: list[int], output: list[int], words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"^input_output_alias must name .*{words}"):
        verify(with_alias(number, index, output))


def with_part(field: str, number: int, index: list[int]) -> HloModule:
    """Return the module with a donor or a prefetch of a part of a parameter."""
    proto = parse_hlo(TUPLES)
    if field == "buffer_donor":
        proto.buffer_donor.entries.add(parameter_number=number, parameter_shape_index=index)
    else:
        proto.cross_program_prefetches.add(parameter=number, index=index, offset=8)
    return import_module(proto)


of_parts = pytest.mark.parametrize("field", ["buffer_donor", "cross_program_prefetches"])


@of_parts
@pytest.mark.parametrize(("number", "index"), [(2, []), (-1, []), (0, [1, 2]), (1, [0])])
def test_a_part_that_does_not_exist_is_named(field: str, number: int, index: list[int]) -> None:
    with pytest.raises(InvalidArgumentError, match=rf"^{field} must name a pa"):
        verify(with_part(field, number, index))


@of_parts
def test_a_part_that_exists_is_accepted(field: str) -> None:
    verify(with_part(field, 0, [1, 0]))
