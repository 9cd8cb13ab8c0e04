"""Hold the faults of prose in each package to the counts of counts.json, which only fall.

python -m tests.prose             exit with 1 if a package has more faults than its count
python -m tests.prose --list DIR  print the faults below a directory
python -m tests.prose --write     lower the counts to the faults there are
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.prose.rules import Fault, faults

ROOT = Path(__file__).parents[2]
COUNTS = Path(__file__).with_name("counts.json")
SOURCES = ("server/xla_server", "client/xla_client", "protos/xla_contract", "tests")
_GENERATED = "protos/xla_contract/stubs"

Counts = dict[str, dict[str, int]]


def package_of(path: str) -> str:
    """Return the package that a module is counted for: one of the server's, or a whole source."""
    parts = path.split("/")
    is_inner = path.startswith("server/") and len(parts) > 3
    return "/".join(parts[: 3 if is_inner else 2]) if parts[0] != "tests" else "tests"


def found_below(directory: Path) -> Iterator[tuple[str, Fault]]:
    """Yield the faults of all modules below a directory of the tree, with the module's path."""
    for file in sorted(directory.rglob("*.py")):
        path = file.relative_to(ROOT).as_posix()
        if not path.startswith(_GENERATED):
            for fault in faults(file.read_text(encoding="utf-8")):
                yield path, fault


def excess(counted: Counts, allowed: Counts) -> Iterator[tuple[str, str, int, int]]:
    """Yield package, rule, count and allowed count where there are more faults than allowed."""
    for package, rules in counted.items():
        for rule, count in rules.items():
            most = allowed.get(package, {}).get(rule, 0)
            if count > most:
                yield package, rule, count, most


def total(counts: Counts) -> Counter[str]:
    """Return the sum of all packages by rule."""
    return sum((Counter(rules) for rules in counts.values()), Counter())


def main() -> int:
    """Check, list or write, as the arguments say; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.prose", description=__doc__)
    parser.add_argument("--list", metavar="DIR", type=Path)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    if options.list is not None:
        for path, fault in found_below(options.list.resolve()):
            print(f"{path}:{fault.line}: {fault.rule}: {fault.advice}: {fault.sentence:.100}")
        return 0
    counter = Counter(
        (package_of(path), str(fault.rule))
        for source in SOURCES
        for path, fault in found_below(ROOT / source)
    )
    counted: Counts = {}
    for (package, rule), count in sorted(counter.items()):
        counted.setdefault(package, {})[rule] = count
    allowed: Counts = json.loads(COUNTS.read_text()) if COUNTS.exists() else counted
    if options.write:
        # Packages may be moved: their counts go with them, and the sum never rises.
        if total(counted) - total(allowed):
            print(f"there are more faults, {total(counted)}, than counted, {total(allowed)}")
            return 1
        COUNTS.write_text(json.dumps(counted, indent=1) + "\n")
        return 0
    over = list(excess(counted, allowed))
    for package, rule, count, most in over:
        print(f"{package}: {count} faults of the rule {rule}, at most {most}: --list {package}")
    print(", ".join(f"{rule} {count}" for rule, count in sorted(total(counted).items())))
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
