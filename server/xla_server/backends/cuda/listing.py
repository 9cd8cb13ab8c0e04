"""Listings of a program's thunks in dumps: those of the device, and the steps of the host."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from xla_server.backends.cuda.host_steps import THROUGH_HOST, HostStep, PlacedRow, counted
from xla_server.backends.cuda.launch_counts import LaunchCounts
from xla_server.backends.cuda.toolchain import symbol_of
from xla_server.buffers.code import Code, CopyThunk, KernelThunk
from xla_server.buffers.listing import table
from xla_server.codegen.gpu.emit.device_module import DeviceModule
from xla_server.codegen.gpu.grid import GridKernel

_NOUNS = (
    ("kernel", "kernels"),
    ("library call", "library calls"),
    ("copy", "copies"),
    ("jump", "jumps"),
)


def on_device(rows: Sequence[PlacedRow]) -> str:
    """Return the counts of the device's thunks: `on the device: 3 kernels, 1 copy`."""
    counts = Counter(_kind(row) for row in rows if not isinstance(row, HostStep))
    found = (part for noun in _NOUNS for part in counted(counts[noun[0]], *noun))
    return f"on the device: {', '.join(found) or 'nothing'}"


def through_host(rows: Sequence[PlacedRow]) -> list[str]:
    """Return the steps of the host, each with its instructions and counts."""
    return [str(row) for row in rows if isinstance(row, HostStep)]


def compilers(modules: Iterable[DeviceModule]) -> list[str]:
    """Return the names of the compilers of modules, each once."""
    names = dict.fromkeys(module.compiler for module in modules)
    return [f"machine code by {name}" for name in names if name]


def dump_files(
    code: Code,
    rows: Sequence[PlacedRow],
    modules: Mapping[str, DeviceModule],
    notes: Iterable[str] = (),
) -> dict[str, str | bytes]:
    """Return the listing of device and host steps, with notes, and the modules of kernels."""
    listing = "\n".join((*place_listing(code, rows, modules), *notes))
    files: dict[str, str | bytes] = {"places.txt": f"{listing}\n"}
    for number, module in enumerate(dict.fromkeys(modules.values())):
        files[f"kernels_{number:02}.ptx"] = module.ptx
        if module.cubin:
            files[f"kernels_{number:02}.cubin"] = module.cubin
    return files


def place_listing(
    code: Code, rows: Sequence[PlacedRow], modules: Mapping[str, DeviceModule]
) -> Iterator[str]:
    """Yield the rows of the device and the steps of the host, in counts and one by one."""
    steps = through_host(rows)
    yield on_device(rows)
    yield from compilers(modules.values())
    yield f"in all: {LaunchCounts.all(rows)}"
    yield f"steps through the host: {len(steps)}"
    yield ""
    lines = [("row", "place", "operations", "bytes", "what", "instruction")]
    for number, row in enumerate(rows):
        place, what, instruction = _described(code, row, modules)
        counts = LaunchCounts.of(row)
        numbers = (str(counts.operations), str(counts.bytes)) if counts.launches else ("", "")
        lines.append((str(number), place, *numbers, what, instruction))
    yield from table(lines)


def _described(
    code: Code, row: PlacedRow, modules: Mapping[str, DeviceModule]
) -> tuple[str, str, str]:
    if isinstance(row, HostStep):
        return THROUGH_HOST, row.contents, ""
    instruction = ", ".join(f"{i.opcode} %{i.name}" for i in code.instructions(row))
    place = "device"
    match row:
        case KernelThunk(kernel=GridKernel() as grid):
            what = f"kernel {row.name}, {grid.blocks} blocks of {grid.threads} threads"
            found = modules[grid.key].resources.get(symbol_of(grid.key))
            what = f"{what}, {found}" if found else what
        case KernelThunk():
            place, what = "library", row.kernel.text
        case CopyThunk():
            what = f"copy of {row.target.byte_size} bytes"
        case _:
            what = row.kind
    return place, what, instruction


def _kind(row: PlacedRow) -> str:
    match row:
        case KernelThunk(kernel=GridKernel()):
            return "kernel"
        case KernelThunk():
            return "library call"
        case CopyThunk():
            return "copy"
    return "jump"
