"""StableHLO to serialized HLO, by XLA's own converter, where jaxlib is installed."""

import contextlib
import importlib
import io
import re
from typing import Any

from xla_contract.errors import InvalidArgumentError, UnimplementedError

_BYTECODE = b"ML\xefR"
"""The first bytes of MLIR's bytecode, in which StableHLO is serialized."""

_CONVERTERS = ("jaxlib._jax", "jaxlib.xla_extension")
"""Modules that may hold jaxlib's converter; the name depends on its version."""

_ERRORS = (RuntimeError, ValueError, TypeError)
"""Classes of jaxlib's errors, which depend on its version, or that they derive from."""

_POSITION = re.compile(r"^(?:[A-Z_]+: )?-:(\d+:\d+): (?:error: )?(.*)$")
"""The beginning of a converter's error: status, file, line and column."""

_UNBOUNDED = b"\x80" * 9 + b"\x01"
"""The size of a dimension without a bound, -2^63, in a message."""


def is_stablehlo(data: bytes) -> bool:
    """Return whether these bytes are StableHLO, as MLIR's bytecode."""
    return data.startswith(_BYTECODE)


def from_stablehlo(module: str | bytes) -> bytes:
    """Return the serialized HLO of a module of StableHLO, given as text or as bytecode.

    Dynamic shapes that follow from those of the arguments are refined, as jax does.

    Raises:
        InvalidArgumentError: jaxlib cannot convert it. The message ends with line and column
            where the converter says them.
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
        # The first line has position and reason; the others are about versions of StableHLO.
        reason = _POSITION.sub(r"\2 at \1", str(failure).partition("\n")[0])
        raise InvalidArgumentError(
            f"a module of StableHLO must be one that jaxlib converts, got {reason}",
            hint="Shapes must be static: export for the sizes that are used.",
        )
    return found


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
    source = module if isinstance(module, bytes) else module.encode()
    if is_stablehlo(source):
        # Bytecode that is no portable artifact is refined as it is.
        with importlib.import_module("jaxlib.mlir.ir").Context(), contextlib.suppress(*_ERRORS):
            source = bytecode_of(converter.deserialize_portable_artifact(source))
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
        hint="Install it (pip install jaxlib), or use HLO: "
        'jax.jit(f).lower(*args).compiler_ir("hlo").as_serialized_hlo_module_proto().',
    )
