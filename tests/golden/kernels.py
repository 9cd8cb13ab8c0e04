"""The kernels of a few programs as they were last looked at: one `.hlo` and one `.kernels` each."""

import re
from collections.abc import Mapping
from pathlib import Path

from tests.processors import MACHINES
from xla_contract.errors import InvalidArgumentError, UnimplementedError
from xla_contract.types.element_type import ElementType
from xla_contract.types.opcode import Opcode
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.code import CopyThunk, KernelThunk
from xla_server.buffers.listing import thunk_listing
from xla_server.custom_calls.builtin_targets import BUILTIN
from xla_server.ir.module import HloModule
from xla_server.ir.text.parser import parse_module
from xla_server.target.target import Target

HERE = Path(__file__).parent
WIDTHS = ("avx512", "avx2")
"""Processors whose kernels are kept."""
PROGRAMS: Mapping[str, Path] = {path.stem: path for path in sorted(HERE.glob("*.hlo"))}
LARGE = ("large_lines", "large_matrices")
"""Programs whose kernels there are for large operands alone: no test of all programs runs them."""
KINDS = tuple(
    kind.text for kind in ElementType if kind.is_integer or kind.is_floating or kind.is_complex
)
"""The types of numbers that programs in f32 are also tested in."""
_COMPLEX = {"f32": "c64", "f64": "c128"}
_LETTERS = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}
"""The first letters of LAPACK's routines by their types."""
MATRICES = ("factorizations", "solvers", "sparse_product", "spectral")
"""Programs of calls, most to LAPACK, that not every platform has: LAPACK chooses the signs."""
SMALL = tuple(name for name in PROGRAMS if name not in LARGE)


def retyped(name: str, kind: str) -> HloModule | None:
    """Return a program in another type than f32; None where an operation is not defined for it."""
    text = PROGRAMS[name].read_text()
    words = {"f32": kind, "c64": _COMPLEX.get(kind, "c64")}
    changed = re.sub(r"\b(f32|c64)\b", lambda found: words[found[0]], text)
    changed = changed.replace("lapack_s", f"lapack_{_LETTERS.get(kind, 's')}")
    if kind in _COMPLEX.values():
        changed = re.sub(r"(lapack_[cz])or([gm]qr)", r"\1un\2", changed)
    if changed == text:
        return None
    try:
        module = parse_module(changed)
        for each in module.instructions():
            if each.opcode is Opcode.CUSTOM_CALL:
                BUILTIN.resolve(each)
    except (InvalidArgumentError, UnimplementedError):
        return None
    return module


def generated(name: str, width: str) -> str:
    """The rows of a program in their order, with the text of each kernel once."""
    module = parse_module(PROGRAMS[name].read_text())
    code = compile_module(module, target=Target.of(MACHINES[width])).code
    parts, seen = [], set()
    _, *lines = thunk_listing(code)
    for row, line in zip(code.thunks, lines, strict=True):
        if isinstance(row, KernelThunk):
            arguments = ", ".join(f"%{value.name}" for value in row.arguments)
            head = (
                f"# {row.name}({arguments}): {row.work_items} work items of {row.work} operations\n"
            )
            parts.append(head if row.source in seen else head + row.source)
            seen.add(row.source)
        elif isinstance(row, CopyThunk):
            parts.append(f"# copy %{row.source.name} to %{row.target.name}\n")
        else:
            parts.append(f"# {line}\n")
    return "\n".join(parts)


def kept(name: str, width: str) -> Path:
    """Where the rows of a program are kept: for AVX2 only where they differ."""
    common = PROGRAMS[name].with_suffix(".kernels")
    own = common.with_name(f"{name}.{width}.kernels")
    return own if own.exists() else common
