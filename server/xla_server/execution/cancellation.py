"""Requests that a run stops or pauses, passed between threads."""

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator

from xla_contract.errors import CancelledError, XlaError
from xla_server.execution.cancellation_flag import (
    FLAG_WORDS,
    FUTEX,
    GO,
    HELPED,
    STOP,
    WAIT,
    wake,
)
from xla_server.execution.completion import Completion

_WORDS = ctypes.c_int64 * FLAG_WORDS


class Cancellation(Completion):
    """A request to stop a run, set once from any thread and noticed at the run's next instruction.

    A waiting thread registers a callback to be woken. The first call of `cancel` decides the error.
    A run calls `checkpoint` between its instructions, and waits there while it is paused; native
    code polls the flag at `flag_address`. It is done, as a Completion, once it is cancelled.
    """

    __slots__ = ("_flag", "_gate", "error", "is_outside", "needs_checkpoint")

    add_callback = Completion.when_done

    def __init__(self) -> None:
        super().__init__()
        self.needs_checkpoint = False
        """True if the run must stop or wait, so that `checkpoint` does something."""
        self.is_outside = False
        """True during `outside`."""
        self._gate: threading.Event | None = None
        """Open unless the run is paused; None until the first pause."""
        self.error: XlaError | None = None
        """The error given to `cancel`; None before. `check` raises a copy of it."""
        self._flag: ctypes.Array[ctypes.c_int64] | None = None

    def cancel(self, error: XlaError | None = None) -> bool:
        """Ask the run to stop with `error`, by default CancelledError.

        Calls the registered callbacks in this thread. Returns whether this call was the first.
        """
        with self._lock:
            if self.error is not None:
                return False
            self.error = CancelledError("the caller gave up") if error is None else error
            self.needs_checkpoint = True
            if self._gate is not None:
                self._gate.set()
            self._set_flag(STOP)
        return self.finish()

    @property
    def is_cancelled(self) -> bool:
        """True if `cancel` was called."""
        return self.error is not None

    @property
    def flag_address(self) -> int:
        """The address of FLAG_WORDS int64 (`cancellation_flag`).

        The first says whether the run continues, stops or waits. Native code reads it; it lives as
        long as this object.
        """
        flag = self._flag
        if flag is None:
            with self._lock:
                if self._flag is None:
                    self._flag = _WORDS(GO)
                    if self.error is not None:
                        self._set_flag(STOP)
                    elif self._gate is not None and not self._gate.is_set():
                        self._set_flag(WAIT)
                flag = self._flag
        return ctypes.addressof(flag)

    @property
    def helper_seconds(self) -> float:
        """The processor time that helper threads have spent on the run, in seconds."""
        flag = self._flag
        return 0.0 if flag is None else flag[HELPED] / 1e9

    def check(self) -> None:
        """Raise the error given to `cancel`, if it was called."""
        error = self.error
        if error is not None:
            # A copy: several threads may raise at once and each raise writes a traceback.
            raise type(error)(
                error.message, op=error.op, instruction=error.instruction, hint=error.hint
            )

    def pause(self) -> None:
        """Pause the run at its next checkpoint, until `proceed` or `cancel`."""
        with self._lock:
            if self.error is None:
                if self._gate is None:
                    self._gate = threading.Event()
                self._gate.clear()
                self.needs_checkpoint = True
                self._set_flag(WAIT)

    def proceed(self) -> None:
        """Resume the run after `pause`."""
        with self._lock:
            if self.error is None:
                self.needs_checkpoint = False
                self._set_flag(GO)
                if self._gate is not None:
                    self._gate.set()

    def checkpoint(self) -> None:
        """Wait while the run is paused; raise the error given to `cancel`, if it was called.

        For the thread of the run alone, which must hold nothing that others wait for.
        """
        gate = self._gate
        if gate is not None and not gate.is_set():
            gate.wait()
        self.check()

    def wait_for(self, event: Completion) -> None:
        """Wait for an event; raise the error given to `cancel`, if it is called during the wait."""
        woken = threading.Event()
        forget = event.when_done(woken.set)
        try:
            with self.calling(woken.set):
                woken.wait()
        finally:
            forget()
        self.check()

    def _set_flag(self, value: int) -> None:
        """Set the flag that native code polls. Under the lock."""
        flag = self._flag
        if flag is not None and (value != WAIT or FUTEX):
            flag[0] = value
            if value != WAIT:
                wake(flag)

    @contextlib.contextmanager
    def followed(self) -> Iterator["Cancellation"]:
        """A cancellation of its own for a part of the run, set with this one during the block."""
        part = Cancellation()

        def stop() -> None:
            part.cancel(self.error)

        # Each run of a batch has one, so that the costs of `calling` would count.
        forget = self.add_callback(stop)
        try:
            yield part
        finally:
            forget()

    @contextlib.contextmanager
    def outside(self) -> Iterator[None]:
        """Mark a block in which the run may need no core: it waits for what others execute.

        Schedulers charge wall time for it instead of processor time.
        """
        self.is_outside = True
        try:
            yield
        finally:
            self.is_outside = False

    @contextlib.contextmanager
    def calling(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call `callback` on cancellation during the block, as `add_callback`."""
        forget = self.add_callback(callback)
        try:
            yield
        finally:
            forget()
