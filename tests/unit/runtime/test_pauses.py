"""A program in native code waits while it is paused, in a kernel and between kernels."""

import threading
import time
from collections.abc import Callable

import pytest

from tests.fault.plain import until
from tests.fault.programs import ONES
from tests.fault.programs import endless as endless_loops
from tests.unit.sessions import sample_runs as runs
from tests.unit.waiting import Rest
from xla_client import Computation
from xla_contract.errors import CancelledError
from xla_server.backends.compiled.cpu import Cpu
from xla_server.execution.cancellation import Cancellation
from xla_server.rpc.threads.thread_pool import ThreadPool
from xla_server.sessions.limits.server_limits import Limits
from xla_server.sessions.session import Session
from xla_server.sessions.shared_resources import SharedResources


@pytest.mark.parametrize(
    ("endless", "argument"), [(runs.endless, runs.ONES), (endless_loops, ONES)]
)
def test_a_paused_program_takes_no_time(
    endless: Callable[[], Computation], argument: object
) -> None:
    service = Session(SharedResources(Cpu(), Limits(1 << 24), ThreadPool(1, "execution")))
    handle, value = runs.compiled(service, endless()), runs.kept(service, argument)
    cancellation, clock = Cancellation(), list[int]()
    begun = threading.Event()

    def run() -> None:
        clock.append(time.pthread_getcpuclockid(threading.get_ident()))
        begun.set()
        with pytest.raises(CancelledError):
            service.runner.run(
                service.runner.compiled_under(handle),
                [service.data.get(value)],
                service.devices.resolve(None),
                cancellation,
            )

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(100)
    rests = Rest(thread)

    def used() -> float:
        return time.clock_gettime(clock[0])

    try:
        for _ in range(2):
            before = used()
            until(lambda before=before: used() > before + 0.005)
            cancellation.pause()
            # A program that goes on would not be found asleep so often, and take no time.
            until(rests)
            before = used()
            assert all(rests() for _ in range(1000))
            assert used() == before
            cancellation.proceed()
        cancellation.pause()
    finally:
        cancellation.cancel()
        thread.join(100)
    assert not thread.is_alive()
    service.close()
