"""Evaluation of programs without parameters: ComputeConstantGraph."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from xla_contract.errors import InvalidArgumentError, ResourceExhaustedError, UnimplementedError
from xla_contract.types.layout import Layout
from xla_contract.types.literal import Literal
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import Shape
from xla_server.backends.host_buffer import literal_of
from xla_server.buffers.assignment import MemoryUse
from xla_server.evaluator.dynamic_shapes import has_dynamic_shapes
from xla_server.evaluator.interpret import evaluate
from xla_server.evaluator.peak_memory import temporary_bytes
from xla_server.evaluator.plan import PlanCache
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.execute_options import ExecuteOptions
from xla_server.ir.analysis.side_effects import SIDE_EFFECTS
from xla_server.ir.checkpoints import cancellable
from xla_server.ir.module import HloModule
from xla_server.ir.verification.verifier import verify
from xla_server.sessions.programs.compile_request import ProgramSource

_NOT_CONSTANT = SIDE_EFFECTS | {Opcode.REPLICA_ID, Opcode.PARTITION_ID}
"""Opcodes whose value differs by run or by device, or that have side effects."""


def compute_constant(
    program: ProgramSource,
    output_layout: Layout | None,
    *,
    max_bytes: int,
    cancellation: Cancellation,
    reserve: Callable[[MemoryUse], AbstractContextManager[object]] = nullcontext,
) -> Literal:
    """The value of a program without parameters, from the interpreter on every platform.

    Raises InvalidArgumentError when it has parameters, is not constant or breaks a rule of HLO, or
    when `output_layout` does not fit its result; UnimplementedError for custom calls;
    ResourceExhaustedError for values over `max_bytes`; what `cancellation` raises. The evaluation
    runs inside the context that `reserve` returns, which raises if memory is exhausted.
    """
    declared = program.signature
    if declared.parameters:
        raise InvalidArgumentError(
            f"a constant program has no parameters, got {len(declared.parameters)}: {declared}"
        )
    with cancellable(cancellation.check):
        module = program.load(max_bytes)
        _check_constant(module)
        verify(module, max_value_bytes=max_bytes)
        shape = _laid_out(module.entry.program_shape.result, output_layout)
        if shape.byte_size > max_bytes:
            raise ResourceExhaustedError(
                f"a value may take {max_bytes} bytes, got {shape.byte_size} for the result {shape}"
            )
        plans = PlanCache(is_dynamic=has_dynamic_shapes(module))
        use = MemoryUse(0, 0, shape.byte_size, temporary_bytes(module, plans))
    with reserve(use):
        options = ExecuteOptions(cancellation=cancellation)
        return literal_of(evaluate(module, (), options=options, plans=plans), shape)


def _check_constant(module: HloModule) -> None:
    if module.entry.parameters:
        raise InvalidArgumentError(
            "a constant program has no parameters, got "
            f"{len(module.entry.parameters)} in {module.entry}"
        )
    for instruction in module.instructions():
        if instruction.opcode is Opcode.CUSTOM_CALL:
            raise UnimplementedError(
                "custom calls are not evaluated in constants, got target "
                f"{instruction.attributes.target!r}"
            ).at(str(instruction.opcode), instruction.name)
        if instruction.opcode in _NOT_CONSTANT:
            raise InvalidArgumentError(
                f"a constant must not depend on anything, got {instruction.opcode}"
            ).at(str(instruction.opcode), instruction.name)


def _laid_out(result: Shape, layout: Layout | None) -> Shape:
    plain = result.without_layout()
    if layout is None:
        return plain.with_default_layout()
    if not plain.is_array or len(layout.minor_to_major) != plain.rank:
        raise InvalidArgumentError(f"output_layout must fit the result, got {layout} for {plain}")
    return plain.with_layout(layout)
