"""Objects of a client have readable texts, and Buffers the attributes of arrays."""

import copy
import pickle
import re
from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.unit.client.small_programs import ONES, VECTOR, broadcast, double, endless, pair
from xla_client import Builder
from xla_client.display import graphs, tables
from xla_client.feeds.state import FeedState, FeedStates, FeedWaiter


def test_a_buffer_tells_what_an_array_does(client: xc.Client) -> None:
    array = np.arange(6, dtype=np.int16).reshape(2, 3)
    buffer = client.to_device(array)
    assert (buffer.dtype, buffer.ndim, buffer.size, buffer.nbytes, len(buffer)) == (
        array.dtype,
        2,
        6,
        12,
        2,
    )
    np.testing.assert_array_equal(buffer[1], array[1])
    assert buffer[0, 2] == 2
    np.testing.assert_array_equal(list(buffer), array)
    assert buffer.item(5) == 5
    with pytest.raises(ValueError, match="truth value of an array"):
        bool(buffer)
    scalar = client.to_device(np.int32(3))
    assert (float(scalar), int(scalar), complex(scalar), bool(scalar)) == (3.0, 3, 3 + 0j, True)
    assert scalar.item() == 3
    assert (f"{scalar:04d}", f"{scalar}") == ("0003", "Buffer(s32[])")
    assert buffer.tolist() == array.tolist()
    with pytest.raises(AttributeError, match=r"no attribute 'sum'; buffer\.to_numpy\(\)\.sum"):
        buffer.sum()
    with pytest.raises(AttributeError, match=r"'block_until_ready'; its value is there when "):
        buffer.block_until_ready()
    with pytest.raises(AttributeError, match=r"no attribute 'nothing'$"):
        _ = buffer.nothing
    assert [10, 20, 30, 40][scalar] == 40
    with pytest.raises(TypeError, match=r"a scalar has no length, got s32\[\]"):
        len(scalar)


def test_a_buffer_of_a_tuple_has_buffers(client: xc.Client) -> None:
    buffer = client.to_device((ONES, np.int32(7)))
    first, second = buffer
    assert (len(buffer), buffer.nbytes) == (2, 20)
    np.testing.assert_array_equal(first.to_numpy(), ONES)
    assert int(second) == int(buffer[1]) == 7
    for name in ("dtype", "ndim", "size"):
        with pytest.raises(TypeError, match="only an array has"):
            getattr(buffer, name)


def test_what_is_on_the_server_is_not_pickled(client: xc.Client) -> None:
    run = client.compile(double())
    for thing, advice in (
        (client, "Client.session_token"),
        (client.to_device(ONES), "pickle to_numpy"),
        (run, "pickle Computation.to_bytes"),
        (run.submit(ONES), "Client.adopt_execution"),
    ):
        for act in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match=advice):
                act(thing)


def test_there_is_a_version() -> None:
    assert re.fullmatch(r"\d+\.\d+.*", xc.__version__)


def test_everything_says_what_it_is(client: xc.Client) -> None:
    run, buffer = client.compile(double()), client.to_device(ONES)
    execution = run.submit(ONES)
    execution.result()
    failing = client.compile(endless()).submit(ONES)
    assert repr(failing) == "Execution(not known to have ended)"
    failing.cancel()
    with pytest.raises(xc.CancelledError):
        failing.result()
    assert repr(failing).startswith("Execution(failed: ")
    device = client.device()
    into, out = device.infeed(VECTOR), device.outfeed(count=3)
    into.put(ONES)
    into.flush()
    texts = {
        repr(execution): "Execution(done)",
        repr(run): "Executable('double', (p0: f32[4]{0}) -> f32[4]{0})",
        repr(buffer): "Buffer(f32[4]{0})",
        repr(into): "Infeed(device 0, f32[4]{0}, connected)",
        repr(client): f"Client('{client.target}')",
    }
    for found, expected in texts.items():
        assert found == expected
    assert repr(out).startswith("Outfeed(device 0, 3 to come, connect")
    feeds = device.feeds()
    assert repr(feeds).startswith("FeedStates(infeed: 1 of 4 arrays; 16 B of 256 MiB; first f32[4]")
    described = client.describe()
    assert re.fullmatch(
        r"SessionDescription\(\d values, \d+ B of 64 MiB on the devices; 2 executables; "
        r"0 executions, 0 running\)",
        repr(described),
    )
    html = [each._repr_html_() for each in (run, buffer, execution, feeds, described)]
    for text, expected in zip(
        html, ("Executable double", "16 B", "done", "1 of 4", "f32[4]"), strict=True
    ):
        assert expected in text
        assert text.count("<table") == text.count("</table>") == 1
    into.close()
    out.close()
    assert repr(into) == "Infeed(device 0, f32[4]{0}, closed)"
    assert repr(out) == "Outfeed(device 0, 3 to come, closed)"
    buffer.delete()
    assert repr(buffer) == "Buffer(f32[4]{0}, deleted)"
    assert "deleted" in buffer._repr_html_()


def test_who_waits_for_a_feed_is_said() -> None:
    waiter = FeedWaiter("infeed.3", "sum", None, VECTOR, 0.2, "%infeed.3 of sum waits for f32[4]")
    state = FeedState(0, 0, 4, 1024, (), (waiter,), True, True, 0)
    text = repr(FeedStates(state, state))
    assert "closed; streaming; waiting: %infeed.3 of sum waits for f32[4]" in text


def test_a_computation_is_drawn() -> None:
    builder = Builder("<b>")
    x = builder.parameter(0, VECTOR, "x")
    drawn: Any = builder.build(x * x + x)._repr_html_()
    assert drawn.count("<rect") == 3
    # Each operand of each instruction.
    assert drawn.count("<line") == 4
    assert "f32[4]" in drawn
    assert "multiply" in drawn
    assert "<b>&#x27;" not in drawn
    assert "&lt;b&gt;" in drawn


def test_a_large_computation_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "MAX_DRAWN", 1)
    counted: Any = pair()._repr_html_()
    assert "<svg" not in counted
    assert re.search(r"add</td><td[^>]*>1<", counted)


def test_bytes_are_said_in_units() -> None:
    found = [tables.human_bytes(count) for count in (0, 1023, 1024, 3 << 20, 5 << 30, 1 << 60)]
    assert found == ["0 B", "1023 B", "1 KiB", "3 MiB", "5 GiB", "1.049e+06 TiB"]


def test_a_broadcast_says_its_bytes(client: xc.Client) -> None:
    assert "2 MiB" in client.compile(broadcast(1 << 19))._repr_html_()
