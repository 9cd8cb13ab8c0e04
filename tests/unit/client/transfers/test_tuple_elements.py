"""Large tuples, element by element: what comes back is what went, in any layout."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import xla_client as xc
from xla_client.session import session as _session
from xla_client.transfers import chunked as transfers
from xla_client.transfers import tuple_elements
from xla_client.transfers.tuple_elements import is_assembled, is_split
from xla_contract.errors import InvalidArgumentError, ResourceExhaustedError
from xla_contract.types.element_type import ElementType
from xla_contract.types.layout import Layout
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape

PARTS = (np.arange(6, dtype=np.int32).reshape(2, 3), np.float32([1, 2]), np.bool_(True))


@pytest.fixture(autouse=True)
def _every_tuple_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuple_elements, "LEAST_BYTES", 1)


@pytest.fixture
def chunked(target: str) -> Iterator[xc.Client]:
    with xc.connect(target, shared_memory=False) as connected:
        yield connected


@pytest.mark.parametrize(
    ("shape", "goes", "comes"),
    [
        ("(f32[4], s32[])", True, True),
        ("((f32[4]), s32[])", True, False),
        ("(f32[<=4], s32[])", False, True),
        ("(f32[4], token[])", False, False),
        ("f32[4]", False, False),
        ("()", False, False),
    ],
)
def test_which_tuples_go_by_their_elements(shape: str, goes: bool, comes: bool) -> None:
    parsed = Shape.parse(shape)
    assert (is_assembled(parsed), is_split(parsed)) == (goes, comes)


def test_small_ones_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = Shape.parse("(f32[4], s32[])")
    for least, is_large in ((20, True), (21, False)):
        monkeypatch.setattr(tuple_elements, "LEAST_BYTES", least)
        assert (is_assembled(shape), is_split(shape)) == (is_large, is_large)


TYPES = [ElementType.F32, ElementType.PRED, ElementType.S4, ElementType.C64, ElementType.BF16]


@st.composite
def arrays(draw: st.DrawFn) -> Literal:
    dimensions = draw(st.lists(st.integers(0, 4), max_size=3))
    order = draw(st.permutations(range(len(dimensions))))
    shape = Shape.array(draw(st.sampled_from(TYPES)), dimensions).with_layout(Layout(tuple(order)))
    values = np.arange(np.prod(dimensions, dtype=int)).reshape(dimensions) % 2
    return Literal.from_numpy(values.astype(shape.element_type.dtype), shape)


def tuples(depth: int) -> st.SearchStrategy[Literal]:
    elements = arrays() if not depth else arrays() | tuples(depth - 1)
    return st.lists(elements, min_size=1, max_size=3).map(Literal.tuple_of)


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(tuples(1))
def test_a_tuple_comes_back_as_it_went(chunked: xc.Client, literal: Literal) -> None:
    session, shape = chunked._session, literal.shape
    reported: list[tuple[int, int]] = []
    handle = session.upload(literal, 1, None, lambda *now: reported.append(now))
    assert session.download(handle, shape, None, lambda *now: reported.append(now)).equal(literal)
    if shape.byte_size:
        # The parts are reported as parts of the whole, and never less than before.
        assert {whole for _, whole in reported} == {shape.byte_size}
        assert reported[-1] == (shape.byte_size, shape.byte_size)
        there = reported[: reported.index((shape.byte_size, shape.byte_size)) + 1]
        assert there == sorted(there)
    (value,) = chunked.describe().values
    # In the layouts it came in, and nothing beside it stays.
    assert (value.handle, value.shape) == (handle, shape)
    session.delete(handle)


def test_the_layouts_of_a_download_are_those_asked_for(chunked: xc.Client) -> None:
    buffer = chunked.to_device(PARTS)
    wanted = Shape.parse("(s32[2,3]{0,1}, f32[2]{0}, pred[])").with_default_layout()
    literal = chunked._session.download(buffer.handle, wanted)
    assert literal.shape == wanted
    np.testing.assert_array_equal(literal.elements[0].to_numpy(), PARTS[0])


def test_elements_go_in_chunks(chunked: xc.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfers, "THRESHOLD", 1)
    names: list[str] = []
    transport = chunked._session.transport
    stream = transport.stream

    def telling(name: str, *arguments: Any, **named: Any) -> Any:
        names.append(name)
        return stream(name, *arguments, **named)

    monkeypatch.setattr(transport, "stream", telling)
    buffer = chunked.to_device(PARTS)
    assert names == ["Upload"] * 3
    fetched = buffer.to_literal()
    assert names == ["Upload"] * 3 + ["Download"] * 3
    assert fetched.equal(Literal.from_numpy(PARTS))


def test_a_device_that_is_not_there_leaves_nothing(chunked: xc.Client) -> None:
    with pytest.raises(InvalidArgumentError, match="below 3, got 7"):
        chunked.to_device(PARTS, device=7)
    assert chunked.describe().values == ()


def test_what_fails_half_way_leaves_nothing(chunked: xc.Client) -> None:
    too_large = Literal.tuple_of(
        [Literal.from_numpy(np.float32(1)), Literal.from_numpy(np.zeros(65 << 20, np.uint8))]
    )
    with pytest.raises(ResourceExhaustedError, match=str(64 << 20)):
        chunked._session.upload(too_large, 0)
    described = chunked.describe()
    assert (described.values, described.use.device_bytes) == ((), 0)
    buffer = chunked.to_device(PARTS)
    wrong = Shape.parse("(s32[2,3]{1,0}, f32[3]{0}, pred[])").with_default_layout()
    with pytest.raises(InvalidArgumentError, match=r"compatible .*got f32\[3\]\{0\} for f32\[2\]"):
        chunked._session.download(buffer.handle, wrong)
    assert [each.handle for each in chunked.describe().values] == [buffer.handle]


def test_a_server_without_chunks_gets_tuples_whole(plain_client: xc.Client) -> None:
    buffer = plain_client.to_device(PARTS)
    assert plain_client._session.chunks is None
    assert buffer.to_literal().equal(Literal.from_numpy(PARTS))
    assert _session.is_assembled(buffer.shape)
