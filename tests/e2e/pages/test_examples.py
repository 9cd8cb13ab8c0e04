"""The examples in other languages, against a real server, where their tools are installed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.process import serving

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "client" / "examples"
GO_TOOLS = ("go", "protoc-gen-go", "protoc-gen-go-grpc")
WRONG = (
    "EJSONPARSE",
    "ETARGET",
    "EINVALIDPACKAGENAME",
    "errors parsing go.mod",
    "unknown revision",
)
"""Errors of npm and go for a file that cannot be read, or that names versions there are not."""


server = serving()


def require(*tools: str) -> None:
    absent = [tool for tool in tools if shutil.which(tool) is None]
    if absent:
        pytest.skip(f"not installed: {', '.join(absent)}")


def output_of(command: list[str], directory: Path) -> str:
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def install(command: list[str], directory: Path) -> None:
    """Install the packages of an example; skip if they cannot be had, unless its file is wrong."""
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=100)
    if done.returncode:
        assert not any(sign in done.stderr for sign in WRONG), done.stderr
        reason = next((line for line in done.stderr.splitlines() if "error" in line), "")
        pytest.skip(f"{' '.join(command[:3])} cannot get its packages: {reason}")


def test_the_node_example_runs(address: str, tmp_path: Path) -> None:
    require("node", "npm")
    folder = tmp_path / "client" / "examples" / "node"
    shutil.copytree(
        EXAMPLES / "node", folder, ignore=shutil.ignore_patterns("node_modules", "package-lock*")
    )
    # The example reads the .proto files of its repository.
    (tmp_path / "protos").symlink_to(ROOT / "protos")
    install(["npm", "install", "--no-audit", "--no-fund", "--fetch-retries=0"], folder)
    assert output_of(["node", "axpy.js", address], folder) == "axpy [ 12, 24, 36 ]\n"


def test_the_go_example_runs(address: str, tmp_path: Path) -> None:
    require(*GO_TOOLS)
    folder = tmp_path / "go"
    shutil.copytree(EXAMPLES / "go", folder)
    protoc = [sys.executable, "-m", "grpc_tools.protoc", "-I", str(ROOT / "protos")]
    for plugin in ("go", "go-grpc"):
        protoc += [f"--{plugin}_out={folder}", f"--{plugin}_opt=module=xla-service"]
    output_of([*protoc, *map(str, sorted((ROOT / "protos" / "xla").glob("*.proto")))], ROOT)
    install(["go", "mod", "tidy"], folder)
    assert output_of(["go", "run", ".", address], folder) == "axpy [12 24 36]\n"
