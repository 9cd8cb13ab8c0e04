"""The rpcs of programs: CompileModule, ConvertModule, AnalyzeExecutable, ExplainExecutable."""

from collections.abc import Mapping

from xla_contract.stubs import xla_data_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.wire.shape_proto import program_shape_to_proto, shape_from_proto
from xla_server.backends.compile_options import DumpFormat, Pattern
from xla_server.buffers.work import Work
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.calls.method_table import MethodSpec, Unary
from xla_server.rpc.calls.response_memory import Response, accounted_response
from xla_server.rpc.decode.common import handle_in
from xla_server.rpc.decode.module_forms import converted, format_of, read_source
from xla_server.rpc.decode.programs import read_compile_request
from xla_server.rpc.threads.pools import Pool
from xla_server.sessions.runs.explanations import analyse, explain, explanation_bytes
from xla_server.sessions.session import Session


def _compile_module(
    service: Session, request: extension_pb2.CompileModuleRequest, cancellation: Cancellation
) -> extension_pb2.CompileModuleResponse:
    with service.runner.counted_as_compiling(cancellation):
        proto, header = read_source(request.module)
    wanted = read_compile_request(proto, request.execution_options, header=header)
    shapes = [shape_from_proto(shape) for shape in request.input_shape_with_layout]
    handle = service.runner.compile(wanted, shapes, cancellation)
    compiled = service.executables.handles.get(handle)
    return extension_pb2.CompileModuleResponse(
        handle=xla_data_pb2.ExecutionHandle(handle=handle),
        name=compiled.name,
        program_shape=program_shape_to_proto(compiled.program_shape),
    )


def _convert_module(
    service: Session, request: extension_pb2.ConvertModuleRequest, cancellation: Cancellation
) -> extension_pb2.ConvertModuleResponse:
    limits = service.limits
    with service.runner.counted_as_compiling(cancellation):
        return converted(
            request,
            max_bytes=limits.max_message_bytes,
            max_literal_bytes=limits.max_device_bytes,
        )


def _analyze_executable(
    service: Session, request: extension_pb2.AnalyzeExecutableRequest, cancellation: Cancellation
) -> extension_pb2.AnalyzeExecutableResponse:
    compiled, once = analyse(service.runner, handle_in(request, "executable"), cancellation)
    use = compiled.memory
    return extension_pb2.AnalyzeExecutableResponse(
        once=_work(once),
        done=None if compiled.work is None else _work(compiled.work.done),
        memory=extension_pb2.MemoryAnalysis(
            argument_bytes=use.parameters,
            result_bytes=use.results,
            temporary_bytes=use.arena + use.copies,
            constant_bytes=use.constants,
            peak_bytes=use.peak,
            kept_bytes=compiled.kept_bytes,
        ),
    )


def _explain_executable(
    service: Session,
    request: extension_pb2.ExplainExecutableRequest,
    cancellation: Cancellation,
) -> Response:
    limit = explanation_bytes(request.max_bytes, service.limits.max_message_bytes)
    formats = frozenset(map(format_of, request.formats)) or frozenset({DumpFormat.TEXT})
    passes = Pattern(request.pass_pattern) if request.pass_pattern else None

    def made() -> extension_pb2.ExplainExecutableResponse:
        files = explain(
            service.runner,
            handle_in(request, "executable"),
            cancellation,
            formats=formats,
            passes=passes,
            is_profiled=request.profile,
            arguments=[argument.handle for argument in request.arguments],
            max_bytes=limit,
        )
        response = extension_pb2.ExplainExecutableResponse(is_cut=files.is_cut)
        for name, data in files.contents.items():
            response.files.add(name=name, data=data)
        return response

    return accounted_response(service.response_memory, limit, made)


METHODS: Mapping[str, MethodSpec] = {
    "CompileModule": Unary(Pool.COMPILE, _compile_module),
    "ConvertModule": Unary(Pool.COMPILE, _convert_module, is_stateless=True),
    "AnalyzeExecutable": Unary(Pool.COMPILE, _analyze_executable),
    # ExplainExecutable may run the program, which may take long.
    "ExplainExecutable": Unary(Pool.EXECUTE, _explain_executable),
}
"""Methods by the names of the rpcs."""


def _work(work: Work) -> extension_pb2.WorkAnalysis:
    cost = work.cost
    return extension_pb2.WorkAnalysis(
        operations=cost.flops, transcendentals=cost.transcendentals, bytes=work.bytes
    )
