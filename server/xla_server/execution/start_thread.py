"""Threads of the server, which the system may refuse: containers and users have limits of them."""

import threading
from collections.abc import Callable

from xla_contract.errors import ResourceExhaustedError


def start_thread(target: Callable[[], object], name: str) -> threading.Thread:
    """Start a daemon thread; raises as `start`."""
    thread = threading.Thread(target=target, name=name, daemon=True)
    start(thread)
    return thread


def start(thread: threading.Thread) -> None:
    """Start a thread; raises ResourceExhaustedError if the system refuses it."""
    try:
        thread.start()
    except RuntimeError as error:
        message = f"the server must be able to start threads, got {error}"
        raise ResourceExhaustedError(message) from None
