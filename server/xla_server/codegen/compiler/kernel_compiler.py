"""Object code of LLVM modules.

Objects define one symbol, which the caller names; everything else in them is internal to them, so
any number of them, of any process, can be loaded together. They refer to callees (the C
library, BLAS) by symbols, and hold no addresses, so they can be stored on disk. Threads compile at
the same time: LLVM shares nothing between contexts, and each module has one of its own.
"""

import contextlib
import ctypes
import functools
import hashlib
import platform
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core import config
from numba.core.codegen import initialize_llvm

import xla_server
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.target.machine import Machine
from xla_server.target.tuning import tuning_of

_LOCK = threading.Lock()

_UNUSED: defaultdict[tuple[Machine, Effort], list[Any]] = defaultdict(list)
"""Code generators that no thread uses now. There are as many as threads that compiled at once."""

PARTS = ("codegen", "runtime", "target")
"""The packages whose source determines the code of a kernel's text."""


def fingerprint() -> bytes:
    """Return a digest of all that object code depends on besides a kernel's text and machine."""
    root = Path(xla_server.__file__).parent
    digest = hashlib.sha256()
    versions = [numba.__version__, llvmlite.__version__, np.__version__]
    system = [platform.machine(), llvm.get_process_triple()]
    options = [str(config.LOOP_VECTORIZE), str(config.SLP_VECTORIZE)]
    for word in (*versions, *system, *options):
        digest.update(f"{word}\n".encode())
    for path in sorted(path for part in PARTS for path in (root / part).rglob("*.py")):
        text = path.read_bytes()
        digest.update(f"{path.relative_to(root)} {len(text)}\n".encode())
        digest.update(text)
    return digest.digest()


_X86_PREFERENCES = ",-prefer-256-bit,+prefer-no-gather,+prefer-no-scatter"
"""Preferences of LLVM: the widest vectors, which it would halve, and loads of single elements.
A gather of 16 took as long as 40 of those (LOG, strided loads)."""


def target_machine(machine: Machine, effort: Effort = Effort.OPTIMISED) -> Any:
    """Return LLVM's record of a machine, which generates its object code."""
    with _LOCK:
        _initialise()
    features = machine.features + (_X86_PREFERENCES if machine.is_x86 else "")
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=machine.name,
        features=features,
        opt=effort.value,
        reloc="static" if machine.is_x86 else "default",
        codemodel="jitdefault",
        jit=True,
    )


@functools.cache
def _initialise() -> None:
    """Initialise LLVM and set options of all of its passes and code generators.

    Loop strength reduction took a third of the code generator's time to save an addition or two in
    a loop: the processor adds a base and an index in any case. Copies of a loop load an element
    again if their first load is more than 100 instructions back. LLVM then sees no groups of
    neighbours, and a softmax of rows of five had 32 loads of single elements for a vector. LLVM
    looks for a load in 8 blocks instead of 200: in the 14 loops of a filter and its edges, that
    search took 0.9 s and found none.
    """
    initialize_llvm()
    llvm.initialize_native_asmparser()
    llvm.set_option("xla_server", "-disable-lsr")
    llvm.set_option("xla_server", "-memdep-block-scan-limit=400")
    llvm.set_option("xla_server", "-memdep-block-number-limit=8")


def object_of_module(written: Any, machine: Machine, effort: Effort = Effort.OPTIMISED) -> bytes:
    """Object code of an LLVM module, one of llvmlite.ir or a text."""
    with _generator(machine, effort) as generator:
        written.triple = llvm.get_process_triple()
        written.data_layout = str(generator.target_data)
        # Python may free what an error refers to in any order, and a module must go first.
        with llvm.parse_assembly(str(written), llvm.create_context()) as module:
            module.verify()
            run_passes(module, machine, effort, generator)
            return _emitted(module, generator)


@contextlib.contextmanager
def _generator(machine: Machine, effort: Effort) -> Iterator[Any]:
    """Yield a code generator that no other thread uses during the block."""
    unused = _UNUSED[machine, effort]
    try:
        generator = unused.pop()
    except IndexError:
        generator = target_machine(machine, effort)
    try:
        yield generator
    finally:
        unused.append(generator)


def _unlocked(function: str) -> Any:
    """Return a function of llvmlite's library without the lock that llvmlite takes for each call.

    It may be called for modules of contexts that no other thread uses.
    """
    return getattr(llvm.ffi.lib, function)._cfn


def _emitted(module: Any, generator: Any) -> bytes:
    """Return the object code of an optimised module, as `emit_object` of llvmlite does."""
    library, error = llvm.ffi.lib, llvm.ffi.OutputString()
    buffer = _unlocked("LLVMPY_TargetMachineEmitToMemory")(generator, module, 1, error)
    if not buffer:
        raise RuntimeError(str(error))
    try:
        size = library.LLVMPY_GetBufferSize(buffer)
        return ctypes.string_at(library.LLVMPY_GetBufferStart(buffer), size)
    finally:
        library.LLVMPY_DisposeMemoryBuffer(buffer)


def run_passes(module: Any, machine: Machine, effort: Effort, generator: Any) -> None:
    """Run the passes of an effort on a module; loops that request it are unrolled."""
    if effort not in (Effort.OPTIMISED, Effort.PLAIN):
        return
    level = tuning_of(machine).llvm_passes.speed_level
    options = llvm.create_pipeline_tuning_options(speed_level=level)
    options.loop_vectorization = bool(config.LOOP_VECTORIZE)
    options.slp_vectorization = bool(config.SLP_VECTORIZE)
    options.loop_unrolling = False
    builder = llvm.create_pass_builder(generator, options)
    if effort is Effort.OPTIMISED:
        _run(builder.getModulePassManager(), module, builder)
        return
    # Takes a tenth of the work of full passes.
    steps = llvm.create_new_module_pass_manager()
    steps.add_sroa_pass()
    steps.add_instruction_combine_pass()
    steps.add_simplify_cfg_pass()
    steps.add_loop_rotate_pass()
    _run(steps, module, builder)


def _run(steps: Any, module: Any, builder: Any) -> None:
    """Run passes once and free them, which llvmlite leaves out: 84 KiB for each kernel.

    The callbacks of a builder stay, 1.5 KiB: llvmlite has no function that frees them. A builder
    must not run again, as each run adds callbacks that refer to its own variables.
    """
    try:
        _unlocked("LLVMPY_RunNewModulePassManager")(steps, module, builder)
    finally:
        llvm.newpassmanagers.NewPassManager._dispose(steps)
        steps.detach()
