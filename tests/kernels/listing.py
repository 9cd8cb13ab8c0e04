"""Listing of the code of each kernel of the corpora, and the difference between two revisions.

A kernel is equal in both if its text is, or else its LLVM module, or else its object code: object
code does not change with the names of variables or the order of a sum's terms.
"""

import dataclasses
import difflib
import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.kernels.corpora import CORPORA
from xla_server.backends.compiled.compilation import compile_module
from xla_server.codegen import kernel
from xla_server.codegen.compiler.kernel_compiler import object_of_module
from xla_server.codegen.kernel_ir.kernel import Kernel
from xla_server.codegen.lower.lowering import kernels_of
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes
from xla_server.target.machine import Machine
from xla_server.target.target import Target


@dataclasses.dataclass(frozen=True, slots=True)
class Listing:
    """Rows by program and position, and the texts and modules that they name by their hashes."""

    rows: dict[str, dict[str, Any]]
    texts: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> "Listing":
        """Read what `write` wrote."""
        return cls(**json.loads(path.read_text()))

    def write(self, path: Path) -> None:
        """Write the listing as JSON."""
        path.write_text(json.dumps(dataclasses.asdict(self)))


def listed(corpora: Sequence[str], *, objects: bool) -> Listing:
    """List the kernels of these corpora, with object code only if `objects`, which takes longer."""
    rows: dict[str, dict[str, Any]] = {}
    texts: dict[str, str] = {}
    codes: dict[str, str] = {}
    machine = Machine.host()

    def named(text: str) -> str:
        name = _hash(text.encode())
        texts[name] = text
        return name

    for corpus in corpora:
        for program, module in CORPORA[corpus]():
            if has_dynamic_shapes(module):
                continue
            thunks = kernels_of(compile_module(module, target=Target.of(machine)).code)
            for number, thunk in enumerate(thunks):
                text = named(thunk.source)
                row = {
                    "text": text,
                    "llvm": named(str(kernel.module_of(thunk.kernel, "kernel", machine))),
                    "ranges": [thunk.work_items, thunk.work, thunk.prologue],
                    "values": [
                        [value.name for value in values]
                        for values in (thunk.arguments, thunk.reads, thunk.writes, thunk.updates)
                    ],
                    "in_place": [[to.name, source.name] for to, source in thunk.in_place],
                }
                if objects:
                    made = thunk.kernel
                    assert isinstance(made, Kernel)
                    if made.key not in codes:
                        codes[made.key] = object_hash(made, machine)
                    row["object"] = codes[made.key]
                rows[f"{corpus}/{program}/{number}"] = row
    return Listing(rows, texts)


def object_hash(made: Kernel, machine: Machine) -> str:
    """Return the hash of object code under one symbol, whatever the text of the kernel."""
    module = kernel.module_of(made, "kernel", machine)
    return _hash(object_of_module(module, machine, made.effort))


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def differences(before: Listing, after: Listing, shown: int = 3) -> Iterator[str]:
    """Yield a line for each kind of difference, and the diffs of the first `shown` kernels."""
    names = dict.fromkeys([*before.rows, *after.rows])
    counts = {"equal": 0}
    for name in names:
        old, new = before.rows.get(name), after.rows.get(name)
        if old == new:
            counts["equal"] += 1
            continue
        if old is None or new is None:
            kinds = ["added" if old is None else "gone"]
        else:
            kinds = [key for key in old if key in new and old[key] != new[key]]
            kinds = kinds or ["equal"]
        counts[", ".join(kinds)] = counts.get(", ".join(kinds), 0) + 1
        if kinds == ["equal"] or shown <= 0 or old is None or new is None:
            continue
        shown -= 1
        yield f"{name}: {', '.join(kinds)}"
        for key in kinds:
            if key not in ("text", "llvm"):
                yield f"  {key}: {old[key]} {new[key]}"
                continue
            pair = before.texts[old[key]], after.texts[new[key]]
            yield from difflib.unified_diff(
                *(text.splitlines() for text in pair), "before", "after", lineterm="", n=2
            )
    for kinds_of, count in counts.items():
        yield f"{count} kernels: {kinds_of}"
