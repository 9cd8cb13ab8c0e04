"""The verifier of modules: its structure, and every declared shape.

Runs in time linear in the module and allocates no value, so untrusted programs are verified before
they are evaluated.
"""

from xla_contract.errors import (
    InvalidArgumentError,
    ResourceExhaustedError,
    ShapeError,
    UnimplementedError,
    XlaError,
)
from xla_contract.ops.definitions import infer_shape
from xla_contract.types.devices.device_grid import DeviceGrid
from xla_contract.types.opcode import Opcode
from xla_contract.types.shape import UNBOUNDED, ProgramShape, Shape
from xla_server.ir.analysis.participants import COLLECTIVES, check_participants_exist, transfers_of
from xla_server.ir.analysis.side_effects import is_effectful
from xla_server.ir.checkpoints import checkpoint
from xla_server.ir.module import SEQUENTIAL_CALLERS, HloComputation, HloInstruction, HloModule
from xla_server.ir.verification.aliases import check_aliases
from xla_server.ir.verification.transfer_cycles import check_transfer_cycles

MAX_CALL_DEPTH = 1000
"""Most computations that may call each other in a chain. The compiler does not recurse over
them; the limit bounds the work of passes that look at a loop once for each loop around it."""

MAX_APPLIED_DEPTH = 100
"""Most of these that are applied to elements (by reduce, map, sort ...): the interpreter nests
eight Python calls for each that is no formula."""

_FREE_ORDER = frozenset(
    {
        Opcode.CUSTOM_CALL,
        Opcode.REDUCE,
        Opcode.REDUCE_WINDOW,
        Opcode.SCATTER,
        Opcode.SELECT_AND_SCATTER,
        Opcode.SORT,
    }
)
"""Operations that do not define how often, and in which order, they call computations."""

_IN_SEQUENCE = SEQUENTIAL_CALLERS | {Opcode.FUSION, Opcode.ASYNC_START, Opcode.SCAN}
"""Operations that run what they call instruction by instruction."""

_FIRST_HALF = {Opcode.SEND_DONE: Opcode.SEND, Opcode.RECV_DONE: Opcode.RECV}


def verify(module: HloModule, *, max_value_bytes: int | None = None) -> None:
    """Check that `module` can be run as it stands.

    Structure: operands and called computations come before their users, roots and parameters
    belong to their computations, names are unique. Shapes: every declared shape is compatible
    with the inferred one, and the entry's signature with entry_program_shape; layouts are free.
    Aliases and donors: what they name exists. Participants: groups fit the grid, if it has several.
    Transfers: those inside the module do not wait for each other in a circle.
    Raises InvalidArgumentError (ShapeError for shapes) naming the instruction and both sides,
    UnimplementedError for values that no evaluator can hold, and ResourceExhaustedError for a
    value of more than `max_value_bytes`. Raises as `checkpoint`, too.
    """
    checker = _Checker(max_value_bytes, module.grid)
    for computation in module.computations:
        checker.check_computation(computation)
    if module.entry not in checker.signatures:
        raise InvalidArgumentError(
            f"the entry computation must be one of the module's, got %{module.entry.name}"
        )
    check_signature(module.entry_program_shape, module.entry.program_shape)
    check_aliases(module)
    if checker.has_transfers:
        check_transfer_cycles([module], module.grid)


def check_signature(declared: ProgramShape, actual: ProgramShape) -> None:
    """Raise ShapeError unless a declared signature is compatible with a program's own."""
    check_parameter_count(declared, actual)
    names = [*(f"parameter {number} =" for number in range(len(actual.parameters))), "result"]
    stated, own = (*declared.parameters, declared.result), (*actual.parameters, actual.result)
    for name, theirs, ours in zip(names, stated, own, strict=True):
        if not theirs.compatible(ours):
            raise ShapeError(
                "the entry signature must be compatible with the program, got "
                f"{name} {theirs} for {ours}"
            )


def check_parameter_count(declared: ProgramShape, actual: ProgramShape) -> None:
    """Raise ShapeError unless a declared signature has as many parameters as a program's own."""
    if len(declared.parameters) != len(actual.parameters):
        raise ShapeError(
            "the entry signature must have as many parameters as the program, got "
            f"{len(declared.parameters)} and {len(actual.parameters)}"
        )


class _Checker:
    """State of the verifier: checked values, while the computations are walked in order."""

    def __init__(self, max_value_bytes: int | None, grid: DeviceGrid) -> None:
        self._grid = grid
        self.has_transfers = False
        self._ends: dict[tuple[Opcode, int], HloInstruction] = {}
        self.signatures: dict[HloComputation, ProgramShape] = {}
        self._depths: dict[HloComputation, int] = {}
        self._applied: dict[HloComputation, int] = {}
        self._effects: dict[HloComputation, HloInstruction | None] = {}
        self._names: set[str] = set()
        self._max_value_bytes = max_value_bytes

    def check_computation(self, computation: HloComputation) -> None:
        location = f"computation %{computation.name}"
        seen: set[HloInstruction] = set()
        depth = applied = 1
        for instruction in computation.instructions:
            checkpoint()
            if not instruction.name or instruction.name in self._names:
                raise InvalidArgumentError(
                    "instruction names must be unique in the module and not empty, got "
                    f"'{instruction.name}' again in {location}"
                )
            self._names.add(instruction.name)
            try:
                self._check_structure(instruction, seen, location)
                self._check_value(instruction.shape)
                self._check_shape(instruction)
                _check_channel(instruction)
                self._check_participants(instruction)
                self._check_effects(instruction)
            except XlaError as error:
                raise error.at(instruction.opcode, instruction.name) from error.__cause__
            self.has_transfers |= instruction.opcode is Opcode.SEND
            seen.add(instruction)
            depth = max([depth, *(1 + self._depths[called] for called in instruction.called)])
            own = instruction.opcode not in _IN_SEQUENCE
            applied = max([applied, *(own + self._applied[part] for part in instruction.called)])
        if depth > MAX_CALL_DEPTH:
            raise ResourceExhaustedError(
                f"{location}: computations may call each other {MAX_CALL_DEPTH} deep, got {depth}"
            )
        if applied > MAX_APPLIED_DEPTH:
            raise ResourceExhaustedError(
                f"{location}: computations that are applied to elements may call each other "
                f"{MAX_APPLIED_DEPTH} deep, got {applied}"
            )
        if computation.root not in seen:
            raise InvalidArgumentError(
                f"{location}: the root must be an instruction of the computation, got "
                f"%{computation.root.name}"
            )
        _check_parameters(computation, location)
        self._depths[computation] = depth
        self._applied[computation] = applied
        self._effects[computation] = self._effect(computation)
        self.signatures[computation] = computation.program_shape

    def _check_structure(
        self, instruction: HloInstruction, seen: set[HloInstruction], location: str
    ) -> None:
        for part in (*instruction.operands, *instruction.control_predecessors):
            if part not in seen:
                raise InvalidArgumentError(
                    f"operands must come before their users, got %{part.name} in {location}"
                )
        for called in instruction.called:
            if called not in self.signatures:
                raise InvalidArgumentError(
                    f"called computations must come before their callers, got %{called.name}"
                )

    def _check_value(self, shape: Shape) -> None:
        for leaf in shape.leaves():
            if not leaf.is_array and not leaf.is_token:
                raise UnimplementedError(f"values must be made of arrays and tokens, got {leaf}")
            if UNBOUNDED in leaf.dimensions:
                raise UnimplementedError(
                    f"every dimension must have a size or a bound, got {leaf}",
                    hint="Lower it for sizes: jax.jit(exported.call).lower(*arguments).",
                )
        if self._max_value_bytes is not None and shape.byte_size > self._max_value_bytes:
            raise ResourceExhaustedError(
                f"a value may take {self._max_value_bytes} bytes, got {shape.byte_size} for {shape}"
            )

    def _effect(self, computation: HloComputation) -> HloInstruction | None:
        """An instruction with a side effect that a computation runs, if there is one."""
        for instruction in computation.instructions:
            inside = (self._effects[called] for called in instruction.called)
            found = instruction if is_effectful(instruction) else next(filter(None, inside), None)
            if found is not None:
                return found
        return None

    def _check_effects(self, instruction: HloInstruction) -> None:
        if instruction.opcode not in _FREE_ORDER:
            return
        for called in instruction.called:
            effect = self._effects[called]
            if effect is not None:
                raise InvalidArgumentError(
                    "a computation that is called in no certain order must have no side effects, "
                    f"got {effect.opcode} %{effect.name} in %{called.name}"
                )

    def _check_participants(self, instruction: HloInstruction) -> None:
        """Raise ShapeError for groups that the grid lacks; one device refuses them as it runs."""
        if self._grid.size == 1:
            return
        if instruction.opcode in COLLECTIVES:
            check_participants_exist(instruction, self._grid)
        elif instruction.opcode in _FIRST_HALF.values():
            transfers_of(instruction, self._grid)
            self._check_channel_use(instruction)

    def _check_channel_use(self, instruction: HloInstruction) -> None:
        """Raise InvalidArgumentError for a second send, or recv, on a channel."""
        channel: int = instruction.attributes.channel_id
        first = self._ends.setdefault((instruction.opcode, channel), instruction)
        if first is not instruction:
            raise InvalidArgumentError(
                f"a channel must have one send and one recv, got channel {channel} in "
                f"%{first.name}, too"
            )

    def _check_shape(self, instruction: HloInstruction) -> None:
        inferred = infer_shape(
            instruction.opcode,
            [operand.shape for operand in instruction.operands],
            instruction.attributes,
            [self.signatures[called] for called in instruction.called],
            instruction=instruction.name,
        )
        if not instruction.shape.compatible(inferred):
            raise ShapeError(
                "declared shape must match the inferred one, got "
                f"{instruction.shape.without_layout()} declared and {inferred} inferred"
            )


def _check_parameters(computation: HloComputation, location: str) -> None:
    found = [part for part in computation.instructions if part.opcode is Opcode.PARAMETER]
    found.sort(key=lambda part: part.attributes.number)
    numbers = [part.attributes.number for part in found]
    if numbers != list(range(len(found))) or tuple(found) != computation.parameters:
        names = ", ".join(f"%{part.name}" for part in computation.parameters[:8])
        raise InvalidArgumentError(
            f"{location}: the parameters must be the parameter instructions in order, each number "
            f"once, got numbers {numbers[:8]} and parameters ({names})"
        )


def _check_channel(instruction: HloInstruction) -> None:
    """Raise InvalidArgumentError if the halves of a send or recv do not match."""
    half = _FIRST_HALF.get(instruction.opcode)
    if half is None or instruction.operands[0].opcode not in _FIRST_HALF.values():
        return  # A value that went through a loop or a call has no visible first half.
    first = instruction.operands[0]
    ours, theirs = instruction.attributes, first.attributes
    if first.opcode is not half:
        raise InvalidArgumentError(
            f"the operand must be a {half}, got {first.opcode} %{first.name}"
        )
    if (ours.channel_id, ours.is_host_transfer) != (theirs.channel_id, theirs.is_host_transfer):
        raise InvalidArgumentError(
            "both halves must have the same channel_id and is_host_transfer, got "
            f"{ours.channel_id}, {ours.is_host_transfer} and {theirs.channel_id}, "
            f"{theirs.is_host_transfer} in {half} %{first.name}"
        )
