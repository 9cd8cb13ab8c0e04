"""Programs from files: HLO text, serialized HLO, and StableHLO where jaxlib is installed."""

import re
import sys
from pathlib import Path

from xla_contract.errors import InvalidArgumentError, XlaError
from xla_contract.wire.stablehlo import from_stablehlo, is_stablehlo
from xla_server.ir.importer import import_module
from xla_server.ir.module import HloModule
from xla_server.ir.text.parser import parse_module
from xla_server.ir.verification.verifier import verify
from xla_server.rpc.decode.module_forms import read_message

STANDARD_INPUT = "-"
"""The path that means standard input, whose first bytes determine its format."""

_HLO_TEXT = re.compile(rb"\s*(//[^\n]*\n\s*|/\*.*?\*/\s*)*HloModule\b", re.DOTALL)
_MLIR_TEXT = re.compile(
    rb"\s*(//[^\n]*\n\s*|#[^\n]*\n\s*)*(module|\"builtin\.module\"|func\.func)\b"
)
_POSITION = re.compile(r" at (\d+:\d+)$")


def load_module(path: Path) -> HloModule:
    """Return the verified module in a file, or on standard input if the path is `-`.

    The file's suffix gives the format: .txt and .hlo hold HLO text, .pb a serialized HloModuleProto
    or HloProto, .mlir StableHLO as text or bytecode.

    Raises XlaError, which names the file and for HLO text line and column, for what is no such
    module; UnimplementedError for StableHLO without jaxlib; OSError for what cannot be read.
    """
    if str(path) == STANDARD_INPUT:
        name, data = "standard input", sys.stdin.buffer.read()
        kind = _kind_of(data)
    else:
        name, kind = str(path), path.suffix
        if kind not in _READERS:
            raise InvalidArgumentError(
                "a module must be HLO text in .hlo or .txt, an HloModuleProto in .pb or StableHLO "
                f"in .mlir, got {path.name}"
            )
        data = path.read_bytes()
    try:
        return _READERS[kind](data)
    except XlaError as error:
        raise _in_file(error, name) from error


def _in_file(error: XlaError, name: str) -> XlaError:
    """Return the error with the file in front of its message, and with line and column if known."""
    position = _POSITION.search(error.message)
    where = f"{name}:{position[1]}" if position is not None else name
    message = error.message[: position.start()] if position is not None else error.message
    return type(error)(f"{where}: {message}", hint=error.hint)


def _kind_of(data: bytes) -> str:
    if is_stablehlo(data) or _MLIR_TEXT.match(data):
        return ".mlir"
    return ".hlo" if _HLO_TEXT.match(data) else ".pb"


def _read_text(data: bytes) -> HloModule:
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"HLO text must be UTF-8, got {error}") from error
    return parse_module(text)


def _read_message(data: bytes) -> HloModule:
    module = import_module(read_message(data))
    verify(module)
    return module


def _read_stablehlo(data: bytes) -> HloModule:
    return _read_message(from_stablehlo(data))


_READERS = {
    ".hlo": _read_text,
    ".txt": _read_text,
    ".pb": _read_message,
    ".mlir": _read_stablehlo,
}
