"""The base class of compiled platforms.

A subclass implements how programs are loaded into its memory (`loaded_program.py`), and its buffers
(`device_buffer.py`).
"""

import abc
import dataclasses
import weakref
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypedDict

from xla_contract.errors import InvalidArgumentError, XlaError
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape
from xla_server.backends.compile_options import DEFAULTS, CompileOptions
from xla_server.backends.compiled.compilation import Compilation, compile_module
from xla_server.backends.compiled.dynamic_executable import DynamicExecutable
from xla_server.backends.compiled.executable import CompiledExecutable
from xla_server.backends.compiled.precompilation import Preparation
from xla_server.backends.compiled.size_variants import SizeVariants
from xla_server.backends.device_buffer import Buffers
from xla_server.backends.diagnostics.dump import Dump
from xla_server.backends.diagnostics.dump_directory import DumpDirectory
from xla_server.backends.diagnostics.incidents import Incidents
from xla_server.backends.loaded_program import LoadedProgram
from xla_server.backends.platform import Buffer, Device, devices_of
from xla_server.backends.signature import admitted, relaid_bytes
from xla_server.buffers.assignment import memory_use, require_fit
from xla_server.buffers.code import Code, KernelCode, KernelError, KernelThunk
from xla_server.codegen.lower.fusion_faults import FUSED, FUSION_FAULTS
from xla_server.codegen.lower.lowering import Lower
from xla_server.custom_calls.builtin_targets import BUILTIN
from xla_server.custom_calls.target_registry import CustomCallRegistry
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes
from xla_server.ir.fingerprint import fingerprint
from xla_server.ir.module import HloInstruction, HloModule
from xla_server.passes.expand.rng_expander import RngExpander
from xla_server.passes.framework.editor import copy_module
from xla_server.passes.framework.selection import PassOptions
from xla_server.target.target import Target


class PlatformOptions(TypedDict, total=False):
    """An operator's options of a platform that compiles.

    `max_value_bytes` bounds every single value of a program, and the sum of the values that exist
    at once in an execution. Programs may call the targets in `custom_calls`. Dumps that programs
    ask for are written to `dumps`, reports of failures of the compiler to `incidents`.
    """

    max_value_bytes: int | None
    custom_calls: CustomCallRegistry
    dumps: DumpDirectory | None
    incidents: Incidents | None


class OtherTargetError(Exception):
    """A program must be compiled again for another target, and all later programs for it, too."""

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.target = target


class CompiledBackend(abc.ABC):
    """A platform of `device_count` devices that compiles programs for one target.

    Implements xla_server.backends.platform.Backend but for `to_device`. Instructions are lowered by
    `lowerings`, and `preparation` compiles code that programs share.
    """

    platform: ClassVar[str]
    buffers: Buffers[Any]
    """The functions that make arguments and results."""
    memory_bytes: int | None = None

    def __init__(
        self,
        device_count: int,
        target: Target,
        lowerings: Mapping[Opcode, Lower],
        preparation: Preparation,
        *,
        max_value_bytes: int | None = None,
        custom_calls: CustomCallRegistry = BUILTIN,
        dumps: DumpDirectory | None = None,
        incidents: Incidents | None = None,
    ) -> None:
        self.devices = devices_of(self.platform, device_count)
        self._target = target
        self._lowerings = lowerings
        self._preparation = preparation
        self._max_value_bytes = max_value_bytes
        self._custom_calls = custom_calls
        self._dumps = dumps or DumpDirectory()
        self._incidents = incidents or Incidents()
        # Weak: executables own programs.
        self._programs: weakref.WeakValueDictionary[tuple[bytes, PassOptions], LoadedProgram] = (
            weakref.WeakValueDictionary()
        )

    @abc.abstractmethod
    def to_device(self, literal: Literal, device: Device) -> Buffer:
        """Copy a value to `device`, or share its memory."""

    @abc.abstractmethod
    def load(self, compilation: Compilation) -> LoadedProgram:
        """Compile the kernels of a program, and load them and its constants.

        Raises KernelError for a kernel that does not compile, and OtherTargetError.
        """

    def dump_files(self, program: LoadedProgram) -> Mapping[str, str | bytes]:
        """Return additional files of a loaded program's dump, specific to the platform."""
        return {}

    def prepare(self, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Compile code that programs share; see Backend.prepare."""
        return self._preparation.run(is_over)

    def compile(
        self, module: HloModule, entry: ProgramShape, *, options: CompileOptions = DEFAULTS
    ) -> CompiledExecutable | DynamicExecutable:
        """Verify `module` and compile it with the layouts of `entry`.

        Raises as Backend.compile, among others ResourceExhaustedError if an execution would not fit
        into the device's memory.
        """
        with self._preparation.interrupted():
            program_shape = admitted(module, entry, self._custom_calls, self._max_value_bytes)
            if has_dynamic_shapes(module):
                return self._dynamic(module, program_shape, options)
            dump = self._dump(module, options)
            copies = relaid_bytes(program_shape)
            # Modules that are equal up to names share a program, unless it writes a dump or a
            # profile.
            key = fingerprint(module, program_shape), options.passes
            is_shared = dump is None and not options.is_profiled
            program = self._programs.get(key) if is_shared else None
            if program is None:
                program = self._program(module, options, dump, copies)
                if is_shared:
                    self._programs[key] = program
            kept = dump if options.is_profiled else None
            return CompiledExecutable(
                program, self.buffers, program_shape, module, seed=options.seed, dump=kept
            )

    def _dynamic(
        self, module: HloModule, program_shape: ProgramShape, options: CompileOptions
    ) -> DynamicExecutable:
        dump = self._dump(module, options)
        if dump is not None:
            dump.begin(module)
        # Expanded here, so that static programs contain the formulas of random numbers.
        module = copy_module(module)
        RngExpander().apply(module)

        def program(written: HloModule, name: str) -> LoadedProgram:
            part = None if dump is None else dump.part(name)
            with self._preparation.interrupted():
                return self._program(written, options, part)

        programs = SizeVariants(module, program)
        return DynamicExecutable(
            module,
            program_shape,
            programs,
            self.buffers,
            custom_calls=self._custom_calls,
            seed=options.seed,
            dump=dump if options.is_profiled else None,
        )

    def _dump(self, module: HloModule, options: CompileOptions) -> Dump | None:
        files = self._dumps.open(options.dump, module.name)
        if options.is_profiled and files is None and not options.dump.name:
            raise InvalidArgumentError(
                "xla_hlo_profile must come with a directory in xla_dump_to, where profiles are "
                "written, got none"
            )
        return None if files is None else Dump(files, options.dump)

    def _program(
        self, module: HloModule, options: CompileOptions, dump: Dump | None, copies: int = 0
    ) -> LoadedProgram:
        """Compile and load a static module; a failure of the compiler is reported as an incident.

        If a fused kernel does not compile, instructions inside fusions get kernels of their own.
        `copies` are the bytes of arguments that an execution copies to another layout.
        """
        fuses = True
        while True:
            code: Code | None = None
            try:
                compilation = compile_module(
                    module,
                    options.passes,
                    target=self._target,
                    lowerings=self._lowerings,
                    custom_calls=self._custom_calls,
                    observer=dump,
                    fuses=fuses,
                )
                code = compilation.code
                use = memory_use(code, compilation.assignment)
                require_fit(dataclasses.replace(use, copies=copies), self._max_value_bytes)
                program = self.load(compilation)
                if dump is not None:
                    for name, data in self.dump_files(program).items():
                        dump.write(name, data)
                return program
            except OtherTargetError as error:
                self._target = error.target
            except (XlaError, MemoryError):
                raise
            except KernelError as error:
                origin = None if code is None else _origin(code, error.kernel)
                if fuses and origin is not None and origin.opcode in FUSED:
                    FUSION_FAULTS.record(error, origin)
                    fuses = False
                    continue
                cause, kernel = error.__cause__ or error, error.kernel.text
                raise self._incidents.report(
                    cause, module, options, instruction=origin, kernel=kernel
                ) from error
            except Exception as error:
                raise self._incidents.report(error, module, options) from error


def _origin(code: Code, kernel: KernelCode) -> HloInstruction | None:
    """Return the first instruction that a kernel was made for."""
    for thunk in code.thunks:
        if isinstance(thunk, KernelThunk) and thunk.kernel.key == kernel.key:
            return code.origins.get(thunk)
    return None
