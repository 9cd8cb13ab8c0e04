"""Listings of a program's thunks in dumps: those of the device, and the steps of the host."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from xla_server.backends.cuda.host_steps import THROUGH_HOST, HostStep, PlacedThunk, counted
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


def on_device(thunks: Sequence[PlacedThunk]) -> str:
    """Return the counts of the device's thunks: `on the device: 3 kernels, 1 copy`."""
    counts = Counter(_kind(thunk) for thunk in thunks if not isinstance(thunk, HostStep))
    found = (part for noun in _NOUNS for part in counted(counts[noun[0]], *noun))
    return f"on the device: {', '.join(found) or 'nothing'}"


def through_host(thunks: Sequence[PlacedThunk]) -> list[str]:
    """Return the steps of the host, each with its instructions and counts."""
    return [str(thunk) for thunk in thunks if isinstance(thunk, HostStep)]


def compilers(modules: Iterable[DeviceModule]) -> list[str]:
    """Return the names of the compilers of modules, each once."""
    names = dict.fromkeys(module.compiler for module in modules)
    return [f"machine code by {name}" for name in names if name]


def dump_files(
    code: Code,
    thunks: Sequence[PlacedThunk],
    modules: Mapping[str, DeviceModule],
    notes: Iterable[str] = (),
) -> dict[str, str | bytes]:
    """Return the listing of device and host steps, with notes, and the modules of kernels."""
    listing = "\n".join((*place_listing(code, thunks, modules), *notes))
    files: dict[str, str | bytes] = {"places.txt": f"{listing}\n"}
    for number, module in enumerate(dict.fromkeys(modules.values())):
        files[f"kernels_{number:02}.ptx"] = module.ptx
        if module.cubin:
            files[f"kernels_{number:02}.cubin"] = module.cubin
    return files


def place_listing(
    code: Code, thunks: Sequence[PlacedThunk], modules: Mapping[str, DeviceModule]
) -> Iterator[str]:
    """Yield the thunks of the device and the steps of the host, in counts and one by one."""
    steps = through_host(thunks)
    yield on_device(thunks)
    yield from compilers(modules.values())
    yield f"in all: {LaunchCounts.all(thunks)}"
    yield f"steps through the host: {len(steps)}"
    yield ""
    lines = [("thunk", "place", "operations", "bytes", "what", "instruction")]
    for number, thunk in enumerate(thunks):
        target, what, instruction = _described(code, thunk, modules)
        counts = LaunchCounts.of(thunk)
        numbers = (str(counts.operations), str(counts.bytes)) if counts.launches else ("", "")
        lines.append((str(number), target, *numbers, what, instruction))
    yield from table(lines)


def _described(
    code: Code, thunk: PlacedThunk, modules: Mapping[str, DeviceModule]
) -> tuple[str, str, str]:
    if isinstance(thunk, HostStep):
        return THROUGH_HOST, thunk.contents, ""
    instruction = ", ".join(f"{i.opcode} %{i.name}" for i in code.instructions(thunk))
    target = "device"
    match thunk:
        case KernelThunk(kernel=GridKernel() as grid):
            what = f"kernel {thunk.name}, {grid.blocks} blocks of {grid.threads} threads"
            found = modules[grid.key].resources.get(symbol_of(grid.key))
            what = f"{what}, {found}" if found else what
        case KernelThunk():
            target, what = "library", thunk.kernel.text
        case CopyThunk():
            what = f"copy of {thunk.target.byte_size} bytes"
        case _:
            what = thunk.kind
    return target, what, instruction


def _kind(thunk: PlacedThunk) -> str:
    match thunk:
        case KernelThunk(kernel=GridKernel()):
            return "kernel"
        case KernelThunk():
            return "library call"
        case CopyThunk():
            return "copy"
    return "jump"
