import sys

from tests.benchmarks.sweep.workers import Worker

_ANSWERING = """
import json, sys
for line in sys.stdin:
    print("not a record")
    record = {"number": int(line), "family": "loop", "description": "", "ours": 2.0, "peer": 1.0}
    print(json.dumps(record), flush=True)
"""


def worker(text: str, hung_seconds: float = 60.0) -> Worker:
    return Worker(1, [sys.executable, "-c", text], hung_seconds)


def test_records_are_read_one_by_one() -> None:
    answering = worker(_ANSWERING)
    assert [answering.measure(number).number for number in (5, 3)] == [5, 3]
    assert answering.measure(4).ratio == 2.0
    assert not answering.is_over
    answering.close()
    assert answering.is_over


def test_a_crash_is_the_record_of_its_program() -> None:
    crashing = worker("import os; input(); os.abort()")
    record = crashing.measure(0)
    assert record.status == "CRASHED"
    assert record.family == "graph"
    assert "-6" in record.note
    assert crashing.is_over


def test_a_worker_that_does_not_answer_is_ended() -> None:
    hanging = worker("import signal; signal.pause()", hung_seconds=0.1)
    assert hanging.measure(0).status == "HUNG"
    assert hanging.is_over
