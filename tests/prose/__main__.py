"""Print the faults of prose in docstrings and comments; exit with 1 if there are any.

python -m tests.prose        check server, client, protos and tests
python -m tests.prose PATH   check the modules below a directory, or one module
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from tests.command_line import command_line
from tests.prose.rules import Fault, faults

ROOT = Path(__file__).parents[2]
SOURCES = (
    "server/xla_server",
    "client/xla_client",
    "protos/xla_contract",
    "host/xla_host",
    "tests",
)
_GENERATED = ROOT / "protos/xla_contract/stubs"


def found_below(path: Path) -> Iterator[tuple[Path, Fault]]:
    """Yield the faults of all modules below a path of the tree, with the module's path."""
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    for file in files:
        if not file.is_relative_to(_GENERATED):
            for fault in faults(file.read_text(encoding="utf-8")):
                yield file.relative_to(ROOT), fault


def main() -> int:
    """Print the faults below the paths of the command line; return the exit status."""
    parser = command_line("tests.prose", __doc__)
    parser.add_argument("paths", metavar="PATH", nargs="*", default=SOURCES)
    found = [
        each for path in parser.parse_args().paths for each in found_below((ROOT / path).resolve())
    ]
    for file, fault in found:
        print(f"{file}:{fault.line}: {fault.rule}: {fault.advice}: {fault.sentence:.100}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
