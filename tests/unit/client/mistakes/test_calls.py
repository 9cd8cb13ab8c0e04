"""Mistakes in calls of clients, executables, pipelines, buffers, devices and of `connect`."""

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.unit.client.mistakes.test_mistakes import RAW
from xla_client import Builder, Executable, Launch
from xla_contract.errors import ArgumentTypeError, InvalidArgumentError, XlaError

V = np.zeros(3, np.float32)
TYPE, VALUE = ArgumentTypeError, InvalidArgumentError
Make = Callable[[Any, Any], Any]


def twice() -> Builder:
    builder = Builder("twice")
    _ = builder.parameter(0, "f32[3]") * 2
    return builder


TIMEOUT = "timeout must be a number of seconds or None, got"
DONATE = r"donate must be a sequence of numbers of arguments, as \(0,\), or None, got"
DEVICE = "device must be the number of a device, from 0, or a Device, got"
PROGRAM = "computation must be a Computation, a Builder or an Op, .* got"

CASES: dict[str, tuple[Make, type[XlaError], str]] = {
    # timeout
    "a unit in a timeout": (
        lambda e, c: e.run(V, 1, timeout="1s"), TYPE, f"Executable.run: {TIMEOUT} '1s'"
    ),
    "a flag for a timeout": (lambda e, c: e(V, 1, timeout=True), TYPE, f"Executable: {TIMEOUT} T"),
    "nan for a timeout": (lambda e, c: e.submit(V, 1, timeout=float("nan")), VALUE, "got nan"),
    "a list for a timeout": (lambda e, c: c.to_device(V, timeout=[1]), TYPE, r"got \[1\] \(list\)"),
    "a timeout of a coroutine": (
        lambda e, c: asyncio.run(e.arun(V, 1, timeout="x")), TYPE, f"Executable.arun: {TIMEOUT}"
    ),
    "a timeout of a result": (
        lambda e, c: e.submit(V, 1).result("x"), TYPE, f"Execution.result: {TIMEOUT} 'x'"
    ),
    "a timeout of an analysis": (lambda e, c: e.cost_analysis(timeout="x"), TYPE, TIMEOUT),
    "a timeout of a pipeline": (
        lambda e, c: c.pipeline().run(timeout="x"), TYPE, f"Pipeline.run: {TIMEOUT}"
    ),
    "a timeout of a pipeline's coroutine": (
        lambda e, c: asyncio.run(c.pipeline().arun(timeout="x")), TYPE, f"Pipeline.arun: {TIMEOUT}"
    ),
    # donate
    "one number to donate": (lambda e, c: e(V, 1, donate=0), TYPE, rf"{DONATE} 0 \(int\)"),
    "text to donate": (lambda e, c: e.run(V, 1, donate="x"), TYPE, rf"{DONATE} 'x'"),
    "flags to donate": (lambda e, c: e(V, 1, donate=[True, False]), TYPE, DONATE),
    "fractions to donate": (lambda e, c: e.submit(V, 1, donate=[0.0]), TYPE, DONATE),
    "one number to donate in a pipeline": (
        lambda e, c: c.pipeline().call(e, V, 1, donate=0), TYPE, f"Pipeline.call: {DONATE}"
    ),
    "to donate a negative number": (
        lambda e, c: e(V, 1, donate=(-1,)), VALUE, "donate must have numbers of arguments, got -1"
    ),
    # names and counts
    "a misspelt keyword": (
        lambda e, c: e.run(V, 1, dontae=(0,)), TYPE,
        r"Executable.run: got an unexpected keyword argument 'dontae'; the parameters are "
        r"\(\*arguments, donate=None, timeout=None\)",
    ),
    "a keyword of a parameter of the program": (
        lambda e, c: e(V, p1=1), TYPE, "Executable: got an unexpected keyword argument 'p1'"
    ),
    "a device for a run": (
        lambda e, c: e.submit(V, 1, device=0), TYPE, "Executable.submit: .* 'device'"
    ),
    "to donate once": (
        lambda e, c: c.execute(twice(), V, donate=(0,)), TYPE,
        r"Client.execute: .*'donate'; the parameters are \(computation, \*arguments, device=0, ",
    ),
    "to donate in a batch": (
        lambda e, c: e.run_batch([(V, 1)], donate=(0,)), TYPE, "Executable.run_batch: .* 'donate'"
    ),
    "a type for a value": (
        lambda e, c: c.to_device(V, dtype="f32"), TYPE, "Client.to_device: .* 'dtype'"
    ),
    "a type for a copy": (
        lambda e, c: c.to_device(V).to_numpy(dtype="f32"), TYPE, "Buffer.to_numpy: .* 'dtype'"
    ),
    "a keyword by its place": (
        lambda e, c: c.to_device(V).delete(5), TYPE,
        r"Buffer.delete: too many positional arguments; the parameters are \(timeout=None\)",
    ),
    "a parameter twice": (
        lambda e, c: c.to_device(V, 0, device=0), TYPE, "multiple values for argument 'device'"
    ),
    "a value that is missing": (
        lambda e, c: c.to_device(), TYPE, "Client.to_device: missing a required argument: 'value'"
    ),
    "a program that is missing": (lambda e, c: c.compile(), TYPE, "argument: 'computation'"),
    "a client that is missing": (
        lambda e, c: xc.Computation.from_text("HloModule m"), TYPE,
        "Computation.from_text: missing a required argument: 'client'",
    ),
    # devices
    "a name for a device": (
        lambda e, c: c.to_device(V, "cpu:0"), TYPE, f"Client.to_device: {DEVICE} 'cpu:0'"
    ),
    "a negative device": (lambda e, c: c.to_device(V, -1), VALUE, "from 0, got -1"),
    "a fraction for a device": (
        lambda e, c: c.execute(twice(), V, device=0.0), TYPE, rf"{DEVICE} 0.0 \(float\)"
    ),
    "None for a device": (lambda e, c: c.to_device(V, None), TYPE, f"{DEVICE} None"),
    "text for an ordinal": (lambda e, c: c.device("0"), TYPE, "Client.device: ordinal must be"),
    "a device that is not there": (
        lambda e, c: c.execute(twice(), V, device=99), VALUE, "a device ordinal must be below "
    ),
    "text for a count": (
        lambda e, c: c.device().outfeed("f32[]", "x"), TYPE, "Device.outfeed: count must be an int"
    ),
    "text for a number ahead": (
        lambda e, c: c.device().outfeed("f32[]", prefetch="x"), TYPE, "prefetch must be an int"
    ),
    "an executable for a run": (
        lambda e, c: c.device().outfeed("f32[]", run=e), TYPE, "run must be an Execution, as "
    ),
    # programs
    "a function for a program": (
        lambda e, c: c.compile(lambda x: x), TYPE, rf"{PROGRAM} <function .*\(function\)"
    ),
    "None for a program": (lambda e, c: c.compile(None), TYPE, f"{PROGRAM} None"),
    "an executable for a program": (lambda e, c: c.execute(e, V), TYPE, rf"{PROGRAM} Executable\("),
    "a number for a constant's program": (
        lambda e, c: c.compute_constant(5), TYPE, rf"{PROGRAM} 5 \(int\)"
    ),
    "a buffer for a program": (
        lambda e, c: c.graph_stats(c.to_device(V)), TYPE, rf"{PROGRAM} Buffer\("
    ),
    "text for a seed": (lambda e, c: c.compile(twice(), seed="x"), TYPE, "seed must be an int"),
    "text for options": (
        lambda e, c: c.compile(twice(), debug_options="x"), TYPE, "debug_options must be a mapping"
    ),
    "a list for what a call gives": (
        lambda e, c: c.compile(twice(), returns=list), TYPE, "returns must be tuple, xla_client.B"
    ),
    "a number for layouts": (
        lambda e, c: c.compile(twice(), argument_layouts=5), TYPE, "argument_layouts must be a seq"
    ),
    "numbers for a layout": (
        lambda e, c: c.compile(twice(), result_layout=(0,)), TYPE, "result_layout must be a Layout"
    ),
    # many at once
    "one launch": (
        lambda e, c: c.execute_parallel(Launch(twice(), [V])), TYPE,
        "launches must be a sequence of Launch",
    ),
    "pairs for launches": (
        lambda e, c: c.execute_parallel([(twice(), [V])]), TYPE, "launches must be a sequence of L"
    ),
    "an array for a launch's arguments": (
        lambda e, c: c.execute_parallel([Launch(twice(), V)] * 2), TYPE,
        "launch 0: arguments must be a list or tuple with the arguments of each run, as ",
    ),
    "text for a launch's device": (
        lambda e, c: c.execute_parallel([Launch(twice(), [V], "a")]), TYPE, f"{DEVICE} 'a'"
    ),
    "a number for a batch": (lambda e, c: e.run_batch(5), TYPE, "batch must be a sequence with a"),
    "a batch of values": (
        lambda e, c: e.run_batch([1, 2]), TYPE, "each entry of batch must be a list or tuple"
    ),
    "text for a flag": (
        lambda e, c: e.run_batch([(V, 1)], return_exceptions="yes"), TYPE,
        "return_exceptions must be True or False, got 'yes'",
    ),
    # pipelines
    "a program for a step": (
        lambda e, c: c.pipeline().call(twice(), V), TYPE, "executable must be an Executable, as cl"
    ),
    "a value to keep": (
        lambda e, c: c.pipeline().keep(V), TYPE, "result must be the result of a step, as Pipeline"
    ),
    "a buffer to fetch": (
        lambda e, c: c.pipeline().fetch(c.to_device(V)), TYPE, "Pipeline.fetch: result must be"
    ),
    # values and handles
    "a flag for progress": (
        lambda e, c: c.to_device(V, progress=True), TYPE, "progress must be a function of "
    ),
    "text for a layout": (
        lambda e, c: c.to_device(V).to_literal("row"), TYPE, "Buffer.to_literal: layout must be a L"
    ),
    "text for a handle": (lambda e, c: c.adopt("5"), TYPE, "Client.adopt: handle must be an int"),
    "a buffer for a handle": (lambda e, c: c.adopt(c.to_device(V)), TYPE, "handle must be an int"),
    "a number too large for a handle": (
        lambda e, c: c.adopt_executable(1 << 80), VALUE, "handle must be between 0 and"
    ),
    "an array for a buffer": (lambda e, c: c.unpack(V), TYPE, "buffer must be a Buffer, as client"),
    "a name for a channel's type": (
        lambda e, c: c.create_channel_handle("device to device"), TYPE, "type must be an int"
    ),
    # servers
    "a number for a target": (lambda e, c: xc.connect(1685), TYPE, "target must be a str such as"),
    "a number for a token": (
        lambda e, c: xc.connect("localhost", token=5), TYPE, "connect: token must be a to"
    ),
    "a number for a session": (
        lambda e, c: xc.connect("localhost", session=5), TYPE, "session must be text, got 5"
    ),
    "text for headers": (
        lambda e, c: xc.connect("localhost", metadata="a=b"), TYPE, "metadata must be a sequence of"
    ),
    "text for credentials": (
        lambda e, c: xc.connect("localhost", credentials="x"), TYPE, "credentials must be a Tls, a"
    ),
    "text for shared memory": (
        lambda e, c: xc.connect("localhost", shared_memory="no"), TYPE, "must be True or False, got"
    ),
    "a keyword that connect has not": (
        lambda e, c: xc.connect("localhost", tls=True), TYPE, "connect: .* 'tls'; the parameters"
    ),
    "a number for a platform": (lambda e, c: xc.Local(5), TYPE, "Local: platform must be text"),
    "text for devices": (lambda e, c: xc.Local(devices="2"), TYPE, "Local: devices must be an int"),
}  # fmt: skip


@pytest.fixture(scope="module")
def connected(target: str) -> Iterator[xc.Client]:
    with xc.connect(target) as client:
        yield client


@pytest.fixture(scope="module")
def program(connected: xc.Client) -> Executable:
    b = Builder("program")
    return connected.compile(b.build([b.parameter(0, "f32[3]") * 2, b.parameter(1, "s32[]")]))


@pytest.mark.parametrize("name", CASES)
def test_a_mistake_has_an_error_with_a_sentence(
    connected: xc.Client, program: Executable, name: str
) -> None:
    make, error, pattern = CASES[name]
    with pytest.raises(XlaError) as caught:
        make(program, connected)
    sentence = str(caught.value)
    assert type(caught.value) is error, sentence
    assert re.search(pattern, sentence), sentence
    assert "\n" not in sentence
    assert not RAW.search(sentence), sentence


def test_one_malformed_run_of_a_batch_leaves_the_others(program: Executable) -> None:
    [first, second] = program.run_batch([5, (V, 1)], return_exceptions=True)  # type: ignore[list-item]
    assert isinstance(first, ArgumentTypeError)
    assert second[1] == 1


def test_what_people_write_is_taken(connected: xc.Client) -> None:
    np.testing.assert_array_equal(connected.compile(twice()).run(V + 1), V + 2)
    op = Builder("op").parameter(0, "f32[3]") + 1
    np.testing.assert_array_equal(connected.execute(op, V).to_numpy(), V + 1)
    np.testing.assert_array_equal(connected.execute(twice().build().to_bytes(), V).to_numpy(), V)
    device = connected.device(0)
    given: Any = device
    moved = connected.to_device(V, given)
    results = connected.execute_parallel([Launch(twice(), [moved], given), Launch(op, (V,))])
    np.testing.assert_array_equal(np.asarray(results), [V, V + 1])
    run = connected.compile(twice())
    kept = connected.to_device(V)
    run(kept, donate=np.array([0])[:], timeout=np.float32(60))  # type: ignore[arg-type]
    assert kept.is_deleted
