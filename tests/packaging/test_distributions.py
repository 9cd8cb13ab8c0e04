"""The wheel, the sdist and the editable install carry what they should and nothing heavier."""

import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import zipfile

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def run(*command: str, **environment: str) -> str:
    result = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with an sdist made from the tree and a wheel made from that sdist."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder))
    return folder


def test_sdist_holds_the_sources_and_no_generated_stubs(built: pathlib.Path) -> None:
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    assert {"LICENSE", "hatch_build.py", "protos/xla/hlo.proto", "pyproject.toml"} <= names
    assert not [name for name in names if "_contract/stubs/" in name or name.startswith("tests/")]


def test_wheel_holds_stubs_types_and_protos(built: pathlib.Path) -> None:
    with zipfile.ZipFile(next(built.glob("*.whl"))) as archive:
        names = set(archive.namelist())
    assert {
        "xla_contract/stubs/contract.binpb",
        "xla_contract/stubs/hlo_pb2.pyi",
        "xla_contract/stubs/protos/xla/xla_service.proto",
        "xla_contract/py.typed",
        "xla_host/py.typed",
        "xla_client/py.typed",
        "xla_server/py.typed",
    } <= names
    assert not [name for name in names if name.startswith(("tests/", "hatch_build", "client/"))]
    assert [name for name in names if name.endswith(".dist-info/licenses/LICENSE")]


def test_wheel_installs_and_the_client_stays_thin(
    built: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    wheel = next(built.glob("*.whl"))
    run(sys.executable, "-m", "pip", "install", "--no-deps", "--target", str(tmp_path), str(wheel))
    script = (
        "import json, sys, xla_client, xla_server.app.cli as cli;"
        "print(json.dumps([xla_client.__file__, cli.__file__]))"
    )
    files = json.loads(run(sys.executable, "-c", script, PYTHONPATH=str(tmp_path)))
    assert all(file.startswith(str(tmp_path)) for file in files)
    script = "import json, sys, xla_client; print(json.dumps(list(sys.modules)))"
    loaded = set(json.loads(run(sys.executable, "-c", script, PYTHONPATH=str(tmp_path))))
    assert "xla_contract" in loaded
    assert not loaded & {"numba", "scipy", "jax", "pydantic", "typer", "xla_server"}
    assert (tmp_path / "bin" / "xla-server").exists()
    assert (tmp_path / "bin" / "xla-run").exists()


def test_this_environment_is_an_editable_install() -> None:
    import xla_contract.stubs

    origin = importlib.metadata.distribution("xla-service").read_text("direct_url.json")
    assert origin is not None
    assert json.loads(origin)["dir_info"] == {"editable": True}
    assert pathlib.Path(xla_contract.stubs.__file__).is_relative_to(ROOT)
