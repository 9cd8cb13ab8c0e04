"""Object code of LLVM modules.

Objects define one symbol, which the caller names; everything else in them is internal to them, so
any number of them, of any process, can be loaded together. They refer to callees (the C
library, BLAS) by symbols, and hold no addresses, so they can be stored on disk.
"""

import functools
import hashlib
import platform
from pathlib import Path
from typing import Any

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np
from numba.core import config, registry
from numba.core.codegen import initialize_llvm
from numba.core.compiler_lock import global_compiler_lock

import xla_server
from xla_server.codegen.kernel_ir.effort import Effort
from xla_server.target.machine import Machine
from xla_server.target.tuning import tuning_of

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
    initialize_llvm()
    llvm.initialize_native_asmparser()
    _set_options()
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
def _set_options() -> None:
    """Set options of all of LLVM's passes and code generators.

    Loop strength reduction took a third of the code generator's time to save an addition or two in
    a loop: the processor adds a base and an index in any case. Copies of a loop load an element
    again if their first load is more than 100 instructions back. LLVM then sees no groups of
    neighbours, and a softmax of rows of five had 32 loads of single elements for a vector.
    """
    llvm.set_option("xla_server", "-disable-lsr")
    llvm.set_option("xla_server", "-memdep-block-scan-limit=400")


def object_of_module(written: Any, machine: Machine, effort: Effort = Effort.OPTIMISED) -> bytes:
    """Object code of an LLVM module, one of llvmlite.ir or a text."""
    with global_compiler_lock:
        codegen = registry.cpu_target.target_context.codegen()
        written.triple = llvm.get_process_triple()
        written.data_layout = codegen._data_layout
        module = llvm.parse_assembly(str(written))
        module.verify()
        return _object_code(module, machine, effort)


def _object_code(module: Any, machine: Machine, effort: Effort = Effort.OPTIMISED) -> bytes:
    generator = _shared_machine(machine, effort)
    run_passes(module, machine, effort, generator)
    code: bytes = generator.emit_object(module)
    return code


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
    """Run passes once and free them, which llvmlite leaves out: 84 KiB for each kernel."""
    try:
        steps.run(module, builder)
    finally:
        llvm.newpassmanagers.NewPassManager._dispose(steps)
        steps.detach()


_shared_machine = functools.cache(target_machine)
"""Returns a generator that all compilations share: each holds numba's lock."""
