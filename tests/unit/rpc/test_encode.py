"""Messages that several rpcs answer with."""

from hypothesis import given, settings
from hypothesis import strategies as st

from xla_contract.stubs import xla_data_pb2, xla_pb2
from xla_server.backends.platform import Profile
from xla_server.rpc.encode import data_handles, fill_profile

COUNTS = st.integers(0, 2**63 - 1)


@settings(max_examples=20, deadline=None)
@given(st.builds(Profile, st.booleans(), COUNTS, COUNTS, COUNTS, COUNTS, COUNTS))
def test_every_field_of_a_profile_is_reported(profile: Profile) -> None:
    message = xla_data_pb2.ExecutionProfile()
    fill_profile(message, profile)
    reported = {field.name: getattr(message, field.name) for field in message.DESCRIPTOR.fields}
    assert reported == profile._asdict() | {"profile_cache_hit": 0, "warmup_run_executed": 0}
    # Filling a part of another message replaces what it had before.
    response = xla_pb2.ExecuteResponse()
    response.profile.compute_time_ns = 1
    fill_profile(response.profile, profile)
    assert response.profile == message


def test_handles_keep_their_order() -> None:
    numbers = [3, 1, 2**63 - 1]
    assert [each.handle for each in data_handles(numbers)] == numbers
    assert data_handles([]) == []
    assert all(isinstance(each, xla_data_pb2.GlobalDataHandle) for each in data_handles(numbers))
