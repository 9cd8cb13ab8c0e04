"""Mistakes in arguments, and in calls of clients, executables, buffers, devices and `connect`."""

import asyncio
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import xla_client as xc
from tests.unit.client.mistakes.test_mistakes import RAW
from xla_client import Builder, ElementType, Executable, Launch
from xla_contract.errors import ArgumentTypeError, InvalidArgumentError, XlaError

V = np.zeros(3, np.float32)
OP = Builder("other").parameter(0, "f32[3]")
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

CASES: tuple[tuple[Make, type[XlaError], str], ...] = (
    # arguments
    (lambda e, c: e.run(V), VALUE, r"got 1 for \(f32\[3\]\{0\}, s32\[\]\)"),
    (lambda e, c: e.run(V, 1, 2), VALUE, "one argument per parameter, got 3"),
    (lambda e, c: e.run(V[:2], 1), VALUE, r"argument 0: .* got an array of \[2\] for f32"),
    (lambda e, c: e.run(np.zeros(3), 1), VALUE, "argument 0: .* got elements of f64 for f32"),
    # Methods of base classes are named by the class that users know.
    (lambda e, c: e.run_batch(3), TYPE, "^Executable.run_batch: batch must be a sequence"),
    (lambda e, c: e.explain(timeout="1"), TYPE, "^Executable.explain: timeout must be"),
    (lambda e, c: e.execute_sharded(timeout="1"), TYPE, "^Executable.execute_sharded: timeout"),
    (lambda e, c: c.device("x"), TYPE, "^Client.device: ordinal must be the number of a device"),
    (lambda e, c: e.run(V, 1.5), VALUE, r"argument 1: .* for s32\[\]"),
    (lambda e, c: e.run(V, 1 << 40), VALUE, "argument 1: .* s32"),
    (lambda e, c: e.run("abc", 1), TYPE, "argument 0: a value must be a number or an arr"),
    (lambda e, c: e.run(OP, 1), TYPE, "argument 0: an Op has no value before its program"),
    (lambda e, c: e.run([OP], 1), TYPE, "argument 0: an Op has no value"),
    (lambda e, c: e.run(None, 1), TYPE, r"argument 0: .* got None \(NoneType\)"),
    (lambda e, c: e.run({"a": 1}, 1), TYPE, r"argument 0: .* \(dict\)"),
    (lambda e, c: e.run({1.0, 2.0}, 1), TYPE, r"argument 0: .* \(set\)"),
    (lambda e, c: e.run((i for i in range(3)), 1), TYPE, r"\(generator\)"),
    (lambda e, c: e.run(e, 1), TYPE, r"\(Executable\)"),
    (lambda e, c: e.run([[1], [1, 2]], 1), VALUE, "argument 0: .*numbers"),
    (lambda e, c: e.run((1, 2, 3), 1), VALUE, r"got a tuple of 3 for f32\[3\]"),
    (lambda e, c: e.run(c.to_device(V[:2]), 1), VALUE, "a buffer must have the shape of its"),
    (lambda e, c: e(V, 1, donate=(5,)), VALUE, "donate must have numbers of arguments"),
    (lambda e, c: c.to_device("x"), TYPE, r"got 'x' \(str\)"),
    (lambda e, c: c.to_device(OP), TYPE, "an Op has no value before"),
    (lambda e, c: c.to_device(...), TYPE, r"\(ellipsis\)"),
    (lambda e, c: c.to_device(1 << 40), VALUE, "must fit s32"),
    (lambda e, c: c.device().to_infeed(1, "f33[]"), VALUE, r"shape must be .*, got 'f33\[\]'"),
    (lambda e, c: c.device().infeed(ElementType.F32), TYPE, "shape must be a Shape or text"),
    (lambda e, c: c.device().outfeed(3), TYPE, "shape must be a Shape"),
    (lambda e, c: c.device().to_infeed([1, 2], "f32[3]"), VALUE, r"got an array of \[2\]"),
    (lambda e, c: c.device().to_infeed(..., "f32[]"), TYPE, r"\(ellipsis\)"),
    # timeout
    (lambda e, c: e.run(V, 1, timeout="1s"), TYPE, f"Executable.run: {TIMEOUT} '1s'"),
    (lambda e, c: e(V, 1, timeout=True), TYPE, f"Executable: {TIMEOUT} T"),
    (lambda e, c: e.submit(V, 1, timeout=float("nan")), VALUE, "got nan"),
    (lambda e, c: c.to_device(V, timeout=[1]), TYPE, r"got \[1\] \(list\)"),
    (lambda e, c: asyncio.run(e.arun(V, 1, timeout="x")), TYPE, f"Executable.arun: {TIMEOUT}"),
    (lambda e, c: e.submit(V, 1).result("x"), TYPE, f"Execution.result: {TIMEOUT} 'x'"),
    (lambda e, c: e.cost_analysis(timeout="x"), TYPE, TIMEOUT),
    (lambda e, c: c.pipeline().run(timeout="x"), TYPE, f"Pipeline.run: {TIMEOUT}"),
    (lambda e, c: asyncio.run(c.pipeline().arun(timeout="x")), TYPE, f"Pipeline.arun: {TIMEOUT}"),
    # donate
    (lambda e, c: e(V, 1, donate=0), TYPE, rf"{DONATE} 0 \(int\)"),
    (lambda e, c: e.run(V, 1, donate="x"), TYPE, rf"{DONATE} 'x'"),
    (lambda e, c: e(V, 1, donate=[True, False]), TYPE, DONATE),
    (lambda e, c: e.submit(V, 1, donate=[0.0]), TYPE, DONATE),
    (lambda e, c: c.pipeline().call(e, V, 1, donate=0), TYPE, f"Pipeline.call: {DONATE}"),
    (lambda e, c: e(V, 1, donate=(-1,)), VALUE, "donate must have numbers of arguments, got -1"),
    # names and counts
    (
        lambda e, c: e.run(V, 1, dontae=(0,)), TYPE,
        r"Executable.run: got an unexpected keyword argument 'dontae'; the parameters are "
        r"\(\*arguments, donate=None, timeout=None\)",
    ),
    (lambda e, c: e(V, p1=1), TYPE, "Executable: got an unexpected keyword argument 'p1'"),
    (lambda e, c: e.submit(V, 1, device=0), TYPE, "Executable.submit: .* 'device'"),
    (
        lambda e, c: c.execute(twice(), V, donate=(0,)), TYPE,
        r"Client.execute: .*'donate'; the parameters are \(computation, \*arguments, device=0, ",
    ),
    (lambda e, c: e.run_batch([(V, 1)], donate=(0,)), TYPE, "Executable.run_batch: .* 'donate'"),
    (lambda e, c: c.to_device(V, dtype="f32"), TYPE, "Client.to_device: .* 'dtype'"),
    (lambda e, c: c.to_device(V).to_numpy(dtype="f32"), TYPE, "Buffer.to_numpy: .* 'dtype'"),
    (
        lambda e, c: c.to_device(V).delete(5), TYPE,
        r"Buffer.delete: too many positional arguments; the parameters are \(timeout=None\)",
    ),
    (lambda e, c: c.to_device(V, 0, device=0), TYPE, "multiple values for argument 'device'"),
    (lambda e, c: c.to_device(), TYPE, "Client.to_device: missing a required argument: 'value'"),
    (lambda e, c: c.compile(), TYPE, "argument: 'computation'"),
    (
        lambda e, c: xc.Computation.from_text("HloModule m"), TYPE,
        "Computation.from_text: missing a required argument: 'client'",
    ),
    # devices
    (lambda e, c: c.to_device(V, "cpu:0"), TYPE, f"Client.to_device: {DEVICE} 'cpu:0'"),
    (lambda e, c: c.to_device(V, -1), VALUE, "from 0, got -1"),
    (lambda e, c: c.execute(twice(), V, device=0.0), TYPE, rf"{DEVICE} 0.0 \(float\)"),
    (lambda e, c: c.to_device(V, None), TYPE, f"{DEVICE} None"),
    (lambda e, c: c.device("0"), TYPE, "Client.device: ordinal must be"),
    (lambda e, c: c.execute(twice(), V, device=99), VALUE, "a device ordinal must be below "),
    (lambda e, c: c.device().outfeed("f32[]", "x"), TYPE, "Device.outfeed: count must be an int"),
    (lambda e, c: c.device().outfeed("f32[]", prefetch="x"), TYPE, "prefetch must be an int"),
    (lambda e, c: c.device().outfeed("f32[]", run=e), TYPE, "run must be an Execution, as "),
    # programs
    (lambda e, c: c.compile(lambda x: x), TYPE, rf"{PROGRAM} <function .*\(function\)"),
    (lambda e, c: c.compile(None), TYPE, f"{PROGRAM} None"),
    (lambda e, c: c.execute(e, V), TYPE, rf"{PROGRAM} Executable\("),
    (lambda e, c: c.compute_constant(5), TYPE, rf"{PROGRAM} 5 \(int\)"),
    (lambda e, c: c.graph_stats(c.to_device(V)), TYPE, rf"{PROGRAM} Buffer\("),
    (lambda e, c: c.compile(twice(), seed="x"), TYPE, "seed must be an int"),
    (lambda e, c: c.compile(twice(), debug_options="x"), TYPE, "debug_options must be a mapping"),
    (lambda e, c: c.compile(twice(), returns=list), TYPE, "returns must be tuple, xla_client.B"),
    (lambda e, c: c.compile(twice(), argument_layouts=5), TYPE, "argument_layouts must be a seq"),
    (lambda e, c: c.compile(twice(), result_layout=(0,)), TYPE, "result_layout must be a Layout"),
    # many at once
    (
        lambda e, c: c.execute_parallel(Launch(twice(), [V])), TYPE,
        "launches must be a sequence of Launch",
    ),
    (lambda e, c: c.execute_parallel([(twice(), [V])]), TYPE, "launches must be a sequence of L"),
    (
        lambda e, c: c.execute_parallel([Launch(twice(), V)] * 2), TYPE,
        "launch 0: arguments must be a list or tuple with the arguments of each run, as ",
    ),
    (lambda e, c: c.execute_parallel([Launch(twice(), [V], "a")]), TYPE, f"{DEVICE} 'a'"),
    (lambda e, c: e.run_batch(5), TYPE, "batch must be a sequence with a"),
    (lambda e, c: e.run_batch([1, 2]), TYPE, "each entry of batch must be a list or tuple"),
    (
        lambda e, c: e.run_batch([(V, 1)], return_exceptions="yes"), TYPE,
        "return_exceptions must be True or False, got 'yes'",
    ),
    # pipelines
    (lambda e, c: c.pipeline().call(twice(), V), TYPE, "executable must be an Executable, as cl"),
    (lambda e, c: c.pipeline().keep(V), TYPE, "result must be the result of a step, as Pipeline"),
    (lambda e, c: c.pipeline().fetch(c.to_device(V)), TYPE, "Pipeline.fetch: result must be"),
    # values and handles
    (lambda e, c: c.to_device(V, progress=True), TYPE, "progress must be a function of "),
    (lambda e, c: c.to_device(V).to_literal("row"), TYPE, "Buffer.to_literal: layout must be a L"),
    (lambda e, c: c.adopt("5"), TYPE, "Client.adopt: handle must be an int"),
    (lambda e, c: c.adopt(c.to_device(V)), TYPE, "handle must be an int"),
    (lambda e, c: c.adopt_executable(1 << 80), VALUE, "handle must be between 0 and"),
    (lambda e, c: c.unpack(V), TYPE, "buffer must be a Buffer, as client"),
    (lambda e, c: c.create_channel_handle("device to device"), TYPE, "type must be an int"),
    # servers
    (lambda e, c: xc.connect(1685), TYPE, "target must be a str such as"),
    (lambda e, c: xc.connect("localhost", token=5), TYPE, "connect: token must be a to"),
    (lambda e, c: xc.connect("localhost", session=5), TYPE, "session must be text, got 5"),
    (lambda e, c: xc.connect("localhost", metadata="a=b"), TYPE, "metadata must be a sequence of"),
    (lambda e, c: xc.connect("localhost", credentials="x"), TYPE, "credentials must be a Tls, a"),
    (lambda e, c: xc.connect("localhost", shared_memory="no"), TYPE, "must be True or False, got"),
    (lambda e, c: xc.connect("localhost", tls=True), TYPE, "connect: .* 'tls'; the parameters"),
    (lambda e, c: xc.Local(5), TYPE, "Local: platform must be text"),
    (lambda e, c: xc.Local(devices="2"), TYPE, "Local: devices must be an int"),
)  # fmt: skip


@pytest.fixture(scope="module")
def connected(target: str) -> Iterator[xc.Client]:
    with xc.connect(target) as client:
        yield client


@pytest.fixture(scope="module")
def program(connected: xc.Client) -> Executable:
    b = Builder("program")
    return connected.compile(b.build([b.parameter(0, "f32[3]") * 2, b.parameter(1, "s32[]")]))


@pytest.mark.parametrize(
    ("make", "error", "pattern"), CASES, ids=[pattern for *_, pattern in CASES]
)
def test_a_mistake_has_an_error_with_a_sentence(
    connected: xc.Client, program: Executable, make: Make, error: type[XlaError], pattern: str
) -> None:
    with pytest.raises(XlaError) as caught:
        make(program, connected)
    sentence = str(caught.value)
    assert type(caught.value) is error, sentence
    assert re.search(pattern, sentence), sentence
    assert "\n" not in sentence
    assert not RAW.search(sentence), sentence


def test_the_error_of_an_array_of_another_type_says_how_to_convert_it(program: Executable) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        program.run(np.zeros(3), 1)
    assert "astype('float32')" in caught.value.hint


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
