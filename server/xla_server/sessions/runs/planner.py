"""Planning of runs: a whole run is checked before its first step runs.

Checked are handles, counts, shapes, layouts, references to earlier steps and donations.
"""

from collections.abc import Sequence

from xla_contract.errors import InvalidArgumentError, XlaError
from xla_contract.types.shape import Shape
from xla_server.backends.platform import Buffer, Device
from xla_server.sessions.error_context import part_of_request, with_context
from xla_server.sessions.programs.executable_table import LoadedExecutable
from xla_server.sessions.runs.grids.grid_runner import GridRunner
from xla_server.sessions.runs.grids.shared_step import parameter_shape, shared_step
from xla_server.sessions.runs.program_runner import require_count, require_fitting
from xla_server.sessions.runs.requests import (
    Argument,
    HandleArgument,
    InlineArgument,
    ResultArgument,
    RunRequest,
    RunStep,
)
from xla_server.sessions.runs.run import PlannedRun, PlannedStep, Source
from xla_server.sessions.runs.run_outputs import OutputReader, part_shape
from xla_server.sessions.values.donation_check import Donations, Path, Root
from xla_server.sessions.values.futures import ValueFuture
from xla_server.sessions.values.value_table import Reservation

MAX_STEPS = 1024
"""Largest number of steps of one run, as the contract says."""


def plan_run(grids: GridRunner, request: RunRequest) -> PlannedRun:
    """Check a run of a session, and hold its arguments until it is closed.

    Raises InvalidArgumentError, with the step and the argument, for a mismatch; NotFoundError for
    handles never issued; ResourceExhaustedError if the values sent along do not fit or those to be
    sent back exceed a message.
    """
    device = grids.runner.devices.resolve(request.device)
    if not 1 <= len(request.steps) <= MAX_STEPS:
        raise InvalidArgumentError(
            f"a run must have between 1 and {MAX_STEPS} steps, got {len(request.steps)}"
        )
    plan = _Plan(grids, device)
    try:
        return plan.run(request.steps)
    except BaseException:  # Whatever ends it, held values and reserved memory are released.
        plan.undo()
        raise


class _Plan:
    """A run under construction, step by step."""

    def __init__(self, grids: GridRunner, device: Device) -> None:
        self._grids = grids
        self._runner = grids.runner
        self._values = grids.runner.data
        self._device = device
        self._steps: list[PlannedStep] = []
        self._held: dict[int, Buffer | ValueFuture] = {}
        self._donated: list[int] = []
        self._inline_reservation: Reservation | None = None
        self._donations = Donations()
        self._last_use: dict[int, int] = {}
        self._outputs = OutputReader(grids.runner.engine.limits.max_message_bytes)

    def undo(self) -> None:
        """Release all held values and reserved memory."""
        if self._held:
            self._values.release(list(self._held.values()))
        if self._inline_reservation is not None:
            self._inline_reservation.release()

    def run(self, steps: Sequence[RunStep]) -> PlannedRun:
        """Return the run of these steps."""
        # Bytes of the values sent along are those that arrived: `read` checks them against the
        # shapes.
        inline_bytes = 0
        uses: dict[int, tuple[int, int]] = {}
        for number, step in enumerate(steps):
            for index, argument in enumerate(step.arguments):
                if isinstance(argument, HandleArgument):
                    uses.setdefault(argument.handle, (number, index))
                elif isinstance(argument, InlineArgument):
                    inline_bytes += argument.byte_size
        if uses:
            self._hold(uses)
        if inline_bytes:
            self._inline_reservation = self._values.reserve(inline_bytes, "values sent along")
        for number, step in enumerate(steps):
            with part_of_request(f"step {number}"):
                self._steps.append(self._step(number, step))
        self._finish()
        self._values.note_fetched(uses)
        return PlannedRun(
            self._grids,
            self._device,
            self._steps,
            self._held,
            self._donated,
            self._inline_reservation,
            self._outputs.sent_back,
        )

    def _hold(self, uses: dict[int, tuple[int, int]]) -> None:
        """Hold the values of these handles; an error names the argument of the first wrong one."""
        handles = list(uses)
        try:
            entries = self._values.hold(handles)
        except XlaError:
            for handle, (number, index) in uses.items():
                try:
                    self._values.handles.get(handle)
                except XlaError as error:
                    raise with_context(f"step {number}: argument {index}", error) from None
            raise
        self._held = dict(zip(handles, entries, strict=True))

    def _step(self, number: int, step: RunStep) -> PlannedStep:
        compiled = self._runner.compiled_under(step.executable)
        parameters = compiled.program_shape.parameters
        require_count(step.arguments, parameters)
        sources: list[Source] = []
        donated: list[int] = []
        is_shared = len(compiled.devices) > 1
        for index, argument in enumerate(step.arguments):
            try:
                if isinstance(argument, InlineArgument):
                    # A value sent along belongs to the run, donated or not.
                    sources.append(self._inline(argument, compiled, index))
                    continue
                source = self._source(argument, None if is_shared else parameters[index])
            except XlaError as error:
                raise with_context(f"argument {index}", error) from error.__cause__
            sources.append(source)
            if argument is not None and argument.donate:
                donated.append(index)
            if isinstance(source, ResultArgument):
                self._last_use[source.step] = number
        if donated or self._donations:
            self._check_donations(number, step, donated)
        result, size = compiled.program_shape.result, compiled.footprint.byte_size
        if is_shared:
            shapes = [self._shape_of(source) for source in sources]
            result, size = shared_step(compiled, shapes)
        output = self._outputs.read(step.output, result)
        return PlannedStep(compiled, sources, donated, output, result, size)

    def _source(
        self, argument: HandleArgument | ResultArgument | None, parameter: Shape | None
    ) -> Source:
        """Return the value that an argument names, which must fit `parameter`, if that is given."""
        if argument is None:
            raise InvalidArgumentError("an argument must say its source, got none")
        source: Source = (
            self._held[argument.handle] if isinstance(argument, HandleArgument) else argument
        )
        shape = self._shape_of(source)
        if parameter is not None and shape is not parameter:
            require_fitting(shape, parameter, "it")
        return source

    def _inline(self, argument: InlineArgument, compiled: LoadedExecutable, index: int) -> Buffer:
        """A value sent along; its layout describes the wire only."""
        literal = argument.read(max_bytes=self._runner.engine.quotas.device_bytes)
        parameter = parameter_shape(compiled, index, literal.shape)
        if not literal.shape.equal(parameter):
            if not literal.shape.compatible(parameter):
                raise InvalidArgumentError(
                    "a value must have the shape of its parameter, got "
                    f"{literal.shape} for {parameter}"
                )
            literal = literal.relayout(parameter)
        return self._runner.engine.backend.to_device(literal, self._device)

    def _shape_of(self, source: Source) -> Shape:
        if not isinstance(source, ResultArgument):
            return source.shape
        done = len(self._steps)
        if not 0 <= source.step < done:
            raise InvalidArgumentError(
                f"a step can use the results of those before it, got step {source.step} with "
                f"{done} before"
            )
        return part_shape(self._steps[source.step].result, source.path)

    def _check_donations(self, number: int, step: RunStep, donated: Sequence[int]) -> None:
        """Record the step's donations; a donated value must have no other use here or later."""
        for index in donated:
            root = _root(step.arguments[index])
            if root is not None:
                self._donations.add(*root, f"argument {index} of step {number}")
                kind, handle = root[0]
                if kind == "handle":
                    self._donated.append(handle)
        if self._donations:
            for index, argument in enumerate(step.arguments):
                root = _root(argument)
                if root is not None and index not in donated:
                    self._donations.check(*root, f"argument {index} of step {number}")

    def _finish(self) -> None:
        """Find the last use of each result, and check that no output is a donated value."""
        steps = self._steps
        for number, step in enumerate(steps):
            steps[self._last_use.get(number, number)].done_with.append(number)
            if not self._donations:
                continue
            if step.output.uses_whole:
                self._donations.check(("step", number), (), f"the output of step {number}")
            for part in step.output.parts:
                where = f"part {list(part.path)} of the output of step {number}"
                self._donations.check(("step", number), part.path, where)


def _root(argument: Argument) -> "tuple[Root, Path] | None":
    """Return the root of an argument; None for a value sent along."""
    if isinstance(argument, HandleArgument):
        return ("handle", argument.handle), ()
    if isinstance(argument, ResultArgument):
        return ("step", argument.step), argument.path
    return None
