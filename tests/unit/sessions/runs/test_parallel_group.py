import threading

import pytest

from xla_contract.errors import AbortedError, UnavailableError
from xla_server.execution.cancellation import Cancellation
from xla_server.sessions.runs.parallel_group import run_all_or_none


def _wait(cancellation: Cancellation) -> None:
    woken = threading.Event()
    cancellation.add_callback(woken.set)
    assert woken.wait(100)
    cancellation.check()


def test_jobs_run_at_the_same_time_and_results_keep_their_order():
    barrier = threading.Barrier(3, timeout=10)

    def job(number):
        def run(_):
            barrier.wait()
            return number

        return run

    assert run_all_or_none([job(n) for n in range(3)], Cancellation()) == [0, 1, 2]


def test_the_first_failure_stops_the_others_and_is_the_one_raised():
    def fail(_):
        raise AbortedError("mine")

    with pytest.raises(AbortedError, match="mine"):
        run_all_or_none([_wait, fail, _wait], Cancellation())


def test_cancelling_the_call_cancels_every_job_with_its_error():
    cancellation = Cancellation()
    threading.Timer(0.1, cancellation.cancel, [UnavailableError("closing")]).start()
    with pytest.raises(UnavailableError, match="closing"):
        run_all_or_none([_wait, _wait], cancellation)
