"""Attributes drawn without regard for the rules: we refuse what XLA's shape inference refuses.

jaxlib infers the shape of HLO text that leaves it out. Instructions that it accepts must have the
same shape here.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from tests.building import scalars
from tests.conformance.sweep.draws import drawing
from tests.conformance.sweep.draws.depth import drawn
from tests.conformance.sweep.draws.index_maps import IndexMap, index_maps
from tests.conformance.sweep.indexing.test_indexing import gather_numbers, scatter_numbers
from tests.corpus.hlo_text import parse_hlo
from xla_client import ops
from xla_client.programs.computation import Computation
from xla_contract.errors import ShapeError
from xla_contract.ops.definition import NO_ATTRIBUTES
from xla_contract.ops.definitions import infer_shape
from xla_contract.ops.elementwise.map import MapAttributes
from xla_contract.ops.indexing.gather import GatherAttributes
from xla_contract.ops.indexing.scatter import ScatterAttributes
from xla_contract.ops.shaping.concatenate import ConcatenateAttributes
from xla_contract.ops.shaping.pad import PadAttributes
from xla_contract.ops.shaping.reverse import ReverseAttributes
from xla_contract.ops.shaping.transpose import TransposeAttributes
from xla_contract.types.dimension_numbers import PaddingConfig, PaddingDimension
from xla_contract.types.element_type import ElementType as E
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_contract.wire.shape_proto import shape_from_proto

Draw = st.DataObject

_ADD = """add { x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT sum = f32[] add(x, y) }"""
ADD = scalars(ops.add, E.F32, E.F32, name="add")
"""The computation that the text calls add."""


def xla_s_shape(opcode: Opcode, shapes: Sequence[Shape], attributes: str) -> Shape | None:
    """Return the shape that XLA infers, or None if it refuses."""
    lines = [f"p{number} = {shape} parameter({number})" for number, shape in enumerate(shapes)]
    names = ", ".join(f"p{number}" for number in range(len(shapes)))
    lines.append(f"ROOT result = {opcode}({names}){attributes}")
    body = "\n  ".join(lines)
    text = f"HloModule m\n{_ADD}\nENTRY entry {{ {body} }}\n"
    try:
        proto = parse_hlo(text)
    except RuntimeError as error:
        if "failed to infer shape" in str(error):
            return None
        raise
    (entry,) = [part for part in proto.computations if part.id == proto.entry_computation_id]
    (root,) = [part for part in entry.instructions if part.id == entry.root_id]
    return shape_from_proto(root.shape).without_layout()


def assert_ruled_alike(
    opcode: Opcode,
    shapes: Sequence[Shape],
    attributes: Any,
    text: str,
    called: Sequence[Computation] = (),
) -> None:
    """Both sides refuse, or both infer the same shape."""
    signatures = [computation.program_shape for computation in called]
    why = ""
    try:
        ours = infer_shape(opcode, shapes, attributes, signatures)
    except ShapeError as error:
        ours, why = None, str(error)
    assert ours == xla_s_shape(opcode, shapes, text), why


def braced(numbers: Sequence[int]) -> str:
    """A list as HLO text has it."""
    return "{" + ",".join(map(str, numbers)) + "}"


def numbers_near(rank: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Dimension numbers, often all of them, sometimes repeated, missing or out of range."""
    wild = st.lists(st.integers(-1, rank), max_size=rank + 1)
    return (st.permutations(range(rank)) | wild).map(tuple)


def a_shape(data: Draw, max_rank: int = 3) -> Shape:
    """A shape of f32, or now and then of s32."""
    element_type = data.draw(st.sampled_from([E.F32, E.F32, E.F32, E.S32]))
    return Shape.array(element_type, data.draw(drawing.dimensions(max_rank=max_rank, max_size=3)))


def altered(data: Draw, shape: Shape) -> Shape:
    """The shape, or one that differs in a size, its rank or its type."""
    sizes = data.draw(st.just(shape.dimensions) | changed(shape.dimensions))
    element_type = data.draw(st.sampled_from([shape.element_type] * 5 + [E.S32]))
    return Shape.array(element_type, [max(0, size) for size in sizes])


def changed(numbers: Sequence[int]) -> st.SearchStrategy[tuple[int, ...]]:
    """The numbers with one more, one less, one moved by one, or two exchanged."""

    def change(how: str, place: int, by: int) -> tuple[int, ...]:
        result = list(numbers)
        if how == "more" or not result:
            result.insert(place, max(by, 0))
        elif how == "less":
            del result[place % len(result)]
        elif how == "moved":
            result[place % len(result)] += by
        else:
            result.reverse()
        return tuple(result)

    ways = st.sampled_from(["more", "less", "moved", "reversed"])
    return st.builds(change, ways, st.integers(0, len(numbers)), st.sampled_from([-1, 1, 2]))


@drawn(20, 500)
@given(st.data())
def test_transpose_and_reverse(data: Draw) -> None:
    shape = a_shape(data)
    numbers = data.draw(numbers_near(shape.rank))
    text = f", dimensions={braced(numbers)}"
    assert_ruled_alike(Opcode.TRANSPOSE, [shape], TransposeAttributes(numbers), text)
    assert_ruled_alike(Opcode.REVERSE, [shape], ReverseAttributes(numbers), text)


@drawn(20, 500)
@given(st.data())
def test_concatenate(data: Draw) -> None:
    first = a_shape(data)
    shapes = [first, *(altered(data, first) for _ in range(data.draw(st.integers(0, 2))))]
    dimension = data.draw(st.integers(-1, first.rank))
    attributes = ConcatenateAttributes(dimension)
    assert_ruled_alike(Opcode.CONCATENATE, shapes, attributes, f", dimensions={{{dimension}}}")


@drawn(20, 500)
@given(st.data())
def test_pad(data: Draw) -> None:
    shape = a_shape(data)
    value = altered(data, Shape.scalar(shape.element_type))
    # A padding without dimensions has no text.
    rank = max(1, data.draw(st.just(shape.rank) | st.integers(1, 4)))
    amounts = st.builds(PaddingDimension, st.integers(-5, 3), st.integers(-5, 3), st.integers(0, 2))
    paddings = data.draw(st.lists(amounts, min_size=rank, max_size=rank))
    text = "x".join(f"{each.low}_{each.high}_{each.interior}" for each in paddings)
    attributes = PadAttributes(PaddingConfig(tuple(paddings)))
    assert_ruled_alike(Opcode.PAD, [shape, value], attributes, f", padding={text}")


@drawn(20, 500)
@given(st.data())
def test_select(data: Draw) -> None:
    shape = a_shape(data)
    predicate = altered(data, shape)
    if data.draw(st.integers(0, 5)):
        predicate = predicate.with_element_type(E.PRED)
    shapes = [predicate, shape, altered(data, shape)]
    assert_ruled_alike(Opcode.SELECT, shapes, NO_ATTRIBUTES, "")


@drawn(20, 500)
@given(st.data())
def test_map(data: Draw) -> None:
    shape = a_shape(data)
    shapes = [shape, *(altered(data, shape) for _ in range(data.draw(st.sampled_from([1, 1, 0]))))]
    # XLA infers a shape for a scalar beside an array, which nothing behind can run.
    assume(all(each.is_scalar == shape.is_scalar for each in shapes))
    numbers = data.draw(st.just(tuple(range(shape.rank))) | numbers_near(shape.rank))
    text = f", dimensions={braced(numbers)}, to_apply=add"
    assert_ruled_alike(Opcode.MAP, shapes, MapAttributes(numbers), text, [ADD])


def spoiled(data: Draw, mapping: IndexMap) -> IndexMap:
    """The map with some of its lists changed, mostly one."""
    fields = [field.name for field in dataclasses.fields(mapping)]
    for name in data.draw(st.lists(st.sampled_from(fields), max_size=2)):
        if name == "index_vector_dim":
            number = data.draw(st.integers(-1, len(mapping.indices_shape) + 1))
            mapping = dataclasses.replace(mapping, index_vector_dim=number)
            continue
        numbers = data.draw(changed(getattr(mapping, name)))
        if name in ("operand", "indices_shape", "windows"):
            numbers = tuple(max(0, size) for size in numbers)
        mapping = dataclasses.replace(mapping, **{name: numbers})
    # XLA's inference does not look at how batching dimensions pair up; StableHLO's, which is on
    # the way to it, does.
    assume(mapping.index_vector_dim not in mapping.indices_batching)
    # Nor whether they are dropped or indexed as well, which no gather or scatter can mean.
    assume(not {*mapping.dropped, *mapping.mapped} & set(mapping.batching))
    for mine, theirs in zip(mapping.batching, mapping.indices_batching, strict=False):
        if 0 <= mine < len(mapping.operand) and 0 <= theirs < len(mapping.indices_shape):
            assume(mapping.operand[mine] == mapping.indices_shape[theirs])
    return mapping


@drawn(30, 1500)
@given(st.data())
def test_gather(data: Draw) -> None:
    mapping = spoiled(data, data.draw(index_maps()))
    indices = data.draw(st.sampled_from([E.S32] * 5 + [E.U8, E.F32, E.PRED]))
    shapes = [Shape.array(E.F32, mapping.operand), Shape.array(indices, mapping.indices_shape)]
    attributes = GatherAttributes(gather_numbers(mapping), mapping.sizes)
    text = (
        f", offset_dims={braced(mapping.window_dims)}"
        f", collapsed_slice_dims={braced(mapping.dropped)}"
        f", start_index_map={braced(mapping.mapped)}"
        f", operand_batching_dims={braced(mapping.batching)}"
        f", start_indices_batching_dims={braced(mapping.indices_batching)}"
        f", index_vector_dim={mapping.index_vector_dim}"
        f", slice_sizes={braced(mapping.sizes)}"
    )
    assert_ruled_alike(Opcode.GATHER, shapes, attributes, text)


@drawn(30, 1500)
@given(st.data())
def test_scatter(data: Draw) -> None:
    mapping = spoiled(data, data.draw(index_maps(scatters=True)))
    indices = data.draw(st.sampled_from([E.S32] * 5 + [E.U8, E.F32, E.PRED]))
    updates = data.draw(st.sampled_from([E.F32] * 5 + [E.S32]))
    shapes = [
        Shape.array(E.F32, mapping.operand),
        Shape.array(indices, mapping.indices_shape),
        Shape.array(updates, mapping.windows),
    ]
    attributes = ScatterAttributes(scatter_numbers(mapping))
    text = (
        f", update_window_dims={braced(mapping.window_dims)}"
        f", inserted_window_dims={braced(mapping.dropped)}"
        f", scatter_dims_to_operand_dims={braced(mapping.mapped)}"
        f", input_batching_dims={braced(mapping.batching)}"
        f", scatter_indices_batching_dims={braced(mapping.indices_batching)}"
        f", index_vector_dim={mapping.index_vector_dim}, to_apply=add"
    )
    assert_ruled_alike(Opcode.SCATTER, shapes, attributes, text, [ADD])
