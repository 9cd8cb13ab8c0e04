"""Worker processes: started anew after a number of programs, a crash, or one that hangs."""

import contextlib
import json
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence

from tests.benchmarks.sweep.catalogue import program
from tests.benchmarks.sweep.measuring import Record

PROGRAMS_PER_WORKER = 100
"""Programs after which a worker is replaced, which bounds the memory that compilers keep."""

HUNG_SECONDS = 180.0
"""Time after which a worker is ended that has not finished a program."""


class Worker:
    """A process that measures programs one by one."""

    def __init__(
        self, seed: int, command: Sequence[str], hung_seconds: float = HUNG_SECONDS
    ) -> None:
        self._seed = seed
        self._hung_seconds = hung_seconds
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        self.is_over = False
        self.count = 0

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._lines.put(line)
        self._lines.put("")

    def measure(self, number: int) -> Record:
        """Have a program measured; the worker is over if it crashes or hangs."""
        self.count += 1
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{number}\n")
            self._process.stdin.flush()
            line = self._lines.get(timeout=self._hung_seconds)
        except queue.Empty:
            return self._failed(number, "HUNG", f"for {self._hung_seconds} s")
        except BrokenPipeError:
            line = ""
        if not line:
            return self._failed(number, "CRASHED", "")
        return Record(**json.loads(line))

    def _failed(self, number: int, status: str, note: str) -> Record:
        drawn = program(self._seed, number)
        self.close(kill=status == "HUNG")
        note = note or f"exit status {self._process.returncode}"
        return Record(number, drawn.family, drawn.description, status, note)

    def close(self, *, kill: bool = False) -> None:
        """End the process."""
        self.is_over = True
        assert self._process.stdin is not None
        if kill:
            self._process.kill()
        else:
            # Closing flushes, and a crashed worker does not read the rest.
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        self._process.wait()


def measured(seed: int, numbers: Sequence[int], seconds: float, directory: str) -> Iterator[Record]:
    """Measure programs one after the other, each for about `seconds` besides compiling it."""
    command = [sys.executable, "-m", "tests.benchmarks.sweep.worker"]
    worker: Worker | None = None
    for number in numbers:
        if worker is None or worker.is_over:
            worker = Worker(seed, [*command, str(seed), str(seconds), directory])
        yield worker.measure(number)
        if worker.count >= PROGRAMS_PER_WORKER and not worker.is_over:
            worker.close()
    if worker is not None and not worker.is_over:
        worker.close()
