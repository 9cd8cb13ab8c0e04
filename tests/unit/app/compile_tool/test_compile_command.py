"""xla-server compile: what it says and what it leaves in the directory."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.corpus.hlo_text import VECTOR_LOOP
from xla_contract.stubs import hlo_pb2
from xla_server.app.commands import app
from xla_server.app.endings import EXIT_USAGE
from xla_server.ir.exporter import export_module
from xla_server.ir.text.parser import parse_module


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["compile", *map(str, arguments)])
    return result.exit_code, result.output


def test_a_dump_shows_every_stage(tmp_path: Path) -> None:
    program, dump = tmp_path / "loop.hlo", tmp_path / "deep" / "dump"
    program.write_text(VECTOR_LOOP)
    code, output = run(program, "--dump-to", dump)
    assert code == 0, output
    assert output.startswith("module loop: (x: f32[4]) -> f32[4]\n")
    assert "arena: " in output
    assert "work asked for: " in output
    assert "work done: " in output
    assert "peak memory: " in output
    assert f"written to {dump}" in output
    names = sorted(path.name for path in dump.iterdir())
    modules = [name for name in names if name.startswith("module_")]
    assert [name[7:9] for name in modules] == [f"{n:02}" for n in range(len(modules))]
    assert modules[0] == "module_00.input.txt"
    assert len(modules) > 1
    for name in modules:
        parse_module((dump / name).read_text())
    kernels = [name for name in names if name.startswith("kernel_")]
    assert kernels
    for name in kernels:
        assert "def kernel(buffers, start, stop):" in (dump / name).read_text()
    assert (dump / "module.dot").read_text().startswith('digraph "loop" {')
    assert (dump / "module.html").read_text().startswith("<!DOCTYPE html>")
    buffers = (dump / "buffers.txt").read_text().splitlines()
    assert buffers[0].startswith("arena: ")
    assert buffers[2].split() == ["value", "shape", "bytes", "place", "thunks"]
    assert buffers[3].split()[:5] == ["%x", "f32[4]", "16", "parameter", "0"]


def test_arguments_that_are_laid_out_anew_are_part_of_the_peak(tmp_path: Path) -> None:
    program = tmp_path / "columns.hlo"
    program.write_text(
        "HloModule m, entry_computation_layout={(f32[8,16]{0,1})->f32[8,16]{1,0}}\n"
        "ENTRY e { x = f32[8,16]{0,1} parameter(0) ROOT r = f32[8,16]{1,0} negate(x) }\n"
    )
    code, output = run(program)
    assert code == 0, output
    assert "peak memory: 1536 bytes at once: 512 of arguments, 512 of copies" in output


def test_a_run_on_made_up_arguments_says_what_they_are_and_how_long_it_took(
    tmp_path: Path,
) -> None:
    program = tmp_path / "many.hlo"
    program.write_text(
        "HloModule many\nENTRY e {\n"
        "  x = (f32[3], c64[2], (u1[2], s2[2])) parameter(0)\n"
        "  y = pred[2] parameter(1)\n"
        "  ROOT r = ((f32[3], c64[2], (u1[2], s2[2])), pred[2]) tuple(x, y)\n}\n"
    )
    code, output = run(program, "--run")
    assert code == 0, output
    assert "arguments: random (seed 0)\n" in output
    assert re.search(r"\ntime: \d+ ns, \d+ cycles\ncode and constants: \d+ bytes\n", output)
    assert [path.name for path in tmp_path.iterdir()] == ["many.hlo"]


def test_a_run_on_a_platform_that_compiles_nothing_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "loop.hlo"
    program.write_text(VECTOR_LOOP)
    monkeypatch.setenv("XLA_SERVER_PLATFORM", "interpreter")
    code, output = run(program, "--run")
    assert code == EXIT_USAGE
    assert "a program must run on a platform that compiles it, got interpreter" in output
    monkeypatch.setenv("XLA_SERVER_PLATFORM", "abacus")
    code, output = run(program, "--run")
    assert code == EXIT_USAGE
    assert "abacus" in output


def test_a_profile_of_a_run_is_written_in_both_forms(tmp_path: Path) -> None:
    program, profile = tmp_path / "loop.hlo", tmp_path / "profile"
    program.write_text(VECTOR_LOOP)
    code, output = run(program, "--profile", profile)
    assert code == 0, output
    assert f"profile written to {profile}" in output
    assert sorted(path.name for path in profile.iterdir()) == [
        "profile_0001.json",
        "profile_0001.txt",
    ]
    assert json.loads((profile / "profile_0001.json").read_text())["traceEvents"]


@pytest.mark.parametrize("wrapped", [False, True])
def test_messages_are_read_alone_and_with_what_goes_with_them(
    tmp_path: Path, wrapped: bool
) -> None:
    module = export_module(parse_module(VECTOR_LOOP))
    message = hlo_pb2.HloProto(hlo_module=module) if wrapped else module
    program = tmp_path / "loop.pb"
    program.write_bytes(message.SerializeToString())
    code, output = run(program)
    assert code == 0, output
    assert "module loop" in output
    assert "written" not in output
    assert [path.name for path in tmp_path.iterdir()] == ["loop.pb"]


BAD = {
    "empty.pb": (b"", "HloProto with computations, got 0 bytes that are neither"),
    "noise.pb": (b"\xff\xff\xff", "a module must be a serialized HloModuleProto or HloProto"),
    "noise.txt": (b"\xff\xff\xff", "HLO text must be UTF-8"),
    "wrong.hlo": (b"HloModule m\nf { x = f32[] foo() }", "foo %x: an opcode must be one of"),
    "module.onnx": (b"", "a module must be HLO text in .hlo or .txt, an HloModuleProto in .pb or"),
    "dynamic.hlo": (
        b"HloModule m\nENTRY e { ROOT x = f32[<=4] parameter(0) }",
        "compiled at the sizes that it meets when it runs, got dynamic dimensions in m",
    ),
    "away.txt": (None, "No such file or directory"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_compiled_ends_with_2_and_one_line(tmp_path: Path, name: str) -> None:
    data, message = BAD[name]
    if data is not None:
        (tmp_path / name).write_bytes(data)
    code, output = run(tmp_path / name)
    assert code == 2
    assert message in output
    assert output.startswith("xla-server: ")
    assert output.count("\n") == 1


def test_a_program_is_compiled_for_a_gpu_that_is_not_there(tmp_path: Path) -> None:
    program, dump = tmp_path / "loop.hlo", tmp_path / "dump"
    program.write_text(VECTOR_LOOP)
    code, output = run(program, "--capability", "sm_90", "--dump-to", dump)
    assert code == 0, output
    assert "\non the device: " in output
    assert ".target sm_90" in (dump / "kernels_00.ptx").read_text()
    assert (dump / "places.txt").read_text().startswith("on the device: ")


def test_a_program_for_a_gpu_that_is_not_there_is_not_run(tmp_path: Path) -> None:
    program = tmp_path / "loop.hlo"
    program.write_text(VECTOR_LOOP)
    code, output = run(program, "--capability", "sm_90", "--run")
    assert code == EXIT_USAGE
    assert "must be compiled for this machine to be run, got capability sm_90" in output
