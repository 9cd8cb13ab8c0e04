"""The child process of `Local`: the server's command line, ended when stdin ends."""

import os
import runpy
import signal
import sys
import threading

from xla_host import allocator


def _end_with_parent() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """Run `xla_server` with this process's arguments."""
    # Before the first thread, which would get an allocator arena of its own: no large message fits
    # into one.
    allocator.tune()
    # Reading by file descriptor: at exit Python would wait for a thread inside sys.stdin.
    threading.Thread(target=_end_with_parent, name="parent watch", daemon=True).start()
    sys.argv[0] = "xla-server"
    runpy.run_module("xla_server", run_name="__main__")


if __name__ == "__main__":
    main()
