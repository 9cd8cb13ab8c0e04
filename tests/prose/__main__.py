"""Print the faults of prose in docstrings, comments and pages; exit with 1 if there are any.

python -m tests.prose        check server, client, protos, tests and all pages
python -m tests.prose PATH   check the files below a directory, or one file
"""

import sys
from collections.abc import Iterator
from pathlib import Path

from tests.command_line import command_line
from tests.prose.rules import faults
from tests.prose.sources import KINDS

ROOT = Path(__file__).parents[2]
SOURCES = (
    *("server", "client", "protos", "host", "tests", "deploy", "docs"),
    *sorted(page.name for page in ROOT.glob("*.md")),
)
_GENERATED = ROOT / "protos/xla_contract/stubs"
_LOGS = {ROOT / "CHANGELOG.md", ROOT / "tests/benchmarks/LOG.md"}
"""Records of what was done and measured: entries stay as they were written."""


def files_below(path: Path) -> Iterator[Path]:
    """Yield the files with prose below a directory, or the one file itself."""
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        if file.suffix in KINDS and file not in _LOGS and not file.is_relative_to(_GENERATED):
            yield file


def main() -> int:
    """Print the faults below the paths of the command line; return the exit status."""
    parser = command_line("tests.prose", __doc__)
    parser.add_argument("paths", metavar="PATH", nargs="*", default=SOURCES)
    found = [
        (file.relative_to(ROOT), fault)
        for path in parser.parse_args().paths
        for file in files_below((ROOT / path).resolve())
        for fault in faults(file.read_text(encoding="utf-8"), file.suffix)
    ]
    for file, fault in found:
        print(f"{file}:{fault.line}: {fault.rule}: {fault.advice}: {fault.sentence:.100}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
