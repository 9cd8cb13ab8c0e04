"""A server that compiles shared routines while it is idle."""

import signal
from pathlib import Path

import numpy as np

import xla_client as xc
from tests.e2e.process import start_server
from tests.fault.plain import until
from tests.processors import HOST
from xla_client import Builder, Shape, ops
from xla_server.codegen.namespace import vocabulary


def test_what_programs_share_is_ready_before_the_first(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    with start_server(tmp_path, "--compilation-cache-dir", str(kernels)) as server:
        until(lambda: "prepared" in server.log.read_text())
        before = len(list(kernels.iterdir()))
        assert before >= len(vocabulary(HOST).prepared)
        with xc.connect(server.address) as client:
            builder = Builder("product")
            x = builder.parameter(0, Shape.parse("f32[64,64]"))
            program = client.compile(builder.build(ops.dot(x, x)))
            ones = np.ones((64, 64), np.float32)
            np.testing.assert_array_equal(program.run(ones), 64 * ones)
        # The kernels of one product, and no function that products share.
        assert len(list(kernels.iterdir())) - before <= 3


def test_a_signal_while_it_prepares_ends_the_server_with_0(tmp_path: Path) -> None:
    flags = ("--compilation-cache-dir", str(tmp_path / "kernels"))
    with start_server(tmp_path, *flags, forked=False) as server:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
        assert "drained" in server.log.read_text()


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    flags = ("--no-prepare", "--compilation-cache-dir", str(kernels))
    with start_server(tmp_path, *flags) as server:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
        # A ready server has the routines of all programs only.
        assert len(list(kernels.iterdir())) < 5
