"""The examples in other languages, against a real server, where their tools are installed."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.process import start_server

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "client" / "examples"
GO_TOOLS = ("go", "protoc-gen-go", "protoc-gen-go-grpc")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("server")
    with start_server(directory, "--platform", "interpreter") as running:
        yield running.address


def require(*tools: str) -> None:
    absent = [tool for tool in tools if shutil.which(tool) is None]
    if absent:
        pytest.skip(f"not installed: {', '.join(absent)}")


def output_of(command: list[str], directory: Path) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_node_example_runs(address: str) -> None:
    require("node")
    folder = EXAMPLES / "node"
    if not (folder / "node_modules").is_dir():
        pytest.skip("its packages are not installed: npm install in client/examples/node")
    assert output_of(["node", "axpy.js", address], folder) == "axpy [ 12, 24, 36 ]\n"


def test_the_go_example_runs(address: str, tmp_path: Path) -> None:
    require(*GO_TOOLS)
    folder = tmp_path / "go"
    shutil.copytree(EXAMPLES / "go", folder)
    protoc = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(ROOT / "protos")]
    for plugin in ("go", "go-grpc"):
        protoc += [f"--{plugin}_out={folder}", f"--{plugin}_opt=module=xla-service"]
    output_of([*protoc, *map(str, sorted((ROOT / "protos" / "xla").glob("*.proto")))], ROOT)
    tidy = subprocess.run(["go", "mod", "tidy"], cwd=folder, capture_output=True, timeout=300)
    if tidy.returncode:
        pytest.skip("its modules cannot be had: go mod tidy fails")
    assert output_of(["go", "run", ".", address], folder) == "axpy [12 24 36]\n"
