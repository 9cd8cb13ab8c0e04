"""One session: a method per rpc, on the contract's own types.

Semantics: those the contract states in xla_service.proto. Deviations from the reference are
documented where they are.
"""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from xla_contract.errors import (
    CancelledError,
    InvalidArgumentError,
    ResourceExhaustedError,
    UnauthenticatedError,
    XlaError,
)
from xla_contract.types.layout import Layout
from xla_contract.types.literal import Literal
from xla_contract.types.shape import Shape
from xla_contract.wire.literals.decoding import UndecodedLiteral
from xla_server.buffers.assignment import MemoryUse
from xla_server.evaluator.cost_analysis import Cost, module_cost
from xla_server.execution.cancellation import Cancellation
from xla_server.execution.cancellation_set import CancellationSet
from xla_server.ir.verification.verifier import verify
from xla_server.sessions.feeds.channel_table import ChannelTable
from xla_server.sessions.feeds.device_feeds import DeviceFeeds
from xla_server.sessions.feeds.device_table import DeviceHandle, DeviceTable
from xla_server.sessions.feeds.queue_entries import Done, Lent
from xla_server.sessions.handle_listing import HandleListing
from xla_server.sessions.limits.compile_budget import CompileBudget
from xla_server.sessions.limits.response_memory import SessionResponseMemory
from xla_server.sessions.limits.semaphores import FairSemaphore
from xla_server.sessions.limits.server_limits import Quotas
from xla_server.sessions.limits.shares.caller import LOCAL, Caller, flow_of
from xla_server.sessions.programs.compile_request import ProgramSource
from xla_server.sessions.programs.constant_evaluation import compute_constant
from xla_server.sessions.programs.executable_table import ExecutableTable
from xla_server.sessions.runs.background_executions import BackgroundExecutions
from xla_server.sessions.runs.grids.grid_runner import GridRunner
from xla_server.sessions.runs.program_runner import ProgramRunner
from xla_server.sessions.shared_resources import SharedResources
from xla_server.sessions.transfers.session_arena import SessionArena
from xla_server.sessions.transfers.upload_table import UploadTable
from xla_server.sessions.values.handles import HandleFactory, HandleKind, HandleTable
from xla_server.sessions.values.value_table import Reservation, ValueTable, checked_layout

_numbers = itertools.count(1)
"""Names of sessions for schedulers; none is reused."""


class Session:
    """Values, executables, feeds and channels of one session.

    Any thread may call any method, until `close`.
    """

    def __init__(self, engine: SharedResources, caller: Caller = LOCAL) -> None:
        self.engine = engine
        self.caller = caller
        """The caller whose resources it uses."""
        self.flow = flow_of(caller, str(next(_numbers)))
        """The source of the session's jobs, for schedulers."""
        self.limits = engine.limits
        self.quotas = quotas = engine.quotas
        handles = HandleFactory()
        self.handles = handles
        self.data = ValueTable(
            handles,
            engine.memory,
            max_bytes=quotas.device_bytes,
            max_handles=quotas.handles,
            caller=caller,
        )
        self.response_memory = SessionResponseMemory(
            engine.response_memory,
            max_bytes=quotas.answer_bytes,
            max_answer_bytes=engine.limits.max_message_bytes,
            caller=caller,
        )
        self.executables = ExecutableTable(handles, engine.programs, max_handles=quotas.handles)
        self.channels = ChannelTable(
            handles, max_items=quotas.queued_items, max_bytes=quotas.queued_bytes
        )
        self.devices = DeviceTable(
            engine.backend.devices,
            lambda: DeviceFeeds(
                max_items=quotas.queued_items,
                max_bytes=quotas.queued_bytes,
                require_channel=self.channels.require,
            ),
        )
        self.running = FairSemaphore(
            quotas.concurrent_executions,
            "executions at the same time",
            "Wait for one to end, or launch them: launched executions are queued.",
            engine.executing,
            caller,
        )
        self.compiling = CompileBudget(quotas.compile_seconds)
        self.runner = ProgramRunner(
            engine,
            self.devices,
            self.data,
            self.executables,
            self.channels,
            self.running,
            self.compiling,
            caller,
            self.flow,
        )
        self.grids = GridRunner(self.runner)
        self.executions = BackgroundExecutions(
            self.grids,
            self.data,
            HandleTable(handles, HandleKind.EXECUTION, quotas.handles),
            self.running,
            FairSemaphore(
                quotas.launched_executions,
                "executions that were launched and have not ended",
                "Wait for one to end.",
                engine.launching,
                caller,
            ),
            engine.launched,
            self.submit,
        )
        self.uploads = UploadTable(
            self.data, self.devices, engine.backend, engine.blocks, engine.limits
        )
        self.shared_memory = SessionArena(
            engine.arenas,
            self.data,
            self.devices,
            engine.backend,
            engine.blocks,
            caller,
        )
        self.listing = HandleListing(handles, self.data, self.executables, self.executions)
        self._calls = CancellationSet()
        self.is_closed = False
        """True after `close`."""

    # The session ----------------------------------------------------------------------------

    def submit(self, do: Callable[..., object], /, *arguments: Any) -> None:
        """Call `do` in a thread for executions when it is the session's turn."""
        # The threads end only with the server, when no client waits for a result.
        with contextlib.suppress(RuntimeError):
            self.engine.execution_threads.submit_for(self.flow, do, *arguments)

    @contextlib.contextmanager
    def calling(self, cancellation: Cancellation) -> Iterator[None]:
        """Run a call of the session, which is cancelled if the session ends first."""
        try:
            self.begin_call(cancellation)
            yield
        finally:
            self.end_call(cancellation)

    def begin_call(self, cancellation: Cancellation) -> None:
        """Begin a call as `calling` does; `end_call` ends it."""
        if self.is_closed:
            raise UnauthenticatedError("a session must be open to be used, got one that has ended")
        self._calls.add(cancellation)

    def end_call(self, cancellation: Cancellation) -> None:
        """End what `begin_call` began, or tried to."""
        self._calls.discard(cancellation)

    def close(self) -> None:
        """End calls and executions, and free everything."""
        self.is_closed = True
        self._calls.cancel_all(CancelledError("the session of the call was closed"))
        self.executions.close()
        self.uploads.close()
        self.shared_memory.close()
        self.devices.reset()
        self.channels.reset()
        self.data.close()
        self.executables.close()

    def use(self) -> Quotas:
        """The use of the session's quotas; for queues, of the fullest one."""
        feeds = [size for each in self.devices.all_feeds() for size in each.sizes()]
        return Quotas(
            device_bytes=self.data.used_bytes + self.data.reserved_bytes,
            handles=max(len(self.data), len(self.executables)),
            queued_items=max((items for items, _ in feeds), default=0),
            queued_bytes=max((size for _, size in feeds), default=0),
            concurrent_executions=self.running.used,
            launched_executions=len(self.executions),
            compile_seconds=self.compiling.used,
            answer_bytes=self.response_memory.used_bytes,
        )

    @property
    def is_empty(self) -> bool:
        """True if it has no values, executables, channels, queues or executions."""
        kept = self.data or self.executables or self.executions or self.uploads
        has_memory = self.shared_memory.is_connected
        return not (kept or has_memory or self.devices.all_feeds() or self.channels.has_any)

    @property
    def has_results(self) -> bool:
        """True if the client may ask for launched executions, or for results of them."""
        return bool(self.data.unfetched) or len(self.executions.handles) > 0

    # Values ---------------------------------------------------------------------------------

    def transfer_to_server(
        self, literal: UndecodedLiteral | None, device: DeviceHandle | None
    ) -> int:
        """Keep a literal on a device, under a new handle.

        Raises InvalidArgumentError for a literal that is absent or malformed and
        ResourceExhaustedError, before anything is allocated, if it exceeds the session's memory.
        """
        target = self.devices.resolve(device)
        if literal is None:
            raise InvalidArgumentError("the request must hold a literal, got none")
        shape = literal.shape
        with self.data.reserve(shape.byte_size, f"a literal of {shape}") as reservation:
            value = literal.read(self.limits.max_device_bytes)
            return reservation.keep(self.engine.backend.to_device(value, target))

    def transfer_to_client(self, handle: int, shape: Shape | None) -> Literal:
        """The value under a handle, in the layout of `shape` or else in its own.

        Raises InvalidArgumentError when `shape` has no layout or is not compatible (the reference
        lets that pass), ResourceExhaustedError when no message could hold the value.
        """
        buffer = self.data.get(handle)
        self.check_sendable(checked_layout(shape, buffer.shape))
        literal = buffer.to_literal(shape)
        self.data.note_fetched([handle])
        return literal

    def unregister(self, handles: Sequence[int]) -> None:
        """Free values and executables, forget executions; all are tried.

        The first error is raised.

        Executables are freed by the number of their ExecutionHandle; the reference cannot free
        them.
        """
        first: XlaError | None = None
        for handle in handles:
            try:
                self._unregister(handle)
            except XlaError as error:
                first = error if first is None else first
        if first is not None:
            raise first

    def _unregister(self, handle: int) -> None:
        if self.executables.handles.has_issued(handle):
            self.executables.remove(handle)
        elif self.handles.was_issued(handle, HandleKind.EXECUTION):
            self.executions.forget(handle)
        else:
            self.data.remove(handle)

    # Feeds ----------------------------------------------------------------------------------

    def transfer_to_infeed(
        self,
        literal: UndecodedLiteral | None,
        replica_id: int,
        device: DeviceHandle | None,
        cancellation: Cancellation,
        done: Done,
    ) -> None:
        """Queue a literal for infeed instructions and call `done`, once it fits.

        Raises, or gives to `done`, as `DeviceFeeds.transfer_to_infeed`; FailedPreconditionError for
        a replica_id out of range, InvalidArgumentError for a literal that is absent or malformed,
        ResourceExhaustedError if it does not fit among the values of the session.
        """
        feeds = self.devices.feeds_of_replica(device, replica_id)
        if literal is None:
            raise InvalidArgumentError("the request must hold a literal, got none")
        shape = literal.shape
        # A literal that waits for the queue is not counted there, and any number may wait.
        waiting = self.data.reserve(shape.byte_size, f"a literal of {shape} on its way to infeed")

        def queued(error: XlaError | None) -> None:
            waiting.release()
            done(error)

        try:
            value = literal.read(self.limits.max_device_bytes)
            feeds.transfer_to_infeed(value, cancellation, queued)
        except BaseException:
            waiting.release()
            raise

    def transfer_from_outfeed(
        self,
        shape: Shape | None,
        replica_id: int,
        device: DeviceHandle | None,
        cancellation: Cancellation,
        done: Lent,
    ) -> None:
        """Lend the next value of outfeed to `done`, once it is queued.

        Raises, or gives to `done`, as `DeviceFeeds.transfer_from_outfeed`; FailedPreconditionError
        for a replica_id out of range, InvalidArgumentError without a shape. (A fed value of another
        shape is INVALID_ARGUMENT and stays in the queue, where the reference answers INTERNAL.)
        """
        feeds = self.devices.feeds_of_replica(device, replica_id)
        if shape is None:
            raise InvalidArgumentError("the request must hold shape_with_layout, got none")
        self.check_sendable(shape)
        feeds.transfer_from_outfeed(shape, cancellation, done)

    def reset_device(self) -> None:
        """Empty the feeds of all devices and all channels. Values and executables stay."""
        self.devices.reset()
        self.channels.reset()

    # Programs -------------------------------------------------------------------------------

    def compute_constant_graph(
        self,
        program: ProgramSource,
        output_layout: Layout | None,
        cancellation: Cancellation,
    ) -> Literal:
        """The value of a program without parameters.

        Raises as `compute_constant`, and ResourceExhaustedError when the session runs too many.
        """

        def reserve(use: MemoryUse) -> Reservation:
            purpose = f"a constant ({use})"
            return self.engine.queue.reserve(
                self.data, use.added, purpose, cancellation, self.running
            )

        with self.running.acquired(), self.engine.time_slicer.acquired(cancellation, self.flow):
            return compute_constant(
                program,
                output_layout,
                max_bytes=min(self.limits.max_device_bytes, self.limits.max_message_bytes),
                cancellation=cancellation,
                reserve=reserve,
            )

    def get_computation_graph_stats(self, program: ProgramSource) -> Cost:
        """The cost of a program before any pass; raises as import and verification."""
        module = program.load(self.limits.max_device_bytes)
        verify(module)
        return module_cost(module)

    def check_sendable(self, shape: Shape) -> None:
        """Refuse, before anything is allocated, a value larger than a message.

        Raises ResourceExhaustedError, with the limit, for a value that takes more in this layout.
        """
        if shape.byte_size > self.limits.max_message_bytes:
            raise ResourceExhaustedError(
                f"a message may take {self.limits.max_message_bytes} bytes, got a value of "
                f"{shape.byte_size} for {shape}",
                hint="Slice the value on the device and transfer the parts.",
            )
