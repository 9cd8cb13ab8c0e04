"""Formats of modules: HLO text, graphs and StableHLO, from and to serialized HLO.

A server converts HLO. StableHLO is converted by jaxlib, where that is installed.
"""

import contextlib
import importlib
import io
from typing import TYPE_CHECKING, Any, Protocol

from xla_contract.errors import InvalidArgumentError, UnimplementedError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.stubs.xla_extension_pb2 import ConvertModuleResponse

if TYPE_CHECKING:
    from xla_contract.types.devices.device_grid import DeviceGrid

_BYTECODE = b"ML\xefR"
"""The first bytes of MLIR's bytecode, in which StableHLO is serialized."""

_CONVERTERS = ("jaxlib._jax", "jaxlib.xla_extension")
"""Modules that may hold jaxlib's converter; the name depends on its version."""


_ERRORS = (RuntimeError, ValueError, TypeError)
"""Classes of jaxlib's errors, which depend on its version, or that they derive from."""

FILE_HINT = (
    "A file is read first: path.read_text() of HLO text (.hlo, .txt), path.read_bytes() of others "
    "(.pb, .mlir)."
)
"""Advice for the name of a file where a program is needed."""

_FILE_ENDINGS = (".hlo", ".txt", ".pb", ".mlir")

_UNBOUNDED = b"\x80" * 9 + b"\x01"
"""The size of a dimension without a bound, -2^63, in a message."""


class ModuleConverter(Protocol):
    """A Client, whose server converts modules between their formats."""

    def convert_module(
        self, source: extension_pb2.ModuleSource, form: extension_pb2.ModuleFormat
    ) -> ConvertModuleResponse:
        """Return the module in another form, which the server writes."""


def from_text(text: str, client: ModuleConverter | None) -> tuple[bytes, "DeviceGrid | None"]:
    """Return the serialized module of HLO text, with the replicas and partitions of its header.

    A server reads HLO. StableHLO as text may be given, too.

    Raises:
        InvalidArgumentError: It is neither, or HLO without a client.
    """
    if not text.lstrip().startswith("HloModule") and "func.func" in text:
        return from_stablehlo(text), None
    if text.endswith(_FILE_ENDINGS) and "\n" not in text:
        raise InvalidArgumentError(
            f"HLO text must begin with HloModule, got {text!r:.200}", hint=FILE_HINT
        )
    if client is None:
        raise InvalidArgumentError(
            "HLO text is read by a server, so a client is needed, got none",
            hint="Call client.compile(text) or Computation.from_text(text, client).",
        )
    source = extension_pb2.ModuleSource(hlo_text=text)
    answer = client.convert_module(source, extension_pb2.MODULE_FORMAT_PROTO)
    # A server from before these fields leaves them 0.
    replicas, partitions = answer.num_replicas or 1, answer.num_partitions or 1
    if replicas == partitions == 1:
        return answer.module, None
    from xla_contract.types.devices.device_grid import DeviceGrid

    return answer.module, DeviceGrid(replicas, partitions)


def to_text(module: bytes, client: ModuleConverter) -> str:
    """Return a serialized module as HLO text; raises UnimplementedError if the server cannot."""
    return _written(module, client, extension_pb2.MODULE_FORMAT_TEXT)


def to_dot(module: bytes, client: ModuleConverter) -> str:
    """Return the graph of a module in the language of Graphviz; raises as `to_text`."""
    return _written(module, client, extension_pb2.MODULE_FORMAT_DOT)


def to_html(module: bytes, client: ModuleConverter) -> str:
    """Return the graph of a module as a page that needs nothing else; raises as `to_text`."""
    return _written(module, client, extension_pb2.MODULE_FORMAT_HTML)


def _written(module: bytes, client: ModuleConverter, form: extension_pb2.ModuleFormat) -> str:
    source = extension_pb2.ModuleSource(hlo_module=module)
    return client.convert_module(source, form).module.decode()


def is_stablehlo(data: bytes) -> bool:
    """Return whether these bytes are StableHLO, as MLIR's bytecode."""
    return data.startswith(_BYTECODE)


def from_stablehlo(module: str | bytes) -> bytes:
    """Return the serialized HLO of a module of StableHLO.

    Dynamic shapes that follow from those of the arguments are refined, as jax does.

    Raises:
        InvalidArgumentError: jaxlib cannot convert it.
        UnimplementedError: jaxlib is not installed.
    """
    converter = _converter()
    found, failure = b"", None
    try:
        found = _translated(converter, module)
    except _ERRORS as error:
        failure = error
    if failure is not None or _UNBOUNDED in found:
        try:
            found, failure = _translated(converter, _refined(converter, module)), None
        except (*_ERRORS, ImportError, AttributeError):
            # Arguments have dynamic shapes, which the server refuses, or the first failure remains.
            pass
    if failure is not None:
        raise InvalidArgumentError(
            f"a module of StableHLO must be one that jaxlib converts, got: {failure}",
            hint="Shapes must be static: export for the sizes that are used.",
        )
    return found


def from_exported(exported: Any) -> bytes:
    """Return the serialized HLO of a jax.export.Exported.

    One for several platforms takes the platform's number as its first argument, so it is lowered
    again, for "cpu" where that is one of them. Raises as `from_stablehlo`.
    """
    platforms = exported.platforms
    if len(platforms) == 1:
        return from_stablehlo(exported.mlir_module_serialized)
    jax = importlib.import_module("jax")
    arguments, named = jax.tree.unflatten(exported.in_tree, exported.in_avals)
    chosen = "cpu" if "cpu" in platforms else platforms[0]
    traced = jax.jit(exported.call).trace(*arguments, **named)
    return from_stablehlo(bytecode_of(traced.lower(lowering_platforms=(chosen,)).compiler_ir()))


def bytecode_of(module: Any) -> bytes:
    """Return the bytecode of a module of MLIR's Python bindings."""
    code = io.BytesIO()
    module.operation.write_bytecode(code)
    return code.getvalue()


def _translated(converter: Any, module: str | bytes) -> bytes:
    converted = converter.mlir_module_to_xla_computation(
        module, use_tuple_args=False, return_tuple=False
    )
    serialized: bytes = converted.as_serialized_hlo_module_proto()
    return serialized


def _refined(converter: Any, module: str | bytes) -> bytes:
    """Return the module with static shapes instead of those that its arguments determine."""
    if isinstance(module, bytes):
        # Bytecode that is no portable artifact is refined as it is.
        with importlib.import_module("jaxlib.mlir.ir").Context(), contextlib.suppress(*_ERRORS):
            module = bytecode_of(converter.deserialize_portable_artifact(module))
    source = module if isinstance(module, bytes) else module.encode()
    refined: bytes = converter.refine_polymorphic_shapes(source)
    return refined


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
