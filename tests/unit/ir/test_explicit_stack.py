"""Deep functions: values, order and exceptions as of ordinary calls, and no bound on depth."""

import pytest

from xla_server.ir.explicit_stack import Deep, result_of


def counted(depth: int, steps: list[int]) -> Deep[int]:
    steps.append(depth)
    below: int = (yield counted(depth - 1, steps)) if depth else 0
    steps.append(depth)
    return below + 1


def test_values_come_back_in_the_order_of_calls() -> None:
    steps: list[int] = []
    assert result_of(counted(2, steps)) == 3
    assert steps == [2, 1, 0, 0, 1, 2]


def test_depth_is_not_limited() -> None:
    assert result_of(counted(100_000, [])) == 100_001


def failing(depth: int, ended: list[int]) -> Deep[None]:
    try:
        if depth == 0:
            raise KeyError("deepest")
        yield failing(depth - 1, ended)
    finally:
        ended.append(depth)


def test_exceptions_pass_all_callers() -> None:
    ended: list[int] = []
    with pytest.raises(KeyError, match="deepest"):
        result_of(failing(3, ended))
    assert ended == [0, 1, 2, 3]


def catching() -> Deep[str]:
    try:
        yield failing(1, [])
    except KeyError:
        return "caught"
    return "not raised"


def test_a_caller_may_handle_an_exception_and_go_on() -> None:
    def outer() -> Deep[str]:
        first: str = yield catching()
        second: str = yield catching()
        return f"{first} {second}"

    assert result_of(outer()) == "caught caught"
