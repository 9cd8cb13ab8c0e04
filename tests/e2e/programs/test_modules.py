"""Programs in every form that is written down, and what a client may ask of an executable."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from grpc import StatusCode

import xla_client as xc
from tests.corpus.jax.programs import lower
from tests.e2e.process import ServerProcess, refused, serving
from tests.e2e.sessions.test_sessions import Extension
from xla_client import Builder, Shape, ops
from xla_client.programs import conversions
from xla_client.programs.computation import as_computation
from xla_contract.stubs import hlo_pb2, xla_data_pb2, xla_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.wire.stablehlo import bytecode_of

TEXT = """HloModule scaled, entry_computation_layout={(f32[2,3]{1,0})->f32[3,2]{0,1}}

ENTRY main {
  x = f32[2,3]{1,0} parameter(0)
  two = f32[] constant(2)
  twos = f32[2,3]{1,0} broadcast(two), dimensions={}
  product = f32[2,3]{1,0} multiply(x, twos)
  ROOT turned = f32[3,2]{0,1} transpose(product), dimensions={1,0}
}
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)
Source = extension_pb2.ModuleSource


server = serving(platforms=("interpreter", "cpu"))


@pytest.fixture
def plain(server: ServerProcess) -> Iterator[Extension]:
    extension = Extension(server.address)
    extension.open()
    yield extension
    extension.close()


def compiled(plain: Extension, **source: Any) -> Any:
    return plain.CompileModule(extension_pb2.CompileModuleRequest(module=Source(**source)))


# The rpcs ------------------------------------------------------------------------------------


def test_a_program_is_compiled_from_text_and_from_bytes(plain: Extension) -> None:
    answer = compiled(plain, hlo_text=TEXT)
    assert answer.name == "scaled"
    # The layout in the module is no request.
    assert list(answer.program_shape.result.layout.minor_to_major) == [1, 0]
    request = extension_pb2.ConvertModuleRequest(module=Source(hlo_text=TEXT))
    request.format = extension_pb2.MODULE_FORMAT_PROTO
    data = plain.ConvertModule(request).module
    whole = hlo_pb2.HloProto(hlo_module=hlo_pb2.HloModuleProto.FromString(data))
    for form in (data, whole.SerializeToString()):
        again = compiled(plain, hlo_module=form)
        assert (again.name, again.program_shape) == (answer.name, answer.program_shape)
        assert again.handle != answer.handle
    options = xla_pb2.ExecutionOptions()
    options.shape_with_output_layout.CopyFrom(answer.program_shape.result)
    options.shape_with_output_layout.layout.minor_to_major[:] = [0, 1]
    requested = plain.CompileModule(
        extension_pb2.CompileModuleRequest(module=Source(hlo_text=TEXT), execution_options=options)
    )
    assert list(requested.program_shape.result.layout.minor_to_major) == [0, 1]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"hlo_text": TEXT.replace("multiply", "multiplie")}, r"7:27"),
        ({"hlo_text": TEXT.replace("x, twos", "x, threes")}, r"7:39"),
        ({"hlo_text": ""}, r"1:1"),
        ({"hlo_module": b"\xff\xff"}, "2 bytes that are neither"),
        ({}, "must hold a module, got none"),
    ],
)
def test_what_is_no_module_is_refused_with_its_position(
    plain: Extension, source: dict[str, Any], message: str
) -> None:
    request = extension_pb2.CompileModuleRequest(module=Source(**source))
    found = refused(StatusCode.INVALID_ARGUMENT, plain.CompileModule, request)
    assert message in found
    assert "Traceback" not in found


def test_the_header_of_a_text_says_the_devices(plain: Extension) -> None:
    text = TEXT.replace("scaled,", "scaled, replica_count=2, num_partitions=3,")
    request = extension_pb2.CompileModuleRequest(module=Source(hlo_text=text))
    found = refused(StatusCode.RESOURCE_EXHAUSTED, plain.CompileModule, request)
    assert "2 replicas x 3 partitions" in found
    request.execution_options.num_replicas = 1
    plain.CompileModule(request)
    kept = plain.ConvertModule(
        extension_pb2.ConvertModuleRequest(
            module=request.module, format=extension_pb2.MODULE_FORMAT_PROTO
        )
    )
    assert (kept.num_replicas, kept.num_partitions) == (2, 3)


def test_a_module_is_written_in_every_form(plain: Extension) -> None:
    def form(wanted: int) -> bytes:
        request = extension_pb2.ConvertModuleRequest(module=Source(hlo_text=TEXT))
        request.format = wanted  # type: ignore[assignment]
        return bytes(plain.ConvertModule(request).module)

    text = form(extension_pb2.MODULE_FORMAT_TEXT)
    assert form(0) == text
    assert b"multiply(" in text
    assert form(extension_pb2.MODULE_FORMAT_DOT).startswith(b"digraph")
    assert b"<html" in form(extension_pb2.MODULE_FORMAT_HTML)
    request = extension_pb2.ConvertModuleRequest(module=Source(hlo_text=TEXT))
    request.format = 99  # type: ignore[assignment]
    assert "MODULE_FORMAT_TEXT" in refused(
        StatusCode.INVALID_ARGUMENT, plain.ConvertModule, request
    )


def test_an_executable_is_explained_to_its_own_session_alone(
    plain: Extension, server: ServerProcess
) -> None:
    handle = compiled(plain, hlo_text=TEXT).handle
    other = Extension(server.address)
    other.open()
    requests = (
        ("AnalyzeExecutable", extension_pb2.AnalyzeExecutableRequest(executable=handle)),
        ("ExplainExecutable", extension_pb2.ExplainExecutableRequest(executable=handle)),
    )
    for name, request in requests:
        assert getattr(plain, name)(request)
        refused(StatusCode.NOT_FOUND, getattr(other, name), request)
        refused(StatusCode.INVALID_ARGUMENT, getattr(plain, name), type(request)())
    other.close()


def test_an_explanation_is_bounded(plain: Extension) -> None:
    handle = compiled(plain, hlo_text=TEXT).handle
    request = extension_pb2.ExplainExecutableRequest(executable=handle, max_bytes=100)
    answer = plain.ExplainExecutable(request)
    assert answer.is_cut
    assert sum(len(file.data) for file in answer.files if file.name != "left_out.txt") <= 100
    for fields, message in (
        ({"max_bytes": -1}, "negative"),
        ({"pass_pattern": "("}, "RE2"),
        ({"formats": [99]}, "MODULE_FORMAT_TEXT"),
        ({"arguments": [xla_data_pb2.GlobalDataHandle(handle=1)]}, "for a profile only"),
        ({"profile": True}, "one argument per parameter, got 0 for 1"),
    ):
        bad = extension_pb2.ExplainExecutableRequest(executable=handle, **fields)  # type: ignore[arg-type]
        assert message in refused(StatusCode.INVALID_ARGUMENT, plain.ExplainExecutable, bad)


# The client ----------------------------------------------------------------------------------


def test_computations_go_to_text_and_back(client: xc.Client) -> None:
    computation = xc.Computation.from_text(TEXT, client)
    assert computation.name == "scaled"
    text = computation.to_text(client)
    assert xc.Computation.from_text(text, client).to_text(client) == text
    np.testing.assert_array_equal(client.compile(text).run(X), 2 * X.T)
    with pytest.raises(xc.InvalidArgumentError, match="7:27"):
        client.compile(TEXT.replace("multiply", "multiplie"))
    with pytest.raises(xc.InvalidArgumentError, match="a client is needed"):
        as_computation(TEXT)
    assert conversions.to_dot(computation.to_bytes(), client).startswith("digraph")
    assert "<html" in conversions.to_html(computation.to_bytes(), client)


def test_jax_s_objects_are_programs(client: xc.Client) -> None:
    import jax
    from jax import export

    def f(x: Any, y: Any) -> Any:
        return jax.numpy.sin(x) @ y.T

    lowered = jax.jit(f).lower(X, X)
    static, symbolic = (
        (jax.ShapeDtypeStruct(shape, np.float32),) * 2
        for shape in ((2, 3), export.symbolic_shape("a, b"))
    )
    exported = export.export(jax.jit(f))(*static)
    several = export.export(jax.jit(f), platforms=["tpu", "cpu"])(*static)
    elsewhere = export.export(jax.jit(f), platforms=["tpu", "cuda"])(*static)
    refined = export.export(jax.jit(export.export(jax.jit(f))(*symbolic).call))(*static)
    expected = np.sin(X) @ X.T
    for program in (
        lowered,
        lowered.compiler_ir("hlo"),
        lowered.compiler_ir(),
        lowered.as_text("hlo"),
        lowered.as_text(),
        exported,
        several,
        elsewhere,
        exported.mlir_module(),
        exported.mlir_module_serialized,
        refined,
        refined.mlir_module(),
        bytecode_of(jax.jit(refined.call).lower(X, X).compiler_ir()),
        lower(f, X, X),
        xc.Computation.from_any(lowered).proto,
    ):
        np.testing.assert_allclose(client.compile(program).run(X, X), expected, rtol=1e-5)
    with pytest.raises(xc.UnimplementedError, match="a size or a bound") as caught:
        client.compile(export.export(jax.jit(f))(*symbolic))
    assert "jax.jit(exported.call)" in caught.value.hint
    with pytest.raises(TypeError, match="computation must be") as mistaken:
        client.compile(lowered.compile())
    assert "without compile()" in mistaken.value.hint  # type: ignore[attr-defined]


def test_what_is_no_program_is_said_to_be_none(client: xc.Client) -> None:
    with pytest.raises(TypeError, match=r"computation must be a Computation, .* got 3 \(int\)"):
        client.compile(3)
    with pytest.raises(xc.InvalidArgumentError, match="must be one that jaxlib converts"):
        client.compile("module { func.func @main( }")


def test_stablehlo_without_jaxlib_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("jaxlib", "jaxlib._jax", "jaxlib.xla_extension"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(xc.UnimplementedError, match="got no jaxlib that can") as caught:
        as_computation(b"ML\xefR...")
    assert "pip install jaxlib" in caught.value.hint


def softmax() -> xc.Computation:
    builder = Builder("softmax")
    x = builder.parameter(0, Shape.parse("f32[64,32]"))
    scalars = Builder("add")
    zero = Shape.parse("f32[]")
    total = scalars.build(scalars.parameter(0, zero) + scalars.parameter(1, zero))
    raised = ops.exp(x)
    sums = ops.reduce(raised, builder.constant(np.float32(0)), total, (1,))
    return builder.build(ops.div(raised, sums, broadcast_dimensions=(0,)))


def test_an_executable_says_what_it_costs(client: xc.Client, server: ServerProcess) -> None:
    run = client.compile(softmax())
    cost, memory = run.cost_analysis(), run.memory_analysis()
    assert cost.once.transcendentals == 64 * 32
    assert cost.once.operations > 64 * 32
    assert cost.once.bytes > 2 * 64 * 32 * 4
    if server.ready["platform"] == "cpu":
        assert cost.done is not None
        assert cost.done.transcendentals == 64 * 32
    else:
        assert cost.done is None
    assert memory.argument_bytes == memory.result_bytes == 64 * 32 * 4
    assert memory.peak_bytes >= 2 * 64 * 32 * 4
    assert memory.kept_bytes >= 0


def test_dumps_and_profiles_come_in_the_answer(
    client: xc.Client, server: ServerProcess, tmp_path: Path
) -> None:
    run = client.compile(softmax())
    value = np.linspace(0, 1, 64 * 32, dtype=np.float32).reshape(64, 32)
    explanation = run.explain(value, passes=".*", formats=("text", "dot", "html", "proto"))
    assert not explanation.is_cut
    assert "exponential" in explanation.text("input.txt")
    assert explanation.text("input.dot").startswith("digraph")
    assert "<html" in explanation.text("input.html")
    explanation.save(tmp_path / "softmax")
    assert {path.name for path in (tmp_path / "softmax").iterdir()} == set(explanation.files)
    with pytest.raises(KeyError, match="module_00"):
        explanation.text("absent")
    if server.ready["platform"] == "cpu":
        assert "def kernel" in explanation.text("kernel_00")
        assert "optimised.txt" in str(explanation)
        assert explanation.text("buffers.txt")
        assert "kernel" in explanation.text("profile_0001.txt")
        assert json.loads(explanation.text("profile_0001.json"))["traceEvents"]
    assert not any("profile" in name for name in run.explain().files)
    with pytest.raises(xc.InvalidArgumentError, match="formats must be of text, proto"):
        run.explain(formats=("pdf",))
    np.testing.assert_allclose(run.run(value).sum(axis=1), 1, rtol=1e-5)
