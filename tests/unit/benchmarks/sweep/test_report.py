import math

from tests.benchmarks.sweep.measuring import Record, take_turns
from tests.benchmarks.sweep.report import geometric_mean, is_bad, report

RECORDS = [
    Record(0, "graph", "slow", ours=4e-3, peer=1e-3, compile_ours=1.0, compile_peer=1.0),
    Record(1, "loop", "small", ours=1e-6, peer=4e-6, compile_ours=1.0, compile_peer=1.0),
    Record(2, "loop", "broken", "WRONG", "off"),
    Record(3, "loop", "long", "skipped"),
]


def test_the_worst_comes_first_and_counts_are_by_size() -> None:
    lines = list(report(5, RECORDS))
    assert lines[2].split()[:3] == ["4.00", "1000.0", "0"]
    (long,) = (line.split() for line in lines if line.startswith("XLA takes 50 us"))
    assert long[-5:] == ["1", "1", "1", "1", "4.00"]
    (every,) = (line.split() for line in lines if line.startswith("all "))
    assert every[-5:] == ["2", "1", "1", "1", "1.00"]


def test_what_is_wrong_is_reported() -> None:
    assert [record.number for record in RECORDS if is_bad(record)] == [2]
    assert any("WRONG 2 loop: off" in line for line in report(5, RECORDS))


def test_a_second_measurement_can_only_shorten_times() -> None:
    again = Record(0, "graph", "slow", ours=2e-3, peer=2e-3)
    assert RECORDS[0].merged(again).ratio == 2.0
    assert RECORDS[0].merged(RECORDS[2]).ratio == 4.0
    assert math.isnan(RECORDS[2].ratio)


def test_geometric_mean() -> None:
    assert geometric_mean([1.0, 4.0]) == 2.0
    assert math.isnan(geometric_mean([]))


def test_both_sides_run_in_turns() -> None:
    calls: list[str] = []
    ours, peer = take_turns(lambda: calls.append("o"), lambda: calls.append("p"), 0.0)
    assert 0 < ours < 1
    assert 0 < peer < 1
    assert "op" in "".join(calls)
    assert "po" in "".join(calls)
