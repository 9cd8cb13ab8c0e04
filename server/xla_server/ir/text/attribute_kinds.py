"""The kinds of attribute values in HLO text, each with its writer and its reader."""

import dataclasses
import enum
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from xla_contract.stubs import xla_data_pb2
from xla_contract.types.dimension_numbers import (
    ConvolutionDimensionNumbers,
    PaddingConfig,
    PaddingDimension,
    Window,
    WindowDimension,
)
from xla_server.ir.text.scanner import HloReader, quoted


@dataclasses.dataclass(frozen=True, slots=True)
class AttributeKind:
    """Notation of a value in HLO text: `read(reader)` is the inverse of `write(value)`."""

    write: Callable[[Any], str]
    read: Callable[[HloReader], Any]


def words(values: Mapping[Any, str], *, any_case: bool = False) -> AttributeKind:
    """Return the kind of values written as words; capitals are accepted if `any_case`."""
    found = {word: value for value, word in values.items()}
    rule = f"the value must be one of {', '.join(found)}"

    def read(reader: HloReader) -> Any:
        def word(what: str) -> str:
            text = reader.word(what)
            return text.lower() if any_case else text

        return reader.known(word, "a word", found, rule)

    return AttributeKind(values.__getitem__, read)


def members(kind: type[enum.Enum]) -> AttributeKind:
    """Return the kind of an enumeration's members, written by name."""
    return words({member: member.name for member in kind})


def in_braces(kind: AttributeKind) -> AttributeKind:
    """Return the kind of tuples, written {value,value ...}."""
    return AttributeKind(
        lambda values: "{" + ",".join(map(kind.write, values)) + "}",
        lambda reader: tuple(reader.braced(lambda: kind.read(reader))),
    )


def _read_float(reader: HloReader) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(reader.real()))


def _read_single(reader: HloReader) -> int:
    reader.expect("{")
    number = reader.signed("one dimension number")
    reader.expect("}")
    return number


_SIZES = re.compile(r"[0-9]{1,18}(?:x[0-9]{1,18})*")
_PAD = r"-?[0-9]{1,18}_-?[0-9]{1,18}(?:_-?[0-9]{1,18})?"
_PADS = re.compile(rf"{_PAD}(?:x{_PAD})*")
_WINDOW_FIELDS = {
    "size": "size",
    "stride": "stride",
    "lhs_dilate": "base_dilation",
    "rhs_dilate": "window_dilation",
    "rhs_reversal": "window_reversal",
}


def _read_window(reader: HloReader) -> Window:
    reader.space()
    start = reader.at
    columns: dict[str, list[int]] = {}
    reader.expect("{")
    while not reader.skip("}"):
        name = reader.word("size, stride, pad, lhs_dilate, rhs_dilate, rhs_reversal or }")
        reader.expect("=")
        if name == "pad":
            pads = [pad.split("_") for pad in reader.match(_PADS, "low_high x ...")[0].split("x")]
            columns["padding_low"] = [int(pad[0]) for pad in pads]
            columns["padding_high"] = [int(pad[1]) for pad in pads]
        elif name in _WINDOW_FIELDS:
            texts = reader.match(_SIZES, "number x number ...")[0].split("x")
            columns[_WINDOW_FIELDS[name]] = [int(text) for text in texts]
        else:
            reader.refuse("a window has no such part", repr(name), start)
    rank = len(columns.get("size", ()))
    if any(len(column) != rank for column in columns.values()):
        reader.refuse(
            "every part of a window must have one entry for each dimension",
            reader.text[start : reader.at],
            start,
        )
    if "window_reversal" in columns:
        columns["window_reversal"] = [bool(flag) for flag in columns["window_reversal"]]
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return Window(tuple(WindowDimension(**row) for row in rows))


def _read_padding(reader: HloReader) -> PaddingConfig:
    reader.space()
    found = _PADS.match(reader.text, reader.at)
    if found is None:
        return PaddingConfig()
    reader.at = found.end()
    numbers = [map(int, part.split("_")) for part in found[0].split("x")]
    return PaddingConfig(tuple(PaddingDimension(*part) for part in numbers))


_DIM_LABELS = re.compile(r"([0-9bf]+)_([0-9io]+)->([0-9bf]+)")


def _read_dim_labels(reader: HloReader) -> ConvolutionDimensionNumbers:
    start = reader.at
    found = reader.match(_DIM_LABELS, "dimension labels such as b01f_01io->b01f")
    parts: list[Any] = []
    for text, first, second in ((found[1], "b", "f"), (found[2], "i", "o"), (found[3], "b", "f")):
        spatial = "".join(str(number) for number in range(len(text) - 2))
        if sorted(text) != sorted(spatial + first + second):
            reader.refuse(
                f"labels must be {first}, {second} and the numbers from 0, each once", text, start
            )
        parts += [text.index(first), text.index(second), tuple(map(text.index, spatial))]
    return ConvolutionDimensionNumbers(*parts)


def _write_slices(boxes: Sequence[tuple[int, int, int]]) -> str:
    texts = (f"[{a}:{b}]" if step == 1 else f"[{a}:{b}:{step}]" for a, b, step in boxes)
    return "{" + ", ".join(texts) + "}"


def _read_slice(reader: HloReader) -> tuple[int, int, int]:
    reader.expect("[")
    start = reader.signed()
    reader.expect(":")
    limit = reader.signed()
    step = reader.signed() if reader.skip(":") else 1
    reader.expect("]")
    return start, limit, step


def _write_json_or_string(data: bytes) -> str:
    if data.startswith(b"{"):
        try:
            reader = HloReader(data.decode())
            reader.dictionary()
            if reader.at == len(reader.text) and reader.text.isprintable():
                return reader.text
        except (UnicodeDecodeError, ValueError):
            pass
    return quoted(data)


def _read_json_or_string(reader: HloReader) -> bytes:
    return reader.dictionary() if reader.peek("{") else reader.string()


BOOL = AttributeKind(lambda value: str(bool(value)).lower(), HloReader.boolean)
INTEGER = AttributeKind(str, HloReader.signed)
NARROW = AttributeKind(str, HloReader.narrow)
FLOAT = AttributeKind("{:.9g}".format, _read_float)
DOUBLE = AttributeKind(repr, HloReader.real)
INTEGERS = in_braces(INTEGER)
SINGLE = AttributeKind(lambda number: f"{{{number}}}", _read_single)
INTEGER_PAIRS = in_braces(INTEGERS)
BYTES = AttributeKind(quoted, HloReader.string)
STRING = AttributeKind(
    lambda text: quoted(text.encode()), lambda reader: reader.string().decode(errors="replace")
)
SHAPE = AttributeKind(str, lambda reader: reader.shape())
SHAPES = in_braces(SHAPE)
_Precision = xla_data_pb2.PrecisionConfig.Precision
PRECISIONS = in_braces(
    words({number: name.lower() for name, number in _Precision.items()}, any_case=True)
)
WINDOW = AttributeKind(lambda window: str(window) if window.dimensions else "{}", _read_window)
PADDING = AttributeKind(str, _read_padding)
DIM_LABELS = AttributeKind(str, _read_dim_labels)
SLICES = AttributeKind(
    _write_slices, lambda reader: tuple(reader.braced(lambda: _read_slice(reader)))
)
JSON_OR_STRING = AttributeKind(_write_json_or_string, _read_json_or_string)
