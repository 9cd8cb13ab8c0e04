"""The interpreter counts what its instructions leave behind, over a real server."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

import xla_client as xc
from tests.e2e.process import ServerProcess, start_server
from xla_client import Builder, Computation, Shape, ops

LIMIT = 64 << 20
ARRAY = np.ones(1 << 22, np.float32)
"""A quarter of the limit."""


def wide(count: int) -> Computation:
    """The sum of `count` arrays that all are there before the first two are added."""
    builder = Builder("wide")
    x = builder.parameter(0, Shape.parse("f32[4194304]"))
    parts = [x * float(number) for number in range(count)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return builder.build(ops.slice(total, [0], [1]))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    flags = ("--platform", "interpreter", f"--max-device-bytes={LIMIT}")
    flags += ("--identity-share=1", "--connection-share=1")
    with start_server(tmp_path, *flags) as running:
        yield running


def test_a_program_whose_values_exceed_the_limit_is_refused_when_it_is_compiled(
    server: ServerProcess,
) -> None:
    process = psutil.Process(server.process.pid)
    with xc.connect(server.address) as client:
        before = process.memory_info().rss
        rule = (
            r"Compile: an execution must fit into the device's 67108864 bytes of memory, got \d+ "
            r"bytes at once: 16777216 of arguments, .* [0-9]{9} of temporary values, 4 of results"
        )
        with pytest.raises(xc.ResourceExhaustedError, match=rule):
            client.compile(wide(40))
        with pytest.raises(xc.ResourceExhaustedError, match="687865852 of temporary values"):
            client.compute_constant(constant(40))
        assert process.memory_info().rss - before < LIMIT


def constant(count: int) -> Computation:
    builder = Builder("constant")
    x = ops.broadcast(builder.constant(np.float32(1)), [ARRAY.size])
    parts = [x * float(number) for number in range(count)]
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return builder.build(ops.slice(total, [0], [1]))


def test_temporary_values_of_an_execution_count_while_it_runs(server: ServerProcess) -> None:
    with xc.connect(server.address) as client:
        program = client.compile(wide(2))
        x = client.to_device(ARRAY)
        assert program.run(x).tolist() == [1]
        kept = client.to_device(ARRAY)
        rule = r"values .* may take 67108864 bytes .* with 33554432 in use"
        with pytest.raises(xc.ResourceExhaustedError, match=rule):
            program.run(x)
        kept.delete()
        client.free_unused()
        assert program.run(x).tolist() == [1]
