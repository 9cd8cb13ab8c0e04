"""The .proto files with protoc alone, as a user of another language would take them."""

import importlib.resources
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from xla_contract.descriptors import RPCS

ROOT = Path(__file__).parents[3]
FILES = sorted(path.name for path in (ROOT / "protos" / "xla").glob("*.proto"))

REPORT = """
import json
import grpc
from xla import xla_data_pb2, xla_service_pb2_grpc
with grpc.insecure_channel("localhost:1") as channel:
    stub = xla_service_pb2_grpc.XlaServiceStub(channel)
    print(json.dumps([sorted(vars(stub)), xla_data_pb2.ShapeProto.DESCRIPTOR.full_name]))
"""


def test_generated_python_has_every_rpc(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    subprocess.run(
        [
            sys.executable,
            *("-m", "grpc_tools.protoc", "-I", "protos"),
            *(f"--python_out={tmp_path}", f"--grpc_python_out={tmp_path}"),
            *(f"xla/{name}" for name in FILES),
        ],
        cwd=ROOT,
        check=True,
    )
    done = subprocess.run(
        [sys.executable, "-c", REPORT], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    names, full_name = json.loads(done.stdout)
    assert names == sorted(rpc.name for rpc in RPCS)
    assert len(names) == 18
    assert full_name == "xla.ShapeProto"


def test_the_command_in_the_readme_generates_both_services(tmp_path: Path) -> None:
    pytest.importorskip("grpc_tools")
    readme = (ROOT / "README.md").read_text()
    (command,) = re.findall(r"`python (-m grpc_tools\.protoc [^`]*)`", readme)
    (tmp_path / "out").mkdir()
    (tmp_path / "protos").symlink_to(ROOT / "protos")
    subprocess.run(f"{sys.executable} {command}", cwd=tmp_path, shell=True, check=True)
    generated = {path.name for path in (tmp_path / "out" / "xla").iterdir()}
    assert {"xla_service_pb2_grpc.py", "xla_extension_pb2_grpc.py"} <= generated


def test_installed_package_carries_the_files() -> None:
    folder = importlib.resources.files("xla_contract.stubs") / "protos" / "xla"
    for name in FILES:
        assert (folder / name).read_bytes() == (ROOT / "protos" / "xla" / name).read_bytes()
