"""A public class of the server or the contract has a name of its own, or says the same thing."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[3]

NODES = {"Apply", "Load", "Loop", "Quotient", "Reduction", "Stop", "Store"}
"""Nodes of a representation, which the next one has, too: scalar graph, loop IR, affine index."""

ROWS = {"Branch", "HostStep", "Jump", "Switch"}
"""Rows of a program, as it is lowered and as a worker has it."""

MESSAGES = {"Connection", "Download", "Encoded", "Run", "Upload", "Visit"}
"""Messages to a worker or a rank, and ends of a connection: each is what its side does for it."""

LEVELS = {"Buffer", "Epilogue", "Type", "Value", "Work"}
"""Terms that each level has of its own: values and memory of a program, a kernel, a library."""


def test_a_public_class_has_a_name_of_its_own() -> None:
    modules: dict[str, list[str]] = defaultdict(list)
    for package in ("server/xla_server", "protos/xla_contract", "host/xla_host"):
        for path in sorted((ROOT / package).rglob("*.py")):
            if "stubs" not in path.parts:
                for part in ast.parse(path.read_text(encoding="utf-8")).body:
                    if isinstance(part, ast.ClassDef) and not part.name.startswith("_"):
                        modules[part.name].append(path.relative_to(ROOT).as_posix())
    shared = {name: paths for name, paths in modules.items() if len(paths) > 1}
    known = NODES | ROWS | MESSAGES | LEVELS
    assert {name: paths for name, paths in shared.items() if name not in known} == {}
    assert known <= set(shared), "names that one class has"
