import pytest

from xla_contract.errors import ResourceExhaustedError
from xla_server.sessions.limits.memory_account import MemoryAccount
from xla_server.sessions.limits.memory_budget import MemoryBudget
from xla_server.sessions.limits.shares.caller import Caller
from xla_server.sessions.limits.shares.caller_shares import CallerShares, CallerUse


def test_what_a_caller_takes_counts_for_it_and_for_all() -> None:
    memory = MemoryBudget(1000)
    use = CallerUse(CallerShares(0.875, 0.75))
    first, second = (MemoryAccount(memory, use, Caller("ada", "1")) for _ in range(2))
    other = MemoryAccount(memory, use, Caller("eve", "2"))
    first.take(500, "a value")
    second.require(250, "a value")
    second.change(250)
    told = (
        r"a connection may have 0.75 of the 1000 bytes on the devices less those of others, which "
        r"is 750 now, got 1 more with 750 in use and 0 of others"
    )
    for call in (second.take, second.require):
        with pytest.raises(ResourceExhaustedError, match=told) as caught:
            call(1, "f32[9]")
        assert "f32[9]" in caught.value.hint
    other.take(187, "a value")
    # An allocation that can never fit is refused as before.
    with pytest.raises(ResourceExhaustedError, match="values may take 1000 bytes on the devices"):
        other.take(100, "a value")
    first.change(-500)
    assert memory.used_bytes == 437
    first.take(1, "a value")
