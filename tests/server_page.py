"""`make options`: write the table of options on docs/SERVER.md from the fields of Settings."""

import enum
import re
from pathlib import Path
from typing import Any

from annotated_types import Ge, Gt, Le

from tests.command_line import command_line
from xla_server.app.options.settings import Settings, default_text, notation

PATH = Path(__file__).parents[1] / "docs" / "SERVER.md"
_TABLE = re.compile(r"^\| option \|.*?\n(?=\n)", re.DOTALL | re.MULTILINE)
_KINDS = {int: "integer", float: "number", bool: "switch", str: "text", tuple[str, ...]: "names"}


def _value(name: str) -> str:
    """Return the type, unit and bounds of a field."""
    field = Settings.model_fields[name]
    kind: Any = field.annotation
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return ", ".join(kind)
    written = notation(name)
    text = "seconds" if name.endswith("_seconds") else _KINDS[kind]
    text = text if written is None else written.replace("|", " or ")
    signs: dict[type, Any] = {Ge: ("≥", "ge"), Gt: (">", "gt"), Le: ("≤", "le")}
    bounds = [
        f"{signs[type(each)][0]} {getattr(each, signs[type(each)][1])}"
        for each in field.metadata
        if type(each) in signs
    ]
    return " ".join((text, ", ".join(bounds))).strip()


def page(text: str) -> str:
    """Return the text of the page with a current table."""
    rows = ["| option | value | default | meaning |", "|---|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = default_text(name)
        cells = (f"`--{name.replace('_', '-')}`", _value(name), default, str(field.description))
        rows.append(f"| {' | '.join(cells)} |")
    table = "".join(f"{row}\n" for row in rows)
    return _TABLE.sub(lambda _: table, text, count=1)


if __name__ == "__main__":
    command_line("tests.server_page", __doc__).parse_args()
    PATH.write_text(page(PATH.read_text(encoding="utf-8")), encoding="utf-8")
