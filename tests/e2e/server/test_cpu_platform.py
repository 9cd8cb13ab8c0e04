"""A real server that compiles."""

import subprocess
import sys
from pathlib import Path

import numpy as np

import xla_client as xc
from tests.e2e.process import start_server
from xla_client import Builder, Shape, ops


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
