import pytest

from xla_contract.errors import InvalidArgumentError
from xla_server.sessions.values.donation_check import Donations, Path

RESULT = ("step", 3)


@pytest.mark.parametrize("path", [(), (1,), (1, 0), (1, 0, 2)])
def test_the_donated_part_what_is_in_it_and_around_it_must_not_be_used(path: Path) -> None:
    donations = Donations()
    assert not donations
    donations.add(RESULT, (1, 0), "argument 0 of step 4")
    assert donations
    with pytest.raises(InvalidArgumentError) as caught:
        donations.check(RESULT, path, "argument 2 of step 5")
    for said in ("argument 2 of step 5", "the result of step 3", "argument 0 of step 4, which"):
        assert said in caught.value.message


@pytest.mark.parametrize("path", [(0,), (1, 1), (2, 0)])
def test_other_parts_and_other_values_may_be(path: Path) -> None:
    donations = Donations()
    donations.add(RESULT, (1, 0), "argument 0 of step 4")
    donations.check(RESULT, path, "argument 0 of step 5")
    donations.check(("step", 4), (1, 0), "argument 0 of step 5")
    donations.check(("handle", 3), (1, 0), "argument 0 of step 5")
    donations.add(RESULT, path, "argument 1 of step 4")
    with pytest.raises(InvalidArgumentError, match="argument 1 of step 4, which"):
        donations.add(RESULT, path, "argument 0 of step 5")
