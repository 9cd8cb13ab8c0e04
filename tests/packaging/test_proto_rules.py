"""`make lint` on protos/: buf finds bad names, what is not explained, and what breaks others."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest
from google.protobuf import descriptor_pb2

PROTOS = pathlib.Path(__file__).parents[2] / "protos"
BASELINE = PROTOS / "baseline.binpb"
BUF = shutil.which("buf", path=f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}")


def buf(command: str, directory: pathlib.Path) -> subprocess.CompletedProcess[str]:
    assert BUF is not None, "buf-bin belongs to the development dependencies"
    arguments = [BUF, command, str(directory)]
    if command == "breaking":
        arguments += ["--against", str(BASELINE)]
    environment = os.environ | {"XDG_CACHE_HOME": str(directory / "cache")}
    return subprocess.run(arguments, env=environment, capture_output=True, text=True)


@pytest.fixture
def copy(tmp_path: pathlib.Path) -> pathlib.Path:
    """The protos, to be changed."""
    shutil.copytree(PROTOS / "xla", tmp_path / "xla")
    shutil.copy(PROTOS / "buf.yaml", tmp_path)
    return tmp_path


def edit(directory: pathlib.Path, name: str, old: str, new: str) -> None:
    path = directory / "xla" / name
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_the_protos_keep_the_rules_and_break_no_client():
    for command in ("lint", "breaking"):
        result = buf(command, PROTOS)
        assert result.returncode == 0, result.stdout + result.stderr


def test_the_baseline_has_all_services():
    files = descriptor_pb2.FileDescriptorSet.FromString(BASELINE.read_bytes())
    services = {service.name for file in files.file for service in file.service}
    assert services == {"XlaService", "XlaExtensionService"}


@pytest.mark.parametrize(
    ("name", "old", "new", "finding"),
    [
        # A number changed, a field gone, a type changed, an rpc gone.
        ("xla_extension.proto", "int64 size = 2;", "int64 size = 4;", "GetUploadResponse"),
        ("xla_extension.proto", "  // Bytes of the whole.\n  int64 size = 2;\n", "", '"2"'),
        ("xla_extension.proto", "optional fixed32 checksum", "optional uint32 checksum", "fixed32"),
        (
            "xla_service.proto",
            "rpc Unpack(UnpackRequest) returns (UnpackResponse);",
            "",
            '"Unpack"',
        ),
    ],
)
def test_a_change_that_breaks_others_is_found(copy, name, old, new, finding):
    edit(copy, name, old, new)
    result = buf("breaking", copy)
    assert result.returncode != 0
    assert finding in result.stdout


def test_an_addition_breaks_no_client(copy):
    edit(
        copy,
        "xla_extension.proto",
        "message AbandonUploadResponse {}",
        "message AbandonUploadResponse {\n  // New.\n  int64 bytes = 1;\n}",
    )
    assert buf("breaking", copy).returncode == 0
    assert buf("lint", copy).returncode == 0


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("  // Bytes of the whole.\n", "", "should have a non-empty comment"),
        ("int64 size = 2;", "int64 wholeSize = 2;", "lower_snake_case"),
    ],
)
def test_what_is_badly_named_or_not_explained_is_found(copy, old, new, finding):
    edit(copy, "xla_extension.proto", old, new)
    result = buf("lint", copy)
    assert result.returncode != 0
    assert finding in result.stdout


def test_every_file_says_where_generated_code_of_other_languages_goes():
    files = descriptor_pb2.FileDescriptorSet.FromString(BASELINE.read_bytes())
    own = [file for file in files.file if file.name.startswith("xla/")]
    assert {file.name for file in own} == {f"xla/{path.name}" for path in PROTOS.glob("xla/*")}
    for file in own:
        options = file.options
        assert options.go_package == "xla-service/xlapb"
        assert (options.java_package, options.java_multiple_files) == ("xla", True)
        assert options.csharp_namespace == "Xla"
