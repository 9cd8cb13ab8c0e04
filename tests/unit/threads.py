"""The system's refusal of threads."""

import contextlib
import threading
from collections.abc import Iterator

import pytest


@contextlib.contextmanager
def no_threads() -> Iterator[None]:
    """Refuse new threads for the block, as a limit of the system's does."""

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        yield
