"""Admission of programs, and their signatures: shapes and layouts of arguments and result."""

from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from xla_contract.errors import InvalidArgumentError, ShapeError
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import ProgramShape, Shape
from xla_server.backends.device_buffer import DeviceBuffer
from xla_server.backends.diagnostics.dump import constant_bytes
from xla_server.backends.host_buffer import HostBuffer
from xla_server.backends.platform import Buffer
from xla_server.buffers.assignment import MemoryUse
from xla_server.custom_calls.target_registry import CustomCallRegistry
from xla_server.execution.channel_protocol import channel_ends
from xla_server.ir.module import HloModule
from xla_server.ir.verification.verifier import check_signature, verify
from xla_server.ops.evaluation import Value
from xla_server.ops.feeds.send_recv import require_own
from xla_server.ops.numerics.dynamic_bounds import plain
from xla_server.ops.random.rng_get_and_update_state import RandomStates


def admitted(
    module: HloModule,
    entry: ProgramShape,
    custom_calls: CustomCallRegistry,
    max_value_bytes: int | None,
) -> ProgramShape:
    """Verify a module and return its signature with the layouts of `entry`.

    Raises as `verify`, `check_signature` and `require_supported`.
    """
    verify(module, max_value_bytes=max_value_bytes)
    check_signature(entry, module.entry.program_shape)
    require_supported(module, custom_calls)
    return laid_out(module.entry.program_shape, entry)


def require_supported(module: HloModule, custom_calls: CustomCallRegistry) -> None:
    """Raise UnimplementedError for a custom call or transfer that cannot be executed.

    This includes computations without a caller: passes drop them, so only a check before the passes
    refuses them on every platform. Raises InvalidArgumentError for a custom call that its target
    rejects.
    """
    for instruction in module.instructions():
        if instruction.opcode is Opcode.CUSTOM_CALL:
            custom_calls.resolve(instruction)
        elif (
            instruction.opcode in (Opcode.SEND, Opcode.RECV)
            and module.grid.size == 1
            and not instruction.attributes.is_host_transfer
        ):
            require_own(instruction)


def laid_out(own: ProgramShape, entry: ProgramShape) -> ProgramShape:
    """Return a program's signature, dynamic dimensions included, with the layouts of `entry`."""
    return ProgramShape(
        tuple(map(_laid_out, own.parameters, entry.parameters)),
        _laid_out(own.result, entry.result),
        entry.parameter_names,
    )


def _laid_out(shape: Shape, layouts: Shape) -> Shape:
    if shape.is_tuple:
        pairs = zip(shape.tuple_shapes, layouts.tuple_shapes, strict=True)
        return Shape.tuple_of([_laid_out(part, wanted) for part, wanted in pairs])
    return shape.with_layout(layouts.layout_or_default) if shape.is_array else shape


def relaid_bytes(program_shape: ProgramShape) -> int:
    """Return the bytes of the arguments whose layout is not row-major, which are copied."""
    return sum(
        leaf.byte_size
        for shape in program_shape.parameters
        for leaf in shape.leaves()
        if leaf.is_array and leaf != leaf.without_layout().with_default_layout()
    )


B = TypeVar("B", bound=Buffer)


def argument_values(
    arguments: Sequence[Buffer],
    parameters: Sequence[Shape],
    kind: type[DeviceBuffer] = HostBuffer,
) -> list[Value]:
    """Return the values of arguments, which must fit the parameters.

    Raises InvalidArgumentError for a wrong number of arguments or one of another platform,
    ShapeError for one of another shape.
    """
    if len(arguments) != len(parameters):
        raise InvalidArgumentError(
            f"the program takes {len(parameters)} arguments, got {len(arguments)}"
        )
    return [
        argument_buffer(number, argument, shape, kind).value
        for number, (argument, shape) in enumerate(zip(arguments, parameters, strict=True))
    ]


def argument_buffer(number: int, argument: Buffer, shape: Shape, kind: type[B]) -> B:
    """Return an argument that fits its parameter; raises as `argument_values`."""
    if not isinstance(argument, kind):
        raise InvalidArgumentError(
            f"arguments must be on the program's platform, got argument {number} on "
            f"{argument.device}"
        )
    if not argument.shape.fits(shape):
        raise ShapeError(
            "arguments must be compatible with the parameters, got argument "
            f"{number} = {argument.shape} for {shape}"
        )
    return argument


def owned(value: Value) -> Value:
    """Return the value dense and row-major, in memory that is not part of a larger array.

    A slice would keep the whole array alive. A transposed view would be copied when a compiled
    program reads it, in memory that was not reserved.
    """
    if isinstance(value, tuple):
        return tuple(map(owned, value))
    if isinstance(value, np.ndarray):
        held = array = plain(value)
        while isinstance(held.base, np.ndarray):
            held = held.base
        is_own = array.flags.c_contiguous and held.nbytes <= array.nbytes + _SPARE
        return array if is_own else array.copy()
    return value


_SPARE = 1 << 12
"""Bytes in addition to its own that a result may keep alive; a result that keeps more is copied."""


class VerifiedProgram:
    """The part of executables that all platforms share: facts of the module, random numbers."""

    def __init__(self, module: HloModule, program_shape: ProgramShape, seed: int) -> None:
        self.name = module.name
        self.program_shape = program_shape
        self.channel_ends = channel_ends(module.entry)
        self.has_state = any(
            i.opcode is Opcode.RNG_GET_AND_UPDATE_STATE for i in module.instructions()
        )
        self._entry = module.entry
        self._seed = seed
        self._random_states = RandomStates()


class InterpretedProgram(VerifiedProgram):
    """The part of executables that interpreted programs share: facts known before a run."""

    work = None
    round_robin = None

    def __init__(
        self, module: HloModule, program_shape: ProgramShape, seed: int, temporary: int = 0
    ) -> None:
        super().__init__(module, program_shape, seed)
        self.kept_bytes = constant_bytes(module)
        arguments = sum(shape.byte_size for shape in program_shape.parameters)
        self.memory = MemoryUse(arguments, 0, program_shape.result.byte_size, temporary)
