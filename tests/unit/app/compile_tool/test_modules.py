"""Programs from files of every format, and the sentences about those that are none."""

import io
import sys
from pathlib import Path

import pytest

from xla_contract.errors import InvalidArgumentError, UnimplementedError, XlaError
from xla_contract.stubs import hlo_pb2
from xla_server.app.compile_tool.modules import load_module
from xla_server.ir.exporter import export_module
from xla_server.ir.text.parser import parse_module
from xla_server.ir.text.printer import print_module

TEXT = b"""// a comment
HloModule doubled
ENTRY e { x = f32[3] parameter(0) ROOT y = f32[3] add(x, x) }
"""
MESSAGE = export_module(parse_module(TEXT.decode()))
STABLEHLO = b"""module @doubled {
  func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<3xf32>
    return %0 : tensor<3xf32>
  }
}
"""
FORMATS = {
    "text.hlo": TEXT,
    "text.txt": TEXT,
    "module.pb": MESSAGE.SerializeToString(),
    "whole.pb": hlo_pb2.HloProto(hlo_module=MESSAGE).SerializeToString(),
    "stable.mlir": STABLEHLO,
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("is_piped", [False, True])
def test_every_format_is_read_from_a_file_and_from_standard_input(
    name: str, is_piped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / name
    path.write_bytes(FORMATS[name])
    if is_piped:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(FORMATS[name])))
        path = Path("-")
    module = load_module(path)
    assert module.name == "doubled"
    assert "add(" in print_module(module)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.hlo", b"HloModule m\nENTRY e {\n  x = f32[3] foo()\n}", r"a\.hlo:3:14: foo %x: an op"),
        ("a.hlo", b"HloModule m\nENTRY e {\n", r"a\.hlo:3:1: an instruction or } is needed"),
        ("a.hlo", b"\xff", r"a\.hlo: HLO text must be UTF-8"),
        ("a.pb", b"\xff\xff", r"a\.pb: a module must be a serialized HloModuleProto or HloProto"),
        ("a.mlir", b"module { bad }", r"a\.mlir:1:10: the module must be StableHLO, got custom op"),
        ("a.onnx", b"", r"must be HLO text in \.hlo or \.txt, .* in \.mlir, got a\.onnx$"),
    ],
)
def test_what_is_no_module_is_reported_with_file_and_position(
    name: str, data: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InvalidArgumentError, match=message):
        load_module(tmp_path / name)


def test_stablehlo_without_jaxlib_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jaxlib", None)
    (tmp_path / "a.mlir").write_bytes(STABLEHLO)
    with pytest.raises(UnimplementedError, match=r"pip install jaxlib, or use HLO") as caught:
        load_module(tmp_path / "a.mlir")
    assert isinstance(caught.value, XlaError)
