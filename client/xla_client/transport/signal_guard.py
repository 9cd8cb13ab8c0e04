"""Protection from Ctrl-C for code that KeyboardInterrupt would leave in an unusable state.

KeyboardInterrupt is raised between any two steps of Python code, also between taking a lock and the
block that releases it. A lock of grpc that stays taken stops grpc's threads, and every later call
of the channel waits for ever.
"""

import _thread
import importlib
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

_SIGNAL: Any = importlib.import_module("_signal")
"""The module below `signal`, which converts all its arguments to enums and takes longer than a
message.
"""


class DeferredInterrupt:
    """A block that Ctrl-C does not end halfway: `with DeferredInterrupt(give_up):`.

    On Ctrl-C `give_up` is called at once, in a thread of its own, and must make the block end soon.
    It is called again after the block, so that it is certain to be done when KeyboardInterrupt is
    raised. This works in the main thread only, as Python interrupts no other one, and only if
    Ctrl-C raises KeyboardInterrupt: any other handler of SIGINT is left as it is.
    """

    __slots__ = ("_give_up", "_is_active", "_is_interrupted")

    def __init__(self, give_up: Callable[[], object]) -> None:
        self._give_up = give_up
        self._is_active = self._is_interrupted = False

    def __enter__(self) -> None:
        if (
            threading.get_ident() == threading.main_thread().ident
            and _SIGNAL.getsignal(signal.SIGINT) is signal.default_int_handler
        ):
            self._is_active = True
            _SIGNAL.signal(signal.SIGINT, self._note)

    def __exit__(self, *_: object) -> None:
        if self._is_active:
            self._is_active = False
            if self._is_interrupted:
                self._give_up()
            _SIGNAL.signal(signal.SIGINT, signal.default_int_handler)
            if self._is_interrupted:
                raise KeyboardInterrupt

    def _note(self, _: int, frame: FrameType | None) -> None:
        if not self._is_interrupted:
            self._is_interrupted = True
            # The block may hold locks that `give_up` needs, and those of `threading`, too.
            _thread.start_new_thread(self._give_up, ())
