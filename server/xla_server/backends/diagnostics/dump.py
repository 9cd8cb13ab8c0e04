"""The dump of one compilation: modules, kernels, thunks and buffers as files."""

import itertools
import logging
from collections.abc import Callable, Mapping

from xla_contract.stubs import hlo_pb2
from xla_contract.types.opcode import Opcode
from xla_server.backends.compile_options import DumpFormat, DumpOptions
from xla_server.backends.diagnostics.dump_files import DumpFiles
from xla_server.buffers.assignment import Assignment
from xla_server.buffers.code import Code, KernelThunk
from xla_server.buffers.listing import buffer_listing, thunk_listing
from xla_server.ir.drawings.graphviz import print_dot
from xla_server.ir.drawings.html import print_html
from xla_server.ir.exporter import export_module
from xla_server.ir.module import HloModule
from xla_server.ir.text.printer import print_module

_LOG = logging.getLogger(__name__)

_BYTES_PER_BYTE = {DumpFormat.TEXT: 4, DumpFormat.PROTO: 1}
"""Estimated bytes of a form per byte of a constant; drawings leave constants out."""

PRINTERS: Mapping[DumpFormat, Callable[[HloModule], str]] = {
    DumpFormat.TEXT: print_module,
    DumpFormat.DOT: print_dot,
    DumpFormat.HTML: print_html,
}
"""Functions that return a module in a form that is text."""


class Dump:
    """Writes the modules and times of a compilation to files. Implements compilation.Observer.

    An error of the disk is logged and does not end the compilation.
    """

    def __init__(self, files: DumpFiles, options: DumpOptions, prefix: str = "") -> None:
        self._files = files
        self._prefix = prefix
        self._profiles = itertools.count(1)
        self._options = options
        self._number = 0
        self._before: dict[str, str | bytes] = {}
        self._is_current = False
        self._failed = False

    def begin(self, module: HloModule) -> None:
        """Write the module before all passes."""
        self._write_stage("input", self._printed(module))

    def before_pass(self, name: str, module: HloModule) -> None:
        """Print the module, in case the pass changes it, unless its present form was written."""
        self._before = {}
        if self._is_wanted(name) and not self._is_current:
            self._before = self._printed(module)

    def after_pass(self, name: str, module: HloModule, changed: bool) -> None:
        """Write the module before and after a pass that changed it."""
        if not changed:
            return
        self._is_current = False
        if self._is_wanted(name):
            if self._before:
                self._write_stage(f"before_{name}", self._before)
            self._write_stage(name, self._printed(module))

    def optimised(self, module: HloModule) -> None:
        """Write the module after all passes."""
        self._write_stage("optimised", self._printed(module))

    def lowered(self, code: Code, assignment: Assignment) -> None:
        """Write each distinct kernel once, the buffers and the thunks."""
        sources: dict[str, str] = {}
        for thunk in code.thunks:
            if isinstance(thunk, KernelThunk):
                sources.setdefault(thunk.source, thunk.name)
        for number, (source, name) in enumerate(sources.items()):
            self.write(f"kernel_{number:02}.{name[:80]}.py", source)
        lines = [*buffer_listing(code, assignment), "", *thunk_listing(code)]
        self.write("buffers.txt", "\n".join(lines) + "\n")

    def part(self, name: str) -> "Dump":
        """Return the dump of one of several programs that are compiled from the module."""
        return Dump(self._files, self._options, f"{self._prefix}{name}.")

    def next_profile(self) -> str:
        """Return the name of the next execution's profile, without a suffix."""
        return f"profile_{next(self._profiles):04}"

    def write(self, name: str, data: str | bytes) -> None:
        """Write one more file."""
        if self._failed:
            return
        try:
            self._files.write(f"{self._prefix}{name}", data)
        except OSError as error:
            self._failed = True
            _LOG.warning("a dump cannot be written: %s", error)

    def _is_wanted(self, name: str) -> bool:
        return self._options.passes is not None and self._options.passes.finds(name)

    def _write_stage(self, stage: str, printed: "dict[str, str | bytes]") -> None:
        for suffix, data in printed.items():
            self.write(f"module_{self._number:02}.{stage}.{suffix}", data)
        self._number += 1
        self._is_current = True

    def _printed(self, module: HloModule) -> "dict[str, str | bytes]":
        """Return the module in each format, by suffix."""
        found: dict[str, str | bytes] = {}
        for form in filter(self._options.formats.__contains__, DumpFormat):
            if printed_bytes(module, form) <= self._files.max_bytes:
                is_text = form in PRINTERS
                found[form] = PRINTERS[form](module) if is_text else serialized(module)
            elif form is DumpFormat.TEXT:
                # A text of this size takes long to print, too.
                size = constant_bytes(module)
                found[form] = f"// left out: it has {size} bytes of constants\n"
        return found


def serialized(module: HloModule) -> bytes:
    """Return the message HloProto of a module."""
    proto = hlo_pb2.HloProto(hlo_module=export_module(module))
    return proto.SerializeToString(deterministic=True)


def printed_bytes(module: HloModule, form: DumpFormat) -> int:
    """Return about how many bytes the constants of a module take in a form."""
    return constant_bytes(module) * _BYTES_PER_BYTE.get(form, 0)


def constant_bytes(module: HloModule) -> int:
    """Return the bytes of all constants of a module."""
    return sum(i.shape.byte_size for i in module.instructions() if i.opcode is Opcode.CONSTANT)
