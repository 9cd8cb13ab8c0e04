"""The kernels of a few programs as they were last looked at: one `.hlo` and one `.kernels` each."""

from collections.abc import Mapping
from pathlib import Path

from tests.processors import MACHINES
from xla_server.backends.compiled.compilation import compile_module
from xla_server.buffers.code import CopyThunk, KernelThunk
from xla_server.buffers.listing import row_listing
from xla_server.ir.text.parser import parse_module
from xla_server.target.target import Target

HERE = Path(__file__).parent
WIDTHS = ("avx512", "avx2")
"""Processors whose kernels are kept."""
PROGRAMS: Mapping[str, Path] = {path.stem: path for path in sorted(HERE.glob("*.hlo"))}
LARGE = ("large_lines", "large_matrices")
"""Programs whose kernels there are for large operands alone: no test of all programs runs them."""
SMALL = tuple(name for name in PROGRAMS if name not in LARGE)


def generated(name: str, width: str) -> str:
    """The rows of a program in their order, with the text of each kernel once."""
    module = parse_module(PROGRAMS[name].read_text())
    code = compile_module(module, target=Target.of(MACHINES[width])).code
    parts, seen = [], set()
    _, *lines = row_listing(code)
    for row, line in zip(code.rows, lines, strict=True):
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
