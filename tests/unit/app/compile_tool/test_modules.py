"""Programs from files of every format, and the sentences about those that are none."""

import io
import re
import sys
from pathlib import Path

import pytest

from xla_contract.errors import InvalidArgumentError, UnimplementedError
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
DYNAMIC = b"""module @doubled {
  func.func public @main(%arg0: tensor<3xf32>) -> tensor<?xf32> {
    %0 = stablehlo.convert %arg0 : (tensor<3xf32>) -> tensor<?xf32>
    %1 = stablehlo.add %0, %0 : tensor<?xf32>
    return %1 : tensor<?xf32>
  }
}
"""
"""A program whose dimensions follow from those of its argument."""

FORMATS = {
    "text.hlo": TEXT,
    "text.txt": TEXT,
    "module.pb": MESSAGE.SerializeToString(),
    "whole.pb": hlo_pb2.HloProto(hlo_module=MESSAGE).SerializeToString(),
    "stable.mlir": STABLEHLO,
    "dynamic.mlir": DYNAMIC,
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
    assert re.search(r" = f32\[3\](\{0\})? add\(", print_module(module))


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.hlo", b"HloModule m\nENTRY e {\n  x = f32[3] foo()\n}", r"a\.hlo:3:14: foo %x: an op"),
        ("a.hlo", b"HloModule m\nENTRY e {\n", r"a\.hlo:3:1: an instruction or } is needed"),
        ("a.hlo", b"\xff", r"a\.hlo: HLO text must be UTF-8"),
        ("a.pb", b"\xff\xff", r"a\.pb: a module must be a serialized HloModuleProto or HloProto"),
        ("a.mlir", b"module { bad }", r"a\.mlir:1:10: a module of StableHLO .* got custom op"),
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
    for name in ("jaxlib._jax", "jaxlib.xla_extension"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "a.mlir").write_bytes(STABLEHLO)
    with pytest.raises(UnimplementedError, match=r"a\.mlir: .* got no jaxlib that can") as caught:
        load_module(tmp_path / "a.mlir")
    assert "(pip install jaxlib), or use HLO" in caught.value.hint
