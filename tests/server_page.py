"""`make options`: write the tables of options and of other variables on docs/SERVER.md."""

import re
from pathlib import Path
from typing import Any

from annotated_types import Ge, Gt, Le

from tests.command_line import command_line
from xla_host.environment_variables import VARIABLES
from xla_server.app.options.settings import Settings, default_text, notation

PATH = Path(__file__).parents[1] / "docs" / "SERVER.md"
_TABLE = re.compile(r"^\| option \|.*?\n(?=\n)", re.DOTALL | re.MULTILINE)
_VARIABLES = re.compile(r"^\| variable \|.*?\n(?=\n)", re.DOTALL | re.MULTILINE)


def _value(name: str) -> str:
    """Return the type, unit and bounds of a field."""
    field = Settings.model_fields[name]
    text = notation(name).replace("|", " or ")
    signs: dict[type, Any] = {Ge: ("≥", "ge"), Gt: (">", "gt"), Le: ("≤", "le")}
    bounds = [
        f"{signs[type(each)][0]} {getattr(each, signs[type(each)][1])}"
        for each in field.metadata
        if type(each) in signs
    ]
    return " ".join((text, ", ".join(bounds))).strip()


def page(text: str) -> str:
    """Return the text of the page with current tables of the declared options and variables."""
    rows = ["| option | value | default | meaning |", "|---|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = default_text(name)
        cells = (f"`--{name.replace('_', '-')}`", _value(name), default, str(field.description))
        rows.append(f"| {' | '.join(cells)} |")
    variables = ["| variable | read for |", "|---|---|"]
    variables += [f"| `{each.name}` | {each.purpose} |" for each in VARIABLES]
    return _replaced(_TABLE, rows, _replaced(_VARIABLES, variables, text))


def _replaced(table: re.Pattern[str], rows: list[str], text: str) -> str:
    written = "".join(f"{row}\n" for row in rows)
    return table.sub(lambda _: written, text, count=1)


if __name__ == "__main__":
    command_line("tests.server_page", __doc__).parse_args()
    PATH.write_text(page(PATH.read_text(encoding="utf-8")), encoding="utf-8")
