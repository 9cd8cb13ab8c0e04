"""Programs that others have written down -> computations: HLO text, JAX's objects, StableHLO.

JAX is never imported: its objects are known by what they can do. StableHLO is converted by jaxlib,
where that is installed.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Any, TypeAlias

from xla_client.coercion.numbers import described
from xla_client.programs.computation import Computation
from xla_contract.errors import ArgumentTypeError, InvalidArgumentError, UnimplementedError
from xla_contract.stubs import hlo_pb2
from xla_contract.stubs import xla_extension_pb2 as extension_pb2

if TYPE_CHECKING:
    from xla_client.client import Client

ProgramLike: TypeAlias = Any
"""A program in one of these forms: a Computation; a Builder, whose last instruction is the result;
an Op, which is the result; HLO as a message, as its bytes or as text; StableHLO as text or bytes.

Objects of XLA's Python bindings, of `jax.jit(f).lower(...)` and of `jax.export.export(f)(...)`
count, too."""

_BYTECODE = b"ML\xefR"
"""The first bytes of MLIR's bytecode, in which StableHLO is serialized."""

_CONVERTERS = ("jaxlib._jax", "jaxlib.xla_extension")
"""Modules that may hold jaxlib's converter; the name depends on its version."""

_ACCEPTED = (
    "a Computation, a Builder or an Op, an HloModuleProto or its bytes, HLO text, StableHLO, a "
    "jax.stages.Lowered or a jax.export.Exported"
)


def as_computation(program: ProgramLike, client: "Client | None" = None) -> Computation:
    """Return a program in whatever form as a Computation.

    Args:
        program: The program.
        client: Its server reads HLO text; needed for nothing else.

    Raises:
        InvalidArgumentError: It is no program. For HLO text the message has line and column.
        UnimplementedError: It is StableHLO and jaxlib is not installed.
        ArgumentTypeError: It is of a type that no program has.
    """
    building = sys.modules.get("xla_client.programs.builder")
    if building is not None and isinstance(program, building.Builder):
        program = program.build()
    elif building is not None and isinstance(program, building.Op):
        program = program.builder.build(program)
    if isinstance(program, Computation):
        return program
    if isinstance(program, hlo_pb2.HloModuleProto):
        return Computation.from_proto(program)
    if isinstance(program, bytes | bytearray | memoryview):
        data = bytes(program)
        return _of_stablehlo(data) if data.startswith(_BYTECODE) else _of_bytes(data)
    if isinstance(program, str):
        return _of_text(program, client)
    if hasattr(program, "as_serialized_hlo_module_proto"):
        return _of_bytes(program.as_serialized_hlo_module_proto())
    if hasattr(program, "compiler_ir"):
        return _of_bytes(program.compiler_ir("hlo").as_serialized_hlo_module_proto())
    if hasattr(program, "mlir_module_serialized"):
        return _of_stablehlo(program.mlir_module_serialized)
    raise ArgumentTypeError(
        f"computation must be {_ACCEPTED}, got {described(program)}", hint=_advice(program)
    )


def _advice(program: object) -> str:
    if hasattr(program, "lower"):
        return "A function of jax.jit becomes a program for arguments: f.lower(x)."
    if callable(program):
        return (
            "A function becomes a program for arguments: jax.jit(f).lower(x), or with a Builder "
            "builder.build(f(builder.parameter(0, shape)))."
        )
    return ""


def to_text(computation: Computation, client: "Client") -> str:
    """Return a computation as HLO text; raises UnimplementedError where the server cannot tell."""
    text: bytes = _converted(computation, client, extension_pb2.MODULE_FORMAT_TEXT)
    return text.decode()


def to_dot(computation: Computation, client: "Client") -> str:
    """Return the graph of a computation in the language of Graphviz; raises as `to_text`."""
    return _converted(computation, client, extension_pb2.MODULE_FORMAT_DOT).decode()


def to_html(computation: Computation, client: "Client") -> str:
    """Return the graph of a computation as a page that needs nothing else; raises as `to_text`."""
    return _converted(computation, client, extension_pb2.MODULE_FORMAT_HTML).decode()


def _of_bytes(data: bytes) -> Computation:
    return Computation.from_serialized(data)


def _of_text(text: str, client: "Client | None") -> Computation:
    if not text.lstrip().startswith("HloModule") and "func.func" in text:
        return _of_stablehlo(text)
    if client is None:
        raise InvalidArgumentError(
            "HLO text is read by a server, so a client is needed, got none",
            hint="Call client.compile(text) or Computation.from_text(text, client).",
        )
    source = extension_pb2.ModuleSource(hlo_text=text)
    return _of_bytes(_convert(source, client, extension_pb2.MODULE_FORMAT_PROTO))


def _converted(
    computation: Computation, client: "Client", form: extension_pb2.ModuleFormat
) -> bytes:
    return _convert(extension_pb2.ModuleSource(hlo_module=computation.to_bytes()), client, form)


def _convert(
    source: extension_pb2.ModuleSource, client: "Client", form: extension_pb2.ModuleFormat
) -> bytes:
    session = client._session
    if extension_pb2.CAPABILITY_MODULES not in session.transport.capabilities:
        raise UnimplementedError(
            "a server must have CAPABILITY_MODULES to read and write HLO text, got one without"
        )
    request = extension_pb2.ConvertModuleRequest(module=source, format=form)
    data: bytes = session.call("ConvertModule", request).module
    return data


def _of_stablehlo(module: str | bytes) -> Computation:
    converter = _converter()
    try:
        converted = converter.mlir_module_to_xla_computation(
            module, use_tuple_args=False, return_tuple=False
        )
    # The class of its errors depends on jaxlib's version, and derives from one of these.
    except (RuntimeError, ValueError, TypeError) as error:
        raise InvalidArgumentError(
            f"a module of StableHLO must be one that jaxlib converts, got: {error}",
            hint="Shapes must be static: export for the sizes that are used.",
        ) from None
    return _of_bytes(converted.as_serialized_hlo_module_proto())


def _converter() -> Any:
    for name in _CONVERTERS:
        try:
            return importlib.import_module(name).mlir
        except (ImportError, AttributeError):
            continue
    raise UnimplementedError(
        "StableHLO is converted to HLO by jaxlib, got no jaxlib that can",
        hint="Install it (pip install jaxlib), or send HLO: "
        'jax.jit(f).lower(*args).compiler_ir("hlo").as_serialized_hlo_module_proto().',
    )
