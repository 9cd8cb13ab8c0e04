import pytest

from xla_contract.errors import ResourceExhaustedError
from xla_server.sessions.limits.memory_budget import MemoryBudget
from xla_server.sessions.limits.shares.caller import Caller
from xla_server.sessions.limits.shares.caller_shares import CallerShares


def test_what_a_caller_takes_counts_for_it_and_for_all() -> None:
    memory = MemoryBudget(1000, CallerShares(0.875, 0.75))
    ada, eve = Caller("ada", "1"), Caller("eve", "2")
    memory.reserve(500, "a value", ada)
    memory.require(250, "a value", ada)
    memory.change(250, ada)
    reported = (
        r"a connection may have 0.75 of the 1000 bytes on the devices less those of others, which "
        r"is 750 now, got 1 more with 750 in use and 0 of others"
    )
    for call in (memory.reserve, memory.require):
        with pytest.raises(ResourceExhaustedError, match=reported) as caught:
            call(1, "f32[9]", ada)
        assert "f32[9]" in caught.value.hint
    memory.reserve(187, "a value", eve)
    # An allocation that can never fit is refused as before.
    with pytest.raises(ResourceExhaustedError, match="values may take 1000 bytes on the devices"):
        memory.reserve(100, "a value", eve)
    memory.change(-500, ada)
    assert memory.used_bytes == 437
    memory.reserve(1, "a value", ada)
