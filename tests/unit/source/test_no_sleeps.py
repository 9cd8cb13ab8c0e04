"""Tests wait for events, never for time, so that they hold on a machine that is busy.

Sleeps are found in the source, and joins and waits of few seconds as far as these are literals.
Each that stays is listed with its reason.
"""

import ast
import re
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONG_SECONDS = 20
"""Seconds of a wait that only ends a test which hangs."""

POLLED = "between two looks for an event"
LOAD = "sets how much is asked of a server or a core in a second"
SAMPLED = "between two measurements, as long as something else runs"
GRPC = "grpc's own clock: what it allows depends on the time between frames, or on their absence"
SLOW = "a request that arrives slowly; with a clock of its own in unit/rpc/limits"
GPU = "nothing shows from outside how far a kernel on a GPU has come"
BYTES = "no time: a run that waits for so many bytes"
TIMEOUT = "the end of the time is what is tested"

ALLOWED = {
    POLLED: "benchmarks/ranks.py: _serve; fault/operator_server.py; fault/plain.py: until",
    LOAD: "fault/storm_speed.py; fault/storms.py: slow_uploads",
    SAMPLED: "large/transfer_of_3_gib.py: _watch",
    GRPC: """fault/connections/test_pings.py: test_a_client_without_calls_may_ask_now_and_then;
        fault/proxy.py: is_quiet""",
    SLOW: """fault/clients/test_slow_requests.py:
        test_a_request_may_arrive_slowly_while_there_is_memory""",
    GPU: "cuda/checks/fault_checks.py: _running goes_on_beside_a_run",
    BYTES: """unit/sessions/runs/test_memory_queue.py:
        test_a_large_one_is_not_starved_by_those_that_pass_it
        test_only_what_fits_into_the_spared_share_passes_waiters""",
    TIMEOUT: """unit/client/feeds/test_condition.py:
        test_what_does_not_happen_is_waited_for_as_long_as_was_said""",
}


def _waits(node: ast.AST) -> bool:
    """Return whether an expression sleeps, or waits or joins for few seconds."""
    if isinstance(node, ast.Constant):
        # Programs of other processes.
        return isinstance(node.value, str) and re.search(r"\bsleep\(", node.value) is not None
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    first = given[0].value if given and isinstance(given[0], ast.Constant) else None
    if node.func.attr == "sleep":
        return first != 0  # That lets others run.
    is_receiver_plain = not isinstance(node.func.value, ast.Constant)
    if node.func.attr in ("wait", "join") and is_receiver_plain:
        return isinstance(first, int | float) and 0 < first < LONG_SECONDS
    return False


def _found(node: ast.AST, function: str = "") -> Iterable[str]:
    """Return the function, empty for the module, of each that waits."""
    for child in ast.iter_child_nodes(node):
        if _waits(child):
            yield function
        is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        # An inner function is part of the outer one.
        yield from _found(child, function or (child.name if is_function else ""))  # type: ignore[attr-defined]


def _allowed() -> set[str]:
    entries = (each.partition(":") for text in ALLOWED.values() for each in text.split(";"))
    return {
        f"{file.strip()}: {function}".strip()
        for file, _, functions in entries
        for function in functions.split() or [""]
    }


def _in_tests() -> set[str]:
    files = (path for path in ROOT.rglob("*.py") if path != Path(__file__))
    return {
        f"{path.relative_to(ROOT)}: {function}".strip()
        for path in files
        for function in _found(ast.parse(path.read_text()))
    }


def test_what_waits_for_time_is_listed_and_what_is_listed_does() -> None:
    found, allowed = _in_tests(), _allowed()
    assert found - allowed == set(), "wait for an event: tests.fault.plain.until, Event.wait(100)"
    assert allowed - found == set(), "no longer waits for time"


def test_sleeps_and_short_waits_are_found() -> None:
    assert [*_found(ast.parse("def f():\n    def g():\n        time.sleep(x)"))] == ["f"]
    for text in ("asyncio.sleep(0.1)", "thread.join(0.1)", "e.wait(timeout=1)", "'time.sleep(1)'"):
        assert [*_found(ast.parse(text))] == [""], text
    for text in ("asyncio.sleep(0)", "thread.join(100)", "e.wait(0)", "', '.join(x)", "e.wait()"):
        assert not [*_found(ast.parse(text))], text
