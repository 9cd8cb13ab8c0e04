"""A connection, against servers in this process: with all there is, and with XLA's rpcs alone."""

import numpy as np
import pytest

import xla_client as xc
from tests.unit.client.conftest import DEVICES
from tests.unit.client.small_programs import ONES, VECTOR, add, double, identity, pair
from xla_client import device
from xla_client.session import contents
from xla_contract.errors import (
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    UnimplementedError,
)
from xla_contract.types.layout import Layout
from xla_contract.types.shape import Shape

MATRIX = np.arange(6, dtype=np.int32).reshape(2, 3)


def constant() -> xc.Computation:
    builder = xc.Builder("constant")
    return builder.build(builder.constant(MATRIX))


def test_who_it_is_connected_to(client: xc.Client) -> None:
    assert repr(client) == f"Client('{client.target}')"
    with client as same:
        assert same is client
    with pytest.raises(UnavailableError, match="closed"):
        client.to_device(ONES)


def test_a_session_is_gone_on_with_by_its_token(client: xc.Client) -> None:
    buffer = client.to_device(ONES)
    with xc.connect(client.target, session=client.session_token) as same:
        assert same.session_token == client.session_token
        np.testing.assert_array_equal(same.adopt(buffer.handle).to_numpy(), ONES)
        same.detach()
    with xc.connect(client.target) as other, pytest.raises(NotFoundError):
        other.adopt(buffer.handle)


def test_a_token_is_one(target: str) -> None:
    with pytest.raises(InvalidArgumentError, match="token of a session, got an empty") as caught:
        xc.connect(target, session="")
    assert "None opens a new one" in caught.value.hint
    with pytest.raises(InvalidArgumentError, match="token"):
        xc.connect(target, session="no token")
    with pytest.raises(NotFoundError):
        xc.connect(target, session="A" * 43)


def test_a_server_of_connections_has_no_tokens(plain_client: xc.Client) -> None:
    buffer = plain_client.to_device(ONES)
    for use in (lambda: plain_client.session_token, plain_client.detach):
        with pytest.raises(UnimplementedError, match="must have sessions with tokens"):
            use()
    # Nothing was done.
    np.testing.assert_array_equal(buffer.to_numpy(), ONES)
    with pytest.raises(UnimplementedError):
        plain_client.describe()


def test_programs_run_together_each_on_its_device(either: xc.Client) -> None:
    launches = [xc.Launch(add(), (number * ONES, ONES), number) for number in range(DEVICES)]
    launches[1] = xc.Launch(pair(), (ONES,), 1)
    first, both, last = either.execute_parallel(launches)
    np.testing.assert_array_equal(first.to_numpy(), ONES)  # type: ignore[union-attr]
    np.testing.assert_array_equal([each.to_numpy() for each in both], (ONES, 2 * ONES))  # type: ignore[union-attr]
    np.testing.assert_array_equal(last.to_numpy(), 3 * ONES)  # type: ignore[union-attr]
    one = either.execute(double(), ONES, device=2)
    np.testing.assert_array_equal(one.to_numpy(), 2 * ONES)  # type: ignore[union-attr]
    with pytest.raises(InvalidArgumentError, match="must be at least one request, got none"):
        either.execute_parallel([])
    with pytest.raises(InvalidArgumentError, match=r"^argument 0: "):
        either.execute(double(), np.zeros(5, np.float32))
    with pytest.raises((InvalidArgumentError, InternalError), match=f"below {DEVICES}, got 7"):
        either.execute(double(), ONES, device=7)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 8, 9, 100])
def test_devices_are_counted(count: int) -> None:
    requested: list[int] = []

    def has(number: int) -> bool:
        requested.append(number)
        return number <= count

    assert contents.count_devices(has) == count
    # By halving.
    assert len(requested) <= 2 * count.bit_length() + 1


def test_devices_are_those_of_the_server(either: xc.Client) -> None:
    assert [each.ordinal for each in either.devices()] == list(range(DEVICES))
    assert either.devices() is either.devices()
    assert repr(either.device(2)) == "Device(2)"


def test_a_session_states_how_many_devices_there_are(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with xc.connect(target) as made:
        monkeypatch.setattr(device, "count_devices", None)  # Calls fail.
        assert len(made.devices()) == DEVICES


def test_counting_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contents, "MAX_DEVICES", 16)
    assert contents.count_devices(lambda number: True) in range(16, 32)


def test_handles_got_by_other_means_are_adopted(client: xc.Client) -> None:
    run, buffer = client.compile(double()), client.to_device(ONES)
    same = client.adopt_executable(run.handle)
    assert (same.name, same.program_shape) == ("double", run.program_shape)
    np.testing.assert_array_equal(same.run(client.adopt(buffer.handle)), 2 * ONES)
    launched = run.submit(ONES)
    for handle, kind in ((buffer.handle, "value"), (launched.handle, "execution")):
        with pytest.raises(
            InvalidArgumentError, match=f"handle of an executable is needed, got that of a {kind}$"
        ):
            client.adopt_executable(handle)
    with pytest.raises(InvalidArgumentError, match=r"of an execution is needed, got .*executable$"):
        client.adopt_execution(run.handle)
    for adopt in (client.adopt, client.adopt_executable, client.adopt_execution):
        with pytest.raises(NotFoundError, match="12345"):
            adopt(12345)
    run.delete()
    with pytest.raises(InvalidArgumentError, match="unregistered"):
        client.adopt_executable(same.handle)


def test_tuples_are_unpacked(either: xc.Client) -> None:
    whole = either.to_device((ONES, MATRIX))
    first, second = either.unpack(whole)
    assert [each.shape for each in (first, second)] == list(whole.shape.tuple_shapes)
    np.testing.assert_array_equal(second.to_numpy(), MATRIX)
    with pytest.raises(InvalidArgumentError, match="must be a tuple"):
        either.unpack(first)


def test_constants_are_computed(either: xc.Client) -> None:
    for layout in (None, Layout((0, 1))):
        np.testing.assert_array_equal(either.compute_constant(constant(), layout), MATRIX)
    with pytest.raises(InvalidArgumentError, match="a constant program has no parameters, got 1"):
        either.compute_constant(double())
    with pytest.raises(InvalidArgumentError, match="output_layout must fit"):
        either.compute_constant(constant(), Layout((0,)))


def test_work_is_estimated(either: xc.Client) -> None:
    stats = either.graph_stats(add())
    assert (stats.flop_count, stats.transcendental_count) == (4, 0)


@pytest.mark.parametrize("type_", [0, 4])
def test_channels_have_a_type(either: xc.Client, type_: int) -> None:
    made = [either.create_channel_handle(each) for each in (1, 2, 3)]
    assert [each.type for each in made] == [1, 2, 3]
    assert len({each.handle for each in made}) == 3
    with pytest.raises(InvalidArgumentError, match=str(type_)):
        either.create_channel_handle(type_)


def test_feeds_are_emptied(client: xc.Client) -> None:
    device = client.device(1)
    device.to_infeed(ONES)
    assert device.feeds().infeed.items == 1
    client.reset_device()
    assert device.feeds().infeed.items == 0


def test_programs_are_compiled_for_layouts(either: xc.Client) -> None:
    columns = Layout((0, 1))
    run = either.compile(
        identity("s32[2,3]"), argument_layouts=[columns], result_layout=columns, seed=3
    )
    assert run.program_shape.result == Shape.parse("s32[2,3]{0,1}")
    np.testing.assert_array_equal(run.run(MATRIX), MATRIX)
    assert either.adopt(run(MATRIX).handle).shape == Shape.parse("s32[2,3]{0,1}")  # type: ignore[union-attr]
    row_major = either.to_device(MATRIX)
    np.testing.assert_array_equal(run.run(row_major), MATRIX)
    program = run.program_shape.parameters[0], identity("s32[2,3]").result
    assert program == (Shape.parse("s32[2,3]{0,1}"), Shape.parse("s32[2,3]{1,0}"))


def test_a_literal_keeps_its_layout(either: xc.Client) -> None:
    columns = Shape.parse("s32[2,3]{0,1}")
    buffer = either.to_device(xc.Literal.from_numpy(MATRIX, columns), device=1)
    assert buffer.shape == columns
    assert either.adopt(buffer.handle).shape == columns
    assert either.to_device([1.5, 2]).shape.element_type == xc.ElementType.F32
    assert VECTOR.compatible(either.to_device(ONES).shape)
