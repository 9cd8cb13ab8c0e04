"""Formats of modules: HLO text, graphs and StableHLO, from and to serialized HLO.

A server converts HLO. StableHLO is converted by jaxlib, where that is installed.
"""

import importlib
from typing import TYPE_CHECKING, Any, Protocol

from xla_contract.errors import InvalidArgumentError
from xla_contract.stubs import xla_extension_pb2 as extension_pb2
from xla_contract.stubs.xla_extension_pb2 import ConvertModuleResponse

if TYPE_CHECKING:
    from xla_contract.types.devices.device_grid import DeviceGrid

FILE_HINT = (
    "A file is read first: path.read_text() of HLO text (.hlo, .txt), path.read_bytes() of others "
    "(.pb, .mlir)."
)
"""Advice for the name of a file where a program is needed."""

_FILE_ENDINGS = (".hlo", ".txt", ".pb", ".mlir")


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
        from xla_contract.wire.stablehlo import from_stablehlo

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


def from_bytes(data: bytes) -> bytes:
    """Return the serialized HLO of bytes that hold it, or StableHLO; raises as `from_stablehlo`."""
    from xla_contract.wire.stablehlo import from_stablehlo, is_stablehlo

    return from_stablehlo(data) if is_stablehlo(data) else data


def from_mlir(module: Any) -> bytes:
    """Return the serialized HLO of a module of MLIR's bindings; raises as `from_stablehlo`."""
    from xla_contract.wire.stablehlo import bytecode_of, from_stablehlo

    return from_stablehlo(bytecode_of(module))


def from_exported(exported: Any) -> bytes:
    """Return the serialized HLO of a jax.export.Exported.

    One for several platforms takes the platform's number as its first argument, so it is lowered
    again, for "cpu" where that is one of them. Raises as `from_stablehlo`.
    """
    platforms = exported.platforms
    if len(platforms) == 1:
        return from_bytes(exported.mlir_module_serialized)
    jax = importlib.import_module("jax")
    arguments, named = jax.tree.unflatten(exported.in_tree, exported.in_avals)
    chosen = "cpu" if "cpu" in platforms else platforms[0]
    traced = jax.jit(exported.call).trace(*arguments, **named)
    return from_mlir(traced.lower(lowering_platforms=(chosen,)).compiler_ir())
