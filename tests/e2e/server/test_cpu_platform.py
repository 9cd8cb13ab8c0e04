"""A real server that compiles."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import xla_client as xc
from tests.e2e.process import start_server
from tests.unit.sessions.sample_runs import ONES, endless
from xla_client import Builder, Shape, ops


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[xc.Client]:
    directory = tmp_path_factory.mktemp("server")
    flags = ("--platform", "cpu", "--compilation-cache-dir", str(directory / "kernels"))
    with (
        start_server(directory, *flags) as running,
        xc.connect(running.address, timeout=120) as client,
    ):
        yield client


def test_values_are_fed_in_and_out_while_a_program_runs(client: xc.Client) -> None:
    builder = Builder("feeds")
    shape = Shape.parse("f32[3]")
    ops.outfeed(builder.infeed(shape) * 2.0, shape)
    executable = client.compile(builder.build(builder.constant(np.float32(0))))
    device = client.devices()[0]
    device.to_infeed(np.array([1, 2, 3], np.float32))
    executable.run()
    np.testing.assert_array_equal(device.from_outfeed(shape), [2, 4, 6])


def test_a_loop_without_end_stops_at_the_deadline(client: xc.Client) -> None:
    with pytest.raises(xc.DeadlineExceededError):
        client.compile(endless()).run(ONES, timeout=1)
    builder = Builder("after")
    assert client.compile(builder.build(builder.constant(np.int32(7)))).run() == 7


def test_compiled_kernels_outlive_the_server(tmp_path: Path) -> None:
    builder = Builder("kept")
    x = builder.parameter(0, Shape.parse("f32[100]"))
    computation = builder.build(ops.tanh(x) * 3.0)
    flags = ("--platform", "cpu", "--compilation-cache-dir", str(tmp_path / "kernels"))
    for _ in range(2):
        with (
            start_server(tmp_path, *flags) as running,
            xc.connect(running.address, timeout=120) as client,
        ):
            found = client.compile(computation).run(np.ones(100, np.float32))
            np.testing.assert_allclose(found, np.tanh(1) * 3, rtol=1e-6)
        kept = sorted(path.name for path in (tmp_path / "kernels").rglob("*") if path.is_file())
        assert kept


def test_a_directory_that_others_write_into_is_not_executed_from(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    command = [sys.executable, "-m", "xla_server", "serve", "--listen", "127.0.0.1:0"]
    options = ["--platform", "cpu", "--compilation-cache-dir", str(shared)]
    ended = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert "compilation_cache_dir: no other user may write" in ended.stderr
